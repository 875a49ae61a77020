"""A tenant that runs and is refused now: what holds for it meanwhile, on paper."""

import json
from dataclasses import replace
from ipaddress import IPv4Network, collapse_addresses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import deviceclaims, privileges
from bulkhead.api.conditions import Reason, find_condition
from bulkhead.api.quantity import parse
from controller.decide import held
from controller.decide.admit import refuse
from controller.decide.bounds import beyond, within
from controller.decide.bounds.question import Question
from controller.decide.dedicated import Finding
from controller.decide.held import hold, holds
from controller.decide.plan import plan
from controller.decide.planespec import plane_of
from controller.existing import Existing, by_slot, slot_of
from controller.plane import syncer
from controller.plane.quota import resource_quotas
from controller.plane.render import render
from controller.plane.spec import PlaneSpec
from controller.refusal import Refusal
from controller.settings import Settings
from tests.controller.decide.test_bounds import REFUSED
from tests.controller.tenant.test_status import ready_findings
from tests.kit.statuses import compute
from tests.kit.tenantsamples import NOW, SLICE, case, material, tenant, tenant_class

Spec = dict[str, Any]
SETTINGS = Settings(storage_class="usual")
BEYOND = Refusal(Reason.OUT_OF_BOUNDS, "")
TAKEN = Finding(refusing=Refusal(Reason.NODES_TAKEN, ""))
GVISOR = {"isolation": {"runtimeClassName": "gvisor"}}


def everything(spec: PlaneSpec) -> Existing:
    return by_slot(render(spec, material(spec)).everything())


def ran(offer: Spec, asked: Spec) -> PlaneSpec:
    return replace(plane_of(case(tenant(**asked), tenant_class(**offer), SETTINGS)), service_slice=SLICE)


def kept(offer: Spec, asked: Spec, before: PlaneSpec | None = None, **more: Any) -> PlaneSpec:
    """What is built of a tenant that is held, whose nodes have been looked at."""
    existing = everything(before) if before is not None else {}
    held_case = case(tenant(**asked), tenant_class(**offer), SETTINGS, existing=existing, **{"nodes": Finding()} | more)
    return replace(hold(held_case, BEYOND).plane, service_slice=SLICE)


@pytest.mark.parametrize("name", REFUSED)
def test_without_what_is_beyond_its_class_a_tenant_is_inside_it(name: str) -> None:
    offer, asked, _ = REFUSED[name]
    left = within(asked, beyond(Question(asked, offer, "usual")))
    immutable = {("controlPlane", "replicas")}
    # If the class does not offer the mode, nothing chooses one for the tenant.
    assert {excess.path for excess in beyond(Question(left, offer, "usual"))} <= immutable | {("scheduling", "mode")}
    refusal = refuse(case(tenant(**asked), tenant_class(**offer), SETTINGS))
    assert refusal is not None
    assert holds(refusal, tenant_class(**offer))


def test_what_is_refused_takes_nothing_else_along() -> None:
    asked = {"isolation": {"podSecurity": "baseline", "userNamespaces": True}, "nodes": {"selector": {"a": "1", "rack": "7"}}}
    offer = {"isolation": {"podSecurity": "restricted"}, "nodes": {"selector": {"a": "2"}}}
    spec = kept(offer, asked, ran({}, asked))
    assert (spec.isolation.pod_security, spec.isolation.user_namespaces) == ("restricted", True)
    assert spec.nodes.selector == (("a", "2"), ("rack", "7"))


def test_a_runtime_that_the_class_no_longer_lists_stays_unless_another_is_forced() -> None:
    before = ran({"isolation": {"allowedRuntimeClasses": ["gvisor"]}}, GVISOR)
    assert kept({}, GVISOR, before).isolation.runtime_class == "gvisor"
    assert kept({"isolation": {"runtimeClassName": "kata"}}, GVISOR, before).isolation.runtime_class == "kata"
    # A runtime that it only requests now is not one that it had.
    assert kept({}, {"isolation": {"runtimeClassName": "legacy"}}, before).isolation.runtime_class == "gvisor"
    assert kept({}, {"isolation": {"runtimeClassName": "legacy"}}, ran({}, {})).isolation.runtime_class is None
    assert kept({}, {"isolation": {"runtimeClassName": "legacy"}}).isolation.runtime_class is None


def test_of_addresses_what_the_class_still_lists_stays_and_none_come_back_with_its_own_list() -> None:
    asked = {"isolation": {"network": {"egressCIDRs": ["10.0.0.0/8", "192.0.2.7/32"]}}}
    assert kept({"isolation": {"network": {"allowedEgressCIDRs": ["10.64.0.0/10"]}}}, asked).network.egress_cidrs == (
        "10.64.0.0/10",
    )
    assert kept({"isolation": {"network": {"egressCIDRs": ["172.16.0.0/12"]}}}, asked).network.egress_cidrs == ()


def test_nodes_of_its_own_stay_its_own_and_none_are_waited_for_that_it_may_not_have() -> None:
    asked = {"nodes": {"dedicated": True, "selector": {"pool": "a"}}}
    before = ran({"nodes": {"maxDedicated": 2}}, asked)
    assert before.nodes.dedicated
    assert kept({}, asked, before).nodes.dedicated
    assert not kept({}, asked, ran({}, {"nodes": {"selector": {"pool": "a"}}})).nodes.dedicated
    taken = kept({"nodes": {"maxDedicated": 1}}, asked, ran({}, {}), nodes=TAKEN)
    assert not taken.nodes.dedicated
    assert kept({"nodes": {"dedicated": True, "selector": {"pool": "a"}}}, {"nodes": {"dedicated": False}}).nodes.dedicated
    # Without a pool there are no nodes that could be its own, and its pods would wait for ever.
    assert not kept({"nodes": {"dedicated": True}}, {}, ran({}, {})).nodes.dedicated


def claims(asked: Spec, offer: Spec) -> bool:
    return hold(case(asked, offer, SETTINGS), BEYOND).claims_nodes


def test_nodes_are_claimed_as_the_class_says_but_never_in_another_pool() -> None:
    offer = tenant_class(nodes={"dedicated": True, "selector": {"pool": "a"}}, isolation={"podSecurity": "restricted"})
    loose = {"podSecurity": "baseline"}
    assert claims(tenant(isolation=loose), offer)
    assert claims(tenant(nodes={"dedicated": False}), offer)
    assert not claims(tenant(nodes={"selector": {"pool": "b"}}), offer)
    assert not claims(tenant(isolation=loose), tenant_class())


def quota_of(spec: PlaneSpec) -> dict[str, str]:
    return {name: value for quota in resource_quotas(spec) for name, value in quota["spec"]["hard"].items()}


@pytest.mark.parametrize("now", ["65", "1000", "no number"])
def test_amounts_that_are_refused_stay_as_the_host_counts_them(now: str) -> None:
    loose = {"quota": {"resources": {"nvidia.com/gpu": {"maxNominal": 65}}, "objects": {"pods": 2000, "secrets": 50}}}
    tight = {"quota": {"resources": {"nvidia.com/gpu": {"maxNominal": 64}}, "objects": {"pods": 10, "secrets": 40}}}
    objects = {"pods": 2000, "secrets": 50}
    before = ran(loose, {"quota": {"resources": {"nvidia.com/gpu": {"nominal": 65}}, "objects": objects}})
    spec = kept(tight, {"quota": {"resources": {"nvidia.com/gpu": {"nominal": now}}, "objects": objects}}, before)
    hard = quota_of(spec)
    assert (hard["requests.nvidia.com/gpu"], hard["pods"]) == ("65", "2k")
    assert syncer.settings(spec)["limits"]["nvidia.com/gpu"] == 65
    # Without a quota that counts, the class's word holds.
    assert quota_of(kept(tight, {"quota": {"resources": {"nvidia.com/gpu": {"nominal": now}}}}))["pods"] == "10"


CLAIMS = deviceclaims.COUNT
COUNTED = ("configmaps", "count/pods", CLAIMS, "pods", "secrets")
counts = st.dictionaries(st.sampled_from(COUNTED), st.sampled_from(["0", "7", "2500", "4k"]))


def test_objects_of_many_kinds_that_are_refused_stay_as_the_host_counts_them() -> None:
    asked = {"quota": {"objects": {"count/pods": "3k", "secrets": "4k", CLAIMS: "2k"}}}
    before = ran(asked, asked)
    after = kept({"quota": {"objects": {"count/pods": 10, "secrets": 10, CLAIMS: 10}}}, asked, before)
    names = [name for name, _ in after.quota.object_limits]
    assert names == sorted(names)
    assert quota_of(after) == quota_of(before)
    assert {quota_of(after)[name] for name in ("secrets", CLAIMS)} == {"7k", "5k"}


@given(counts, counts, counts)
def test_what_is_held_is_held_to_itself(earlier: Spec, offered: Spec, wanted: Spec) -> None:
    offer = {"quota": {"objects": offered, "resources": {"nvidia.com/gpu": {"maxNominal": 2}}}}
    asked = {"quota": {"objects": wanted, "resources": {"nvidia.com/gpu": {"nominal": 3}}}}
    once = kept(offer, asked, ran({"quota": {"objects": earlier}}, {}))
    assert kept(offer, asked, once) == once


def test_a_resource_that_the_class_no_longer_knows_is_still_counted() -> None:
    asked = {"quota": {"resources": {"nvidia.com/gpu": {"nominal": 4}, "amd.com/gpu": {"nominal": 2}}}}
    before = ran({"gpuResources": ["nvidia.com/gpu", "amd.com/gpu"]}, asked)
    spec = kept({}, asked, before)
    assert quota_of(spec)["requests.amd.com/gpu"] == "2"
    assert spec.quota.gpu_resources == ("nvidia.com/gpu",)


def test_a_limit_on_the_host_that_cannot_be_read_stops_no_tenant_from_being_held() -> None:
    asked = {"quota": {"objects": {"pods": 2000}, "resources": {"nvidia.com/gpu": {"nominal": 65}}}}
    before = ran({"quota": {"objects": {"pods": 2000}}}, asked)
    there = json.loads(json.dumps(list(everything(before).values())))
    for obj in there:
        if obj["kind"] == "ResourceQuota" and "pods" in obj["spec"]["hard"]:
            obj["spec"]["hard"] |= {"requests.nvidia.com/gpu": "17E", "example.com/other": "many"}
    offer = {"quota": {"objects": {"pods": 1000}, "resources": {"nvidia.com/gpu": {"maxNominal": 64}}}}
    held_case = case(tenant(**asked), tenant_class(**offer), SETTINGS, existing=by_slot(there))
    hard = quota_of(replace(hold(held_case, BEYOND).plane, service_slice=SLICE))
    assert (hard["requests.nvidia.com/gpu"], hard["pods"]) == ("0", "2k")


def test_the_syncer_and_dns_keep_the_size_that_is_refused() -> None:
    size = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    asked = {"controlPlane": {"resources": {"syncer": size}}}
    before = ran({"controlPlane": {"maxResources": {"syncer": size}}}, asked)
    assert kept({}, asked, before).budgets.syncer == before.budgets.syncer
    assert kept({}, asked).budgets.syncer == ran({}, {}).budgets.syncer


def test_a_version_that_is_no_longer_offered_keeps_running() -> None:
    told = {"versions": {"kubernetes": "v1.35.1"}, "class": {"name": "standard"}}
    asked = tenant(kubernetesVersion="v1.35.1", status=told)
    offer = tenant_class(scheduling={"podGroups": True})
    spec = hold(case(asked, offer, SETTINGS), BEYOND).plane
    assert spec.version == "v1.35.1"
    assert spec.images.kubernetes.endswith(":v1.35.1")
    assert not spec.offers.pod_groups


def test_privileges_are_dropped_where_the_version_that_runs_can() -> None:
    told = {"versions": {"kubernetes": "v1.35.1"}, "class": {"name": "standard"}}
    asked, offer = {"isolation": {"dropPrivileges": "SlinkyWorkers"}}, tenant_class()
    older = hold(case(tenant(kubernetesVersion="v1.35.1", status=told, **asked), offer, SETTINGS), BEYOND).plane
    assert older.isolation.drop_privileges == privileges.NEVER
    assert kept({}, asked).isolation.drop_privileges == privileges.SLINKY_WORKERS


def test_pod_groups_come_with_the_plane_that_serves_them() -> None:
    offer, asked = {"scheduling": {"podGroups": True}}, {"controlPlane": {"storage": {"size": "9Gi"}}}
    assert not kept(offer, asked, ran({}, asked)).offers.pod_groups
    assert kept(offer, asked, ran(offer, asked)).offers.pod_groups
    assert not kept({}, asked, ran(offer, asked)).offers.pod_groups


def test_a_plane_that_is_held_is_left_alone_but_for_new_authorities_and_its_scale() -> None:
    before = ran({"controlPlane": {"replicas": 3}}, {})
    there = everything(before)
    after = kept({"controlPlane": {"replicas": 3, "resources": {"etcd": {"limits": {"memory": "1Gi"}}}}}, {}, before)
    made = plan(after, material(after), there, held=True)
    named = {(slot.kind, slot.name) for slot in map(slot_of, made.rendered.everything())}
    assert ("StatefulSet", "plane") not in named
    assert ("ConfigMap", "plane-config") not in named
    assert {("Deployment", "syncer"), ("ConfigMap", "syncer"), ("Secret", "pki-etcd")} <= named
    slot = next(key for key in there if key.kind == "StatefulSet")
    stale = json.loads(json.dumps(there[slot]))
    stale["spec"]["template"]["metadata"]["annotations"]["bulkhead.dev/trust"] = "old"
    stale["spec"]["replicas"] = 0
    made = plan(after, material(after), {**there, slot: stale}, held=True)
    repaired = next(obj for obj in made.rendered.workloads if obj["kind"] == "StatefulSet")
    assert repaired["spec"] == there[slot]["spec"]
    made = plan(after, material(after), {key: obj for key, obj in there.items() if key.kind != "StatefulSet"}, held=True)
    assert any(obj["kind"] == "StatefulSet" for obj in made.rendered.workloads)


def test_only_what_a_tenant_asks_is_held() -> None:
    for reason in (Reason.PAUSED, Reason.UNKNOWN_CLASS, Reason.INVALID_NAME, Reason.NAMESPACE_TAKEN):
        assert not holds(Refusal(reason, ""), tenant_class())
    assert not holds(Refusal(Reason.OUT_OF_BOUNDS, ""), None)


WRONG: dict[str, Spec] = {
    "a malformed number": {"quota": {"resources": {"cpu": {"maxNominal": "many"}}}},
    "a quota that no host has": {"quota": {"resources": {"pods": {"maxNominal": 7}}}},
    "a limit that pods do not have": {"quota": {"resources": {"limits.memory": {"maxNominal": "7Gi"}}}},
    "a resource that is not a device": {"gpuResources": ["nvidia.com/gpu", "count/pods"]},
    "GPUs for everyone": {"containerDefaults": {"requests": {"nvidia.com/gpu": 1}}},
    "a request above its limit": {"containerDefaults": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
    "more than one pod may have": {
        "quota": {"resources": {"cpu": {"maxPerPod": "1"}}},
        "containerDefaults": {"requests": {"cpu": "2"}},
    },
}


@pytest.mark.parametrize("name", WRONG)
def test_a_class_that_is_wrong_in_itself_holds_with_the_rest_of_it(name: str) -> None:
    more: Spec = {"gpuResources": ["nvidia.com/gpu"], "quota": {"resources": {}}} | WRONG[name]
    resources = {"nvidia.com/gpu": {"maxNominal": 64}} | more["quota"]["resources"]
    offer = more | {"quota": {"resources": resources}, "isolation": {"podSecurity": "restricted"}}
    refusal = refuse(case(tenant(), tenant_class(**offer), SETTINGS))
    assert refusal is not None
    assert refusal.message.startswith("class: ")
    assert holds(refusal, tenant_class(**offer))
    spec = kept(offer, {}, ran({}, {}))
    assert spec.isolation.pod_security == "restricted"
    assert quota_of(spec)["requests.nvidia.com/gpu"] == "24"
    assert all(parse(request) <= parse(limit) for _, request, limit in spec.quota.container_defaults if request and limit)
    assert {name for name, _, _ in spec.quota.container_defaults} == {"cpu", "memory", "ephemeral-storage"}
    assert ("cpu" in {bound.resource for bound in spec.quota.pod_bounds}) == (name == "more than one pod may have")


def test_the_status_of_a_tenant_that_is_held_says_what_is_refused_and_what_holds() -> None:
    before = compute(tenant(), ran({}, {}), ready_findings(), NOW)
    refusal = Refusal(Reason.OUT_OF_BOUNDS, "spec.isolation.podSecurity: too loose")
    wide = tenant_class(isolation={"podSecurity": "restricted"})
    after = compute(tenant(status=before), ran({}, {}), ready_findings(held=refusal, tenant_class=wide), NOW)
    ready = find_condition(after["conditions"], "Ready")
    assert ready is not None
    assert (ready["status"], ready["reason"]) == ("False", "OutOfBounds")
    assert ready["message"] == f"{refusal.message}; {held.NOTE}"
    assert (after["class"], after["versions"]) == (before["class"], before["versions"])
    failed = ready_findings(held=refusal, failure=Refusal(Reason.HOST_REFUSED, "the host says no"))
    ready = find_condition(compute(tenant(status=before), ran({}, {}), failed, NOW)["conditions"], "Ready")
    assert ready is not None
    assert ready["reason"] == "OutOfBounds"
    assert "the host says no" in ready["message"]


levels = st.sampled_from([None, "baseline", "restricted"])
truths = st.sampled_from([None, True, False])
runtimes = st.sampled_from([None, "gvisor", "kata", "runc"])
cidrs = st.sampled_from(["0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/9", "10.128.0.0/9", "192.0.2.0/24", "192.0.2.7/32"])
lists = st.one_of(st.none(), st.lists(cidrs, max_size=3, unique=True))
selectors = st.dictionaries(st.sampled_from(["pool", "rack"]), st.sampled_from(["a", "b"]), max_size=2)


def _isolation(network: str, **more: Any) -> st.SearchStrategy[Spec]:
    return st.fixed_dictionaries(
        {
            "podSecurity": levels,
            "userNamespaces": truths,
            "runtimeClassName": runtimes,
            "network": st.fixed_dictionaries({"egressCIDRs": lists} | ({network: lists} if network else {})),
        }
        | more
    )


def _nodes(**more: Any) -> st.SearchStrategy[Spec]:
    return st.fixed_dictionaries({"selector": selectors, "dedicated": truths} | more)


asks = st.fixed_dictionaries({"isolation": _isolation(""), "nodes": _nodes()})
offers = st.fixed_dictionaries(
    {
        "isolation": _isolation("allowedEgressCIDRs", allowedRuntimeClasses=st.lists(runtimes.filter(bool), max_size=2)),
        "nodes": _nodes(maxDedicated=st.sampled_from([None, 2])),
    }
)


def _reached(listed: Any) -> list[Any]:
    return list(collapse_addresses(IPv4Network(cidr) for cidr in listed or ()))


def _within(inner: Any, outer: Any) -> bool:
    return all(any(one.subnet_of(other) for other in _reached(outer)) for one in _reached(inner))


@given(asks, offers, offers, asks)
def test_what_is_held_is_as_tight_as_its_class_and_as_what_was_asked_within_it(
    asked: Spec, offer: Spec, earlier: Spec, asked_earlier: Spec
) -> None:
    before = ran(earlier, within(asked_earlier, beyond(Question(asked_earlier, earlier))))
    spec = kept(offer, asked, before)
    paths = {excess.path for excess in beyond(Question(asked, offer))}
    ours, theirs = asked["isolation"], offer["isolation"]
    assert spec.isolation.pod_security == "restricted" or "restricted" not in {ours["podSecurity"], theirs["podSecurity"]}
    assert spec.isolation.user_namespaces or True not in {ours["userNamespaces"], theirs["userNamespaces"]}
    network = theirs["network"]
    assert _within(spec.network.egress_cidrs, [*(network["egressCIDRs"] or ()), *(network["allowedEgressCIDRs"] or ())])
    if ours["network"]["egressCIDRs"] is not None:
        assert _within(spec.network.egress_cidrs, ours["network"]["egressCIDRs"])
    if ("isolation", "runtimeClassName") in paths:
        assert spec.isolation.runtime_class == (theirs["runtimeClassName"] or before.isolation.runtime_class)
    else:
        assert spec.isolation.runtime_class == (ours["runtimeClassName"] or theirs["runtimeClassName"])
    pool = dict(spec.nodes.selector)
    assert offer["nodes"]["selector"].items() <= pool.items()
    assert all(
        pool[key] == value for key, value in asked["nodes"]["selector"].items() if ("nodes", "selector", key) not in paths
    )
    wants = True in {asked["nodes"]["dedicated"], offer["nodes"]["dedicated"]}
    if wants and pool:
        # With a selector that is refused it claims no nodes, and has those that it had.
        unclaimed = any(path[:2] in {("nodes", "dedicated"), ("nodes", "selector")} for path in paths)
        assert spec.nodes.dedicated or (unclaimed and not before.nodes.dedicated)
