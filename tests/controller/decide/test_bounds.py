"""A class is a bound: for each field what a Tenant may say, what it may not, and what the refusal names."""

from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.conditions import Reason
from controller.decide.admit import refuse
from controller.decide.bounds import POLICIES, beyond
from controller.decide.bounds.question import Question
from controller.plane.quota import resource_quotas
from controller.plane.spec import PlaneSpec
from controller.sections import over
from controller.settings import Settings
from tests.kit.tenantsamples import case, plane_for, tenant, tenant_class

Spec = dict[str, Any]
NETWORKS = {"egressCIDRs": ["10.0.0.0/9"], "allowedEgressCIDRs": ["10.128.0.0/9", "2001:db8::/32"]}


def plane(**spec: Any) -> Spec:
    return {"controlPlane": spec}


def component(name: str, kind: str, **amounts: Any) -> Spec:
    return plane(resources={name: {kind: amounts}})


def network(*cidrs: str) -> Spec:
    return {"isolation": {"network": {"egressCIDRs": list(cidrs)}}}


def objects(**counts: Any) -> Spec:
    return {"quota": {"resources": {}, "objects": {name.replace("__", "."): value for name, value in counts.items()}}}


# What the class says, what the Tenant asks for, and the two values that the refusal names beside the field.
ISSUERS: Spec = {"access": {"issuers": [{"name": "plain"}, {"name": "corp", "claims": {"groups": "groups"}}]}}


def access(**issuer: Any) -> Spec:
    return {"access": {"oidc": [issuer]}}


LENDING: Spec = {"quota": {"cohorts": ["research"], "resources": {"nvidia.com/gpu": {"maxBorrowing": 8}}}}


def cohort_quota(**said: Any) -> Spec:
    return {"quota": {"cohort": "research", "resources": {"nvidia.com/gpu": {"nominal": 8} | said}}}


def backup(**asked: Any) -> Spec:
    return {"backup": asked}


REFUSED: dict[str, tuple[Spec, Spec, tuple[str, ...]]] = {
    "a schedule where the class has none": ({}, backup(schedule="6h"), ("spec.backup.schedule", "6h", "leave it out")),
    "a plane that is kept for no time": ({}, {"deletionPolicy": "Retain"}, ("spec.deletionPolicy", "Retain", "retainFor")),
    "more frequent snapshots": (backup(schedule="6h"), backup(schedule="359m"), ("spec.backup.schedule", "359m", "6h")),
    "more frequent ones than the class's shortest": (
        backup(schedule="6h", shortestSchedule="1h"), backup(schedule="30m"), ("spec.backup.schedule", "30m", "1h")),
    "more snapshots than are kept": (
        backup(schedule="6h", retention={"daily": 3}), backup(retention={"daily": 4, "hourly": 24}),
        ("spec.backup.retention.daily", "4", "3")),
    "a target that the class does not offer": (
        backup(schedule="6h", target="a", targets=["b"]), backup(target="c"), ("spec.backup.target", "c", "a, b")),
    "a target where the class offers none": (
        backup(schedule="6h"), backup(target="c"), ("spec.backup.target", "c", "leave it out")),
    "a cohort that is not listed": (
        {"quota": {"cohorts": ["others", "more"]}},
        {"quota": {"cohort": "research"}},
        ("spec.quota.cohort", "research", "others, more"),
    ),
    "a cohort where none is listed": ({}, {"quota": {"cohort": "research"}}, ("spec.quota.cohort", "research", "none")),
    "borrowing too much": (
        LENDING,
        cohort_quota(borrowingLimit=9),
        ("spec.quota.resources[nvidia.com/gpu].borrowingLimit", "9", "8", "maxBorrowing"),
    ),
    "borrowing too much in parts": (
        LENDING,
        cohort_quota(flavors=[{"name": name, "nominal": 4, "borrowingLimit": more} for name, more in (("a", 5), ("b", 4))]),
        ("spec.quota.resources[nvidia.com/gpu].flavors", "9", "8", "maxBorrowing"),
    ),
    "an exposure that is not offered": (
        {"exposure": {"type": "None", "allowedTypes": ["Gateway"]}},
        {"exposure": {"type": "LoadBalancer"}},
        ("spec.exposure.type", "LoadBalancer", "None, Gateway"),
    ),
    "another's name": (
        {},
        {"exposure": {"hostnames": ["team-b.example.org"]}},
        ("spec.exposure.hostnames", "team-b.example.org", "none"),
    ),
    "a looser level": (
        {"isolation": {"podSecurity": "restricted"}},
        {"isolation": {"podSecurity": "baseline"}},
        ("spec.isolation.podSecurity", "baseline", "restricted"),
    ),
    "out of the forced runtime": (
        {"isolation": {"runtimeClassName": "kata", "allowedRuntimeClasses": ["gvisor"]}},
        {"isolation": {"runtimeClassName": "runc"}},
        ("spec.isolation.runtimeClassName", "runc", "kata, gvisor"),
    ),
    "a runtime of a class without any": (
        {},
        {"isolation": {"runtimeClassName": "nvidia-legacy"}},
        ("spec.isolation.runtimeClassName", "nvidia-legacy", "none"),
    ),
    "out of user namespaces": (
        {"isolation": {"userNamespaces": True}},
        {"isolation": {"userNamespaces": False}},
        ("spec.isolation.userNamespaces", "false", "true"),
    ),
    "everywhere": (
        {"isolation": {"network": NETWORKS}},
        network("10.1.0.0/16", "0.0.0.0/0"),
        ("egressCIDRs: 0.0.0.0/0", "10.0.0.0/9"),
    ),
    "everywhere by six": ({"isolation": {"network": NETWORKS}}, network("::/0"), ("egressCIDRs: ::/0", "2001:db8::/32")),
    "out of a class without addresses": ({}, network("192.0.2.7/32"), ("egressCIDRs: 192.0.2.7/32", "none")),
    "a network around the class's": ({"isolation": {"network": NETWORKS}}, network("10.0.0.5/7"), ("10.0.0.5/7",)),
    "out of the pool": (
        {"nodes": {"selector": {"pool": "shared"}}},
        {"nodes": {"selector": {"pool": "everyones", "rack": "7"}}},
        ("spec.nodes.selector[pool]", "everyones", "shared"),
    ),
    "out of an own pool": (
        {"nodes": {"dedicated": True}},
        {"nodes": {"dedicated": False}},
        ("spec.nodes.dedicated", "false", "true"),
    ),
    "nodes of its own": (
        {},
        {"nodes": {"dedicated": True, "selector": {"pool": "a"}}},
        ("spec.nodes.dedicated: true", "0 nodes", "maxDedicated"),
    ),
    "more pods than built in": ({}, objects(pods=1001), ("spec.quota.objects[pods]", "1001", "1000")),
    "more pods than the class says": ({"quota": {"objects": {"pods": 50}}}, objects(pods=51), ("51", "50")),
    "more in thousands": ({"quota": {"objects": {"pods": 50}}}, objects(pods="1k"), ("1k", "50")),
    "more by an exponent": ({}, objects(pods="2e3"), ("2e3", "1000")),
    "ports of the node": ({}, objects(services__nodeports=1), ("services.nodeports", "1", "0")),
    "a snapshot more": (
        {"allowedSnapshotClasses": ["daily"]},
        {"quota": {"objects": {"count/volumesnapshots.snapshot.storage.k8s.io": 101}}},
        ("101", "100"),
    ),
    "GPUs by the way of objects": (
        {},
        {"quota": {"objects": {"requests.nvidia.com/gpu": 64}}},
        ("requests.nvidia.com/gpu", "64"),
    ),
    "memory by the way of objects": ({}, {"quota": {"objects": {"limits.memory": 1}}}, ("limits.memory",)),
    "three of one": ({}, plane(replicas=3), ("spec.controlPlane.replicas", "3", "1")),
    "a larger volume than built in": ({}, plane(storage={"size": "3Gi"}), ("spec.controlPlane.storage.size", "3Gi", "2Gi")),
    "a larger volume in other words": (plane(storage={"size": "4Gi"}), plane(storage={"size": "4097Mi"}), ("4097Mi", "4Gi")),
    "beyond the largest": (plane(storage={"size": "4Gi", "maxSize": "8Gi"}), plane(storage={"size": "9Gi"}), ("9Gi", "8Gi")),
    "another storage": (
        plane(storage={"className": "slow", "allowedClassNames": ["medium"]}),
        plane(storage={"className": "fast"}),
        ("spec.controlPlane.storage.className", "fast", "slow, medium"),
    ),
    "storage of a silent class": ({}, plane(storage={"className": "fast"}), ("fast", "usual")),
    "requests beyond the built in": ({}, component("etcd", "requests", cpu="21m"), ("etcd.requests.cpu", "21m", "20m")),
    "whole cores": ({}, component("syncer", "requests", cpu=1), ("resources.syncer.requests.cpu", "1", "20m")),
    "half a core": ({}, component("dns", "requests", cpu="0.5"), ("0.5", "5m")),
    "memory beyond the built in": ({}, component("apiServer", "limits", memory="3073Mi"), ("3073Mi", "3072Mi")),
    "memory beyond the built in for such a store": (
        plane(storage={"size": "8Gi", "quota": "1Gi", "maxQuota": "2Gi"}),
        component("etcd", "limits", memory="2561Mi"),
        ("2561Mi", "2560Mi"),
    ),
    "memory in bytes": ({}, component("apiServer", "limits", memory=3221225473), ("3221225473", "3072Mi")),
    "more data than built in": ({}, plane(storage={"quota": "513Mi"}), ("spec.controlPlane.storage.quota", "513Mi", "512Mi")),
    "more data than the class's": (plane(storage={"quota": "256Mi"}), plane(storage={"quota": "257Mi"}), ("257Mi", "256Mi")),
    "more data than the most": (plane(storage={"maxQuota": "1Gi"}), plane(storage={"quota": "1025Mi"}), ("1025Mi", "1Gi")),
    "more data than the volume has room for": (
        plane(storage={"maxQuota": "4Gi"}),
        plane(storage={"quota": "513Mi"}),
        ("513Mi", "a quarter of the volume of 2Gi"),
    ),
    "more data than follows from the largest volume": (
        plane(storage={"size": "2Gi", "maxSize": "6Gi"}),
        plane(storage={"size": "6Gi", "quota": "1537Mi"}),
        ("1537Mi", "1536Mi"),
    ),
    "a volume too small for the class's data": (
        plane(storage={"size": "8Gi", "quota": "2Gi"}),
        plane(storage={"size": "4Gi"}),
        ("2Gi of the class", "4Gi"),
    ),
    "a processor beyond the class's": (
        component("apiServer", "limits", cpu="1"),
        component("apiServer", "limits", cpu="1001m"),
        ("1001m", "1"),
    ),
    "more CPU than follows from what the class's API servers request": (
        {},
        component("apiServer", "limits", cpu="3"),
        ("spec.controlPlane.resources.apiServer.limits.cpu", "3", "2"),
    ),
    "beyond the most": (
        {"controlPlane": {"maxResources": {"etcd": {"limits": {"memory": "2Gi"}}}}},
        component("etcd", "limits", memory="3Gi"),
        ("3Gi", "2Gi"),
    ),
    "pods of its own under Slurm alone": (
        {"scheduling": {"modes": ["Slurm"]}},
        {"scheduling": {"mode": "Kubernetes"}},
        ("spec.scheduling.mode", "Kubernetes", "Slurm"),
    ),
    "a provider that the class has not": (ISSUERS, access(issuer="other"), ("spec.access.oidc[other]", "corp, plain")),
    "a provider where there are none": ({}, access(issuer="corp"), ("spec.access.oidc[corp]", "it has none")),
    "the default mode under Slurm alone": ({"scheduling": {"modes": ["Slurm"]}}, {}, ("Kubernetes", "Slurm")),
    "a Secret that is not shared": (
        {"sharedSecrets": [{"name": "registry"}]},
        {"sharedSecrets": [{"name": "registry"}, {"name": "root-of-all"}]},
        ("spec.sharedSecrets: root-of-all", "registry"),
    ),
    "a Secret by the way of ConfigMaps": (
        {"sharedSecrets": [{"name": "registry"}]},
        {"sharedConfigMaps": [{"name": "registry"}]},
        ("spec.sharedConfigMaps: registry", "none"),
    ),
}  # fmt: skip

TAKEN: dict[str, tuple[Spec, Spec]] = {
    "nothing": ({}, {}),
    "a tighter level": ({"isolation": {"podSecurity": "baseline"}}, {"isolation": {"podSecurity": "restricted"}}),
    "the same level": ({"isolation": {"podSecurity": "restricted"}}, {"isolation": {"podSecurity": "restricted"}}),
    "the forced runtime": ({"isolation": {"runtimeClassName": "kata"}}, {"isolation": {"runtimeClassName": "kata"}}),
    "a listed runtime": (
        {"isolation": {"runtimeClassName": "kata", "allowedRuntimeClasses": ["gvisor"]}},
        {"isolation": {"runtimeClassName": "gvisor"}},
    ),
    "part of the addresses": ({"isolation": {"network": NETWORKS}}, network("10.5.0.0/16", "2001:db8:7::/48")),
    "across two of the class": ({"isolation": {"network": NETWORKS}}, network("10.0.0.0/8")),
    "no address": ({"isolation": {"network": NETWORKS}}, network()),
    "a narrower pool": ({"nodes": {"selector": {"pool": "shared"}}}, {"nodes": {"selector": {"rack": "7", "pool": "shared"}}}),
    "nodes of its own where the class gives some": (
        {"nodes": {"maxDedicated": 2}},
        {"nodes": {"dedicated": True, "selector": {"pool": "a"}}},
    ),
    "shared nodes where the class gives some": ({"nodes": {"maxDedicated": 2}}, {"nodes": {"dedicated": False}}),
    "fewer objects": ({"quota": {"objects": {"pods": 50}}}, objects(pods=50, secrets=0)),
    "as many in other words": ({}, objects(pods="1k")),
    "objects of an uncounted kind": ({}, {"quota": {"objects": {"count/widgets.example.org": 7}}}),
    "one of three": (plane(replicas=3), plane(replicas=1)),
    "three where they are allowed": (plane(replicas=1, maxReplicas=3), plane(replicas=3)),
    "a smaller volume": (plane(storage={"size": "4Gi"}), plane(storage={"size": "4096Mi"})),
    "up to the largest": (plane(storage={"size": "4Gi", "maxSize": "8Gi"}), plane(storage={"size": "8Gi"})),
    "a largest below the own": (plane(storage={"size": "4Gi", "maxSize": "1Gi"}), plane(storage={"size": "4Gi"})),
    "less data": ({}, plane(storage={"quota": "100Mi"})),
    "as much data as the most": (plane(storage={"size": "4Gi", "maxQuota": "1Gi"}), plane(storage={"quota": "1024Mi"})),
    "as much data as follows from the largest volume": (
        plane(storage={"size": "2Gi", "maxSize": "6Gi"}),
        plane(storage={"size": "6Gi", "quota": "1536Mi"}),
    ),
    "the built in data on a small volume, as ever": (plane(storage={"size": "1Gi", "quota": "512Mi"}), {}),
    "memory for more data": (
        plane(storage={"size": "4Gi", "maxQuota": "1Gi"}),
        {"controlPlane": {"storage": {"quota": "1Gi"}, "resources": {"etcd": {"limits": {"memory": "2560Mi"}}}}},
    ),
    "the memory of the class's data, with less": (
        {},
        {"controlPlane": {"storage": {"quota": "100Mi"}, "resources": {"etcd": {"limits": {"memory": "1408Mi"}}}}},
    ),
    "the installation's storage": ({}, plane(storage={"className": "usual"})),
    "listed storage": (plane(storage={"allowedClassNames": ["fast"]}), plane(storage={"className": "fast"})),
    "the built in, in other words": ({}, component("apiServer", "limits", memory="3Gi")),
    "a limit where there is none": (plane(cpuLimits="None"), component("apiServer", "limits", cpu="64")),
    "as much CPU as a request of the class's gives": (
        component("apiServer", "requests", cpu="500m"), component("apiServer", "limits", cpu="20")),
    "as much CPU as the most that may be requested gives": (
        {"controlPlane": {"maxResources": {"dns": {"requests": {"cpu": "50m"}}}}}, component("dns", "limits", cpu="2")),
    "a Secret that is shared": ({"sharedSecrets": [{"name": "a", "onRequest": True}]}, {"sharedSecrets": [{"name": "a"}]}),
    "a provider of the class": (ISSUERS, access(issuer="corp", requiredGroups=["g"])),
    "groups of a provider without a groups claim, which admit no user": (ISSUERS, access(issuer="plain", requiredGroups=["g"])),
    "a cohort that is listed": ({"quota": {"cohorts": ["others", "research"]}}, {"quota": {"cohort": "research"}}),
    "borrowing as much as there may be": (LENDING, cohort_quota(borrowingLimit="8")),
    "borrowing without a limit in the class": ({"quota": {"cohorts": ["research"]}}, cohort_quota(borrowingLimit=64)),
    "a plane that the class would not keep": ({"deletion": {"retainFor": "48h"}}, {"deletionPolicy": "Retain"}),
    "less frequent snapshots": (backup(schedule="6h"), backup(schedule="24h")),
    "as frequent ones in other words": (backup(schedule="6h"), backup(schedule="360m")),
    "frequent ones that the class offers": (backup(shortestSchedule="1h"), backup(schedule="1h")),
    "the target of the class": (backup(schedule="6h", target="a"), backup(target="a")),
    "a further target of the class": (backup(schedule="6h", targets=["a", "b"]), backup(target="b")),
    "fewer that are kept": (backup(schedule="6h"), backup(retention={"hourly": 0, "weekly": 1})),
    "Slurm under Slurm alone": ({"scheduling": {"modes": ["Slurm"]}}, {"scheduling": {"mode": "Slurm"}}),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_class_does_not_allow_is_refused_with_both_values(name: str) -> None:
    offer, asked, words = REFUSED[name]
    refusal = refuse(case(tenant(**asked), tenant_class(**offer), Settings(storage_class="usual")))
    assert refusal is not None
    assert refusal.reason is Reason.OUT_OF_BOUNDS
    assert all(word in refusal.message for word in words), refusal.message


@pytest.mark.parametrize("name", TAKEN)
def test_what_tightens_a_class_or_is_listed_in_it_is_taken(name: str) -> None:
    offer, asked = TAKEN[name]
    assert beyond(Question(asked, offer, "usual")) == ()


def test_everything_that_is_beyond_a_class_is_told_at_once() -> None:
    asked = tenant(isolation={"podSecurity": "baseline"}, controlPlane={"replicas": 3})
    refusal = refuse(case(asked, tenant_class(isolation={"podSecurity": "restricted"})))
    assert refusal is not None
    assert refusal.message.count("; spec.controlPlane.replicas") == 1
    assert refusal.message.startswith("spec.isolation.podSecurity: baseline")


def test_every_policy_refuses_something_here() -> None:
    for policy in POLICIES:
        assert any(list(policy(Question(asked, offer, "usual"))) for offer, asked, _ in REFUSED.values()), policy.__name__


def built(offer: Spec, asked: Spec) -> PlaneSpec:
    return plane_for(tenant(**asked), tenant_class(**offer))


def test_a_tenants_selector_is_added_to_the_pool_of_its_class() -> None:
    spec = built({"nodes": {"selector": {"pool": "shared"}}}, {"nodes": {"selector": {"rack": "7"}}})
    assert spec.nodes.selector == (("pool", "shared"), ("rack", "7"))


def test_tolerations_are_the_classs_alone() -> None:
    everywhere = [{"operator": "Exists"}]
    assert built({}, {"nodes": {"tolerations": everywhere}}).nodes.tolerations == ()


def test_a_component_keeps_what_the_class_says_of_another() -> None:
    offer = component("apiServer", "limits", cpu="1")
    spec = built(offer, component("dns", "requests", cpu="3m"))
    assert (spec.budgets.apiserver.cpu_limit, spec.budgets.dns.cpu) == ("1", "3m")


def test_a_tenant_may_give_up_the_addresses_of_its_class() -> None:
    offer = {"isolation": {"network": NETWORKS}}
    assert built(offer, {}).network.egress_cidrs == ("10.0.0.0/9",)
    assert built(offer, network()).network.egress_cidrs == ()
    assert built(offer, network("10.130.0.0/16")).network.egress_cidrs == ("10.130.0.0/16",)


def test_counts_of_objects_never_stand_in_the_place_of_a_quota() -> None:
    spec = built({}, {})
    hard = {name: value for quota in resource_quotas(spec) for name, value in quota["spec"]["hard"].items()}
    assert hard["requests.nvidia.com/gpu"] == "24"


prefixes = st.integers(0, 32)
addresses = st.integers(0, 2**32 - 1)
cidrs = st.builds(
    lambda address, prefix: str(ip_network((address >> (32 - prefix) << (32 - prefix), prefix))), addresses, prefixes
)


@given(st.lists(cidrs, max_size=4), cidrs, addresses)
def test_whatever_address_a_tenant_may_reach_its_class_lists(listed: list[str], asked: str, address: int) -> None:
    question = Question(network(asked), {"isolation": {"network": {"egressCIDRs": listed}}})
    inside = ip_network(asked)
    point = inside[address % inside.num_addresses]
    if not beyond(question):
        assert any(point in ip_network(cidr) for cidr in listed)
    elif asked in listed:
        pytest.fail("what the class lists itself is refused")


leaves = st.one_of(st.none(), st.integers(0, 3), st.lists(st.integers(0, 2), max_size=2))
sections = st.recursive(leaves, lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_leaves=8)
maps = st.dictionaries(st.sampled_from("abc"), sections, max_size=3)


@given(maps, maps)
def test_what_a_section_leaves_out_is_the_one_belows(below: Spec, above: Spec) -> None:
    merged = over(below, above)
    for key in below.keys() - {key for key, value in above.items() if value is not None}:
        assert merged[key] == below[key]
    for key, value in above.items():
        if value is not None and not isinstance(value, dict):
            assert merged[key] == value
