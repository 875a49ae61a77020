"""What a Tenant and its class become, and what is refused with which reason."""

from datetime import timedelta
from typing import Any

import pytest

from bulkhead.api.conditions import Reason
from bulkhead.api.tenant import Tenant
from controller.decide.admit import refuse
from controller.refusal import Refusal
from controller.settings import Settings
from controller.slurm.decide.resolve import UnresolvableError, logins, resolve
from controller.slurm.objects import render
from controller.slurm.spec import Allotment, NodeSetSpec, SlurmSpec, UserSpec, Volume
from tests.kit import tenantsamples as samples
from tests.kit.slurmsamples import CASES, KEYS, slurm_spec
from tests.kit.tenantsamples import case


@pytest.mark.parametrize("name", CASES)
def test_the_cases_are_what_the_api_takes(name: str) -> None:
    Tenant.model_validate({"spec": {"class": "standard", "scheduling": {"mode": "Slurm", "slurm": CASES[name]}}})


@pytest.mark.parametrize(
    ("scheduling", "there"),
    [
        (None, False),
        ({"mode": "Kubernetes"}, False),
        ({"mode": "Kubernetes", "slurm": {}}, True),
        ({"mode": "Slurm"}, True),
        ({"mode": "Slurm", "slurm": {}}, True),
    ],
)
def test_who_has_a_cluster(scheduling: dict[str, Any] | None, there: bool) -> None:
    tenant = samples.tenant(**({"scheduling": scheduling} if scheduling else {}))
    assert refuse(case(tenant, samples.tenant_class())) is None
    assert (case(tenant, samples.tenant_class()).slurm is not None) == there


def test_everything_is_taken_over() -> None:
    spec = slurm_spec(CASES["everything"])
    assert (spec.cluster_name, spec.version) == ("research", "26.05.5")
    assert spec.images.slurm.endswith("/slurm:26.05.5")
    assert spec.controller == Allotment("50m", "48Mi", "2Gi", "2")
    assert spec.state == Volume("4Gi", "fast")
    assert spec.home == Volume("100Gi", "shared")
    h100, cpu, spare = spec.node_sets
    assert (h100.replicas, h100.minimum, h100.maximum, h100.elastic) == (2, 1, 4, True)
    assert (h100.gres, h100.memory_mib, h100.cpu_request) == ("gpu:h100:4", 65536, "500m")
    assert h100.extra_conf == (("Weight", "10"), ("Comment", '"the large ones"'))
    assert (cpu.replicas, cpu.minimum, cpu.maximum) == (0, 0, 8)
    assert (spare.replicas, spare.minimum, spare.maximum, spare.elastic, spare.gres) == (1, 1, 1, False, "gpu:1")
    assert spec.users == (UserSpec("alice", 10000, spec.users[0].ssh_keys, admin=True), UserSpec("bob", 10001))
    assert spec.accounting is not None
    assert [each.name for each in spec.accounting.qos] == ["high", "low"]


def test_little_is_needed() -> None:
    spec = slurm_spec({"nodeSets": [{"name": "gpu", "replicas": 1}]})
    assert spec.cluster_name == "team-a"
    assert spec.node_sets == (NodeSetSpec("gpu", 1, 1, 1, 1, 1024),)
    assert spec.login is not None
    assert spec.rest_api is not None
    assert spec.accounting is None
    assert slurm_spec({"version": "26.05"}).version == "26.05.5"


def with_slurm(asked: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return samples.tenant(scheduling={"mode": "Slurm", "slurm": asked}, **spec)


def bound(name: str, defaults: dict[str, Any] | None = None, **bounds: Any) -> dict[str, Any]:
    return samples.tenant_class(
        quota={"resources": {"nvidia.com/gpu": {"maxNominal": 64}, name: bounds}}, containerDefaults=defaults or {}
    )


def people(count: int, *, admin: bool = False, **more: list[str]) -> list[dict[str, Any]]:
    return [{"name": f"u{number}", "uid": 10_000 + number, "admin": admin} | more for number in range(count)]


# 700 bytes each; a client draws no longer ones unless asked to.
LONG_KEYS = [f"ssh-rsa AAAA{number:04}{'x' * 684}" for number in range(16)]
LONG_NAMES = [f"corp:{number:02}{'é' * 246}" for number in range(16)]
ADMINS = [user | {"identities": [f"{name[:-5]}{user['uid']}" for name in LONG_NAMES]} for user in people(68, admin=True)]

REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], Reason, str]] = {
    "a version that cannot be had": (
        with_slurm({"version": "24.11.5"}),
        samples.tenant_class(),
        Reason.VERSION_UNAVAILABLE,
        "spec.scheduling.slurm.version: 24.11.5 is not available; available: 26.05.5",
    ),
    "pods that may not be root": (
        with_slurm({}, isolation={"podSecurity": "restricted"}),
        samples.tenant_class(),
        Reason.NOT_SUPPORTED,
        "spec.isolation.podSecurity",
    ),
    "a class whose pods may not be root": (
        with_slurm({}),
        samples.tenant_class(isolation={"podSecurity": "restricted"}),
        Reason.NOT_SUPPORTED,
        "spec.isolation.podSecurity",
    ),
    "a class without Slurm": (
        with_slurm({}),
        samples.tenant_class(scheduling={"modes": ["Kubernetes"]}),
        Reason.OUT_OF_BOUNDS,
        "the class does not offer Slurm",
    ),
    "more workers than the class allows": (
        with_slurm({"nodeSets": [{"name": "a", "max": 5}, {"name": "b", "replicas": 4}]}),
        samples.tenant_class(scheduling={"slurm": {"maxNodes": 8}}),
        Reason.OUT_OF_BOUNDS,
        "9 workers are more than the 8",
    ),
    "more grace than the class allows": (
        with_slurm({"lease": {"graceSeconds": 600}}),
        samples.tenant_class(scheduling={"slurm": {"maxGraceSeconds": 120}}),
        Reason.OUT_OF_BOUNDS,
        "spec.scheduling.slurm.lease.graceSeconds: 600 is more than the 120 that the class allows",
    ),
    "more GPUs than the quota": (
        with_slurm({"nodeSets": [{"name": "a", "replicas": 7, "gpus": 4}]}),
        samples.tenant_class(),
        Reason.IMPOSSIBLE_QUOTA,
        "always run need 28 nvidia.com/gpu",
    ),
    "more CPUs than the class gives": (
        with_slurm({"nodeSets": [{"name": "a", "replicas": 2, "cpus": 8}, {"name": "b", "replicas": 1}]}),
        samples.tenant_class(quota={"resources": {"nvidia.com/gpu": {"maxNominal": 64}, "cpu": {"default": 16}}}),
        Reason.IMPOSSIBLE_QUOTA,
        "always run need 17 cpu, but the tenant has 16",
    ),
    "more memory than the quota": (
        with_slurm(
            {"nodeSets": [{"name": "a", "replicas": 4, "memory": "16Gi"}]}, quota={"resources": {"memory": {"nominal": "64Gi"}}}
        ),
        samples.tenant_class(),
        Reason.IMPOSSIBLE_QUOTA,
        "always run need 65920Mi memory, but the tenant has 64Gi",
    ),
    "a worker larger than a pod may be": (
        with_slurm({"nodeSets": [{"name": "a", "max": 2, "cpus": 33}]}),
        samples.tenant_class(quota={"resources": {"nvidia.com/gpu": {"maxNominal": 64}, "cpu": {"maxPerPod": 32}}}),
        Reason.OUT_OF_BOUNDS,
        "nodeSets[a].requests.cpu: a pod of it requests 33 cpu, and the class lets one pod request 32",
    ),
    "a worker whose limit is too far from its request": (
        with_slurm({"nodeSets": [{"name": "a", "max": 2, "cpus": 8, "requests": {"cpu": "0.5"}}]}),
        bound("cpu", maxLimitRequestRatio=4),
        Reason.OUT_OF_BOUNDS,
        "nodeSets[a].requests.cpu: a limit of 8 is more than 4 times (maxLimitRequestRatio) the request of 0.5",
    ),
    "a daemon whose limit is too far from its request": (
        with_slurm({"login": {"resources": {"requests": {"memory": "32Mi"}}}}),
        bound("memory", maxLimitRequestRatio="10"),
        Reason.OUT_OF_BOUNDS,
        "login.resources.requests.memory: a limit of 2Gi is more than 10 times (maxLimitRequestRatio) the request of 32Mi",
    ),
    "a daemon whose default limit is too far from its request": (
        with_slurm({"controller": {"resources": {"requests": {"cpu": "100m"}}}}),
        bound("cpu", {"requests": {"cpu": 1}, "limits": {"cpu": 2}}, maxLimitRequestRatio=4),
        Reason.OUT_OF_BOUNDS,
        "controller.resources.requests.cpu: a limit of 2 is more than 4 times",
    ),
    "a daemon above the default limit": (
        with_slurm({"restApi": {"resources": {"requests": {"cpu": 3}}}}),
        bound("cpu", {"limits": {"cpu": "2e0"}}),
        Reason.OUT_OF_BOUNDS,
        "restApi.resources.requests.cpu: 3 is more than the default limit of 2e0",
    ),
    "a daemon larger than a pod may be": (
        with_slurm({"accounting": {"enabled": True}}),
        bound("memory", maxPerPod="100Mi"),
        Reason.OUT_OF_BOUNDS,
        "accounting: mariadb.requests.memory: a pod of it requests 128Mi memory, and the class lets one pod request 100Mi",
    ),
    "a daemon that the ratio makes larger than a pod may be": (
        with_slurm({}),
        bound("memory", maxPerPod="1000Mi", maxLimitRequestRatio=2),
        Reason.OUT_OF_BOUNDS,
        "login.resources.requests.memory: a pod of it requests 1Gi memory, and the class lets one pod request 1000Mi",
    ),
    "a GPU resource that the class does not know": (
        with_slurm({"nodeSets": [{"name": "a", "replicas": 1, "gpus": 1, "gpuResource": "amd.com/gpu"}]}),
        samples.tenant_class(),
        Reason.OUT_OF_BOUNDS,
        "spec.scheduling.slurm.nodeSets[a].gpuResource",
    ),
    "a feature that would join another's partition": (
        with_slurm({"nodeSets": [{"name": "a", "replicas": 1, "features": ["b"]}, {"name": "b", "replicas": 1}]}),
        samples.tenant_class(),
        Reason.INVALID_CONFIGURATION,
        "nodeSets[a].features: b is the name of another node set",
    ),
    "a key of the platform": (
        with_slurm({"extraConf": "MaxArraySize=10\nAuthType=auth/none"}),
        samples.tenant_class(),
        Reason.INVALID_CONFIGURATION,
        "spec.scheduling.slurm.extraConf: line 2: AuthType: is set by the platform",
    ),
    "a partition of other nodes": (
        with_slurm({"nodeSets": [{"name": "a", "replicas": 1, "partition": {"config": "Nodes=ALL"}}]}),
        samples.tenant_class(),
        Reason.INVALID_CONFIGURATION,
        "spec.scheduling.slurm.nodeSets[a].partition.config: Nodes: is set by the platform",
    ),
    "a worker that claims more": (
        with_slurm({"nodeSets": [{"name": "a", "replicas": 1, "extraConf": "Gres=gpu:8"}]}),
        samples.tenant_class(),
        Reason.INVALID_CONFIGURATION,
        "spec.scheduling.slurm.nodeSets[a].extraConf: Gres: is set by the platform",
    ),
    "what only accounting knows": (
        with_slurm({"extraConf": "AccountingStorageTRES=gres/gpu"}),
        samples.tenant_class(),
        Reason.INVALID_CONFIGURATION,
        "extraConf: AccountingStorageTRES: needs accounting",
    ),
    "a QOS that preempts an unknown one": (
        with_slurm({"accounting": {"enabled": True, "qos": [{"name": "a", "preempt": ["b"]}]}}),
        samples.tenant_class(),
        Reason.INVALID_CONFIGURATION,
        "accounting.qos[a].preempt: there is no QOS b",
    ),
    "QOS that preempt each other": (
        with_slurm(
            {
                "accounting": {
                    "enabled": True,
                    "qos": [
                        {"name": "a", "preempt": ["b"]},
                        {"name": "b", "preempt": ["normal", "a"]},
                        {"name": "c", "preempt": ["d"]},
                        {"name": "d"},
                    ],
                }
            }
        ),
        samples.tenant_class(),
        Reason.INVALID_CONFIGURATION,
        "accounting.qos[a].preempt: slurmdbd takes no loop, and these preempt each other: a, b",
    ),
    "a QOS that preempts itself": (
        with_slurm({"accounting": {"enabled": True, "qos": [{"name": "a", "preempt": ["a"]}]}}),
        samples.tenant_class(),
        Reason.INVALID_CONFIGURATION,
        "accounting.qos[a].preempt: slurmdbd takes no loop",
    ),
    "more ssh keys than a ConfigMap holds": (
        with_slurm({"users": people(95, sshKeys=LONG_KEYS)}),
        samples.tenant_class(),
        Reason.INVALID_CONFIGURATION,
        "spec.scheduling.slurm.users: their ssh keys take 1065520 bytes on the login nodes, where at most 1047552 fit",
    ),
    "more identities than a ConfigMap holds": (
        with_slurm({"users": people(131, identities=LONG_NAMES)}),
        samples.tenant_class(),
        Reason.INVALID_CONFIGURATION,
        "spec.scheduling.slurm.users: their identities take 1048000 bytes",
    ),
    "identities of administrators, which are root's too": (
        with_slurm({"users": ADMINS}),
        samples.tenant_class(),
        Reason.INVALID_CONFIGURATION,
        "their identities take 1077120 bytes",
    ),
    "a key that was cut off": (
        with_slurm({"users": people(1, sshKeys=["ssh-ed25519 AAAAC3Nza"])}),
        samples.tenant_class(),
        Reason.INVALID_CONFIGURATION,
        "spec.scheduling.slurm: ssh key 'ssh-ed25519 AAAAC3Nza': not a public key on one line",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_built_is_refused_with_a_fixed_reason_and_the_field(name: str) -> None:
    tenant, bounds, reason, part = REFUSED[name]
    with pytest.raises(UnresolvableError) as caught:
        resolve(tenant, bounds, Settings())
    refusal = refuse(case(tenant, bounds))
    assert refusal is not None
    assert refusal.reason is caught.value.refusal.reason is reason
    assert part in refusal.message
    assert isinstance(case(tenant, bounds).slurm, Refusal)


@pytest.mark.parametrize(
    ("asked", "access"),
    [
        ({"users": people(93, sshKeys=LONG_KEYS)}, {}),
        ({"users": people(130, identities=LONG_NAMES)}, {}),
        # Files that no login node has cannot be too large.
        ({"users": people(95, sshKeys=LONG_KEYS), "login": {"certificatesOnly": True}}, {}),
        ({"users": people(95, sshKeys=LONG_KEYS), "login": {"enabled": False}}, {}),
        ({"users": people(131, identities=LONG_NAMES)}, {"revoked": [{"name": LONG_NAMES[0]}]}),
    ],
)
def test_keys_and_identities_that_the_login_nodes_can_hold_are_taken(asked: dict[str, Any], access: dict[str, Any]) -> None:
    assert isinstance(case(with_slurm(asked, access=access), samples.tenant_class()).slurm, SlurmSpec)


def test_of_a_refused_cluster_the_logins_are_those_of_its_tenant() -> None:
    asked = {"clusterName": "research", "users": people(2, sshKeys=LONG_KEYS), "login": {"replicas": 2}}
    bounds = samples.tenant_class(scheduling={"modes": ["Kubernetes"], "slurm": {"ssh": {"certificatesOnly": True}}})
    found = logins(with_slurm(asked, access={"revoked": [{"name": "corp:eve"}]}), bounds)
    assert found is not None
    assert found.login is not None
    assert (found.cluster_name, len(found.users), found.login.replicas) == ("research", 2, 2)
    assert (found.login.keys, found.login.revoked) == (False, {"corp:eve"})
    assert case(with_slurm(asked), bounds).slurm_logins is not None
    assert case(with_slurm(asked), samples.tenant_class()).slurm_logins is None
    assert logins(with_slurm({"users": people(1, sshKeys=["ssh-ed25519 AAAAC3Nza"])}), samples.tenant_class()) is None
    assert logins(samples.tenant(), bounds) is None


def test_nothing_opens_the_login_nodes_of_a_refused_cluster_that_are_switched_off() -> None:
    """They run on as long as the cluster is refused, and would keep their earlier keys and identities."""
    ada = {"name": "ada", "uid": 10_000, "identities": ["corp:ada"], "sshKeys": LONG_KEYS[:1], "admin": True}
    asked = {"login": {"enabled": False, "rootSshAuthorizedKeys": LONG_KEYS[:1]}, "users": [ada]}
    closed = logins(with_slurm(asked), samples.tenant_class(scheduling={"modes": ["Kubernetes"]}))
    assert closed is not None
    assert [user.name for user in closed.users] == ["ada"]
    files = {obj["metadata"]["name"]: obj for obj in render.logins(closed, KEYS, ("ssh-ed25519 AAAA",))}
    assert files["slurm-authorized-keys"]["data"] == {}
    assert files["slurm-ssh-trust"]["data"].keys() == {"user-ca.pub"}
    assert files["bulkhead:slurm-ssh"]["subjects"] == []


def test_an_elastic_set_may_reach_beyond_the_quota_and_is_held_back_by_the_lease() -> None:
    tenant = with_slurm({"nodeSets": [{"name": "a", "max": 100, "gpus": 8}]})
    assert refuse(case(tenant, samples.tenant_class())) is None


def test_what_is_built_in_for_daemons_is_raised_to_what_the_class_asks_of_limits() -> None:
    tenant = with_slurm({"accounting": {"enabled": True}, "nodeSets": [{"name": "a", "replicas": 1}]})

    def built(offer: dict[str, Any]) -> tuple[Allotment, ...]:
        assert refuse(case(tenant, offer)) is None
        spec = case(tenant, offer).slurm
        assert isinstance(spec, SlurmSpec)
        assert spec.login is not None
        assert spec.rest_api is not None
        assert spec.accounting is not None
        return spec.controller, spec.login.allotment, spec.rest_api, spec.accounting.slurmdbd, spec.accounting.mariadb

    usual = built(samples.tenant_class())
    assert [each.memory for each in usual] == ["48Mi", "32Mi", "24Mi", "32Mi", "128Mi"]
    assert [each.memory for each in built(bound("memory", maxLimitRequestRatio=10))] == [
        "103Mi", "205Mi", "26Mi", "52Mi", "128Mi",
    ]  # fmt: skip
    assert [each.memory for each in built(bound("memory", maxLimitRequestRatio="1"))] == [
        "1Gi", "2Gi", "256Mi", "512Mi", "768Mi",
    ]  # fmt: skip
    given = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}
    assert {each.cpu for each in built(bound("cpu", given, maxLimitRequestRatio="3"))} == {"334m"}
    assert built(bound("cpu", maxLimitRequestRatio="3")) == usual
    assert built(bound("cpu", given)) == usual


def test_patience_comes_from_the_tenant() -> None:
    found = slurm_spec({"lease": {"idleSeconds": 7, "graceSeconds": 0}}).lease
    assert (found.idle, found.grace) == (timedelta(seconds=7), timedelta(0))
    assert slurm_spec().lease.grace == timedelta(minutes=5)


@pytest.mark.parametrize(
    ("asked", "most", "wanted"),
    [
        ({}, None, 300),
        ({}, 120, 120),
        ({}, 0, 0),
        ({}, 900, 300),
        ({"graceSeconds": 60}, 120, 60),
        ({"graceSeconds": 0}, 120, 0),
    ],
)
def test_the_grace_of_jobs_lies_within_what_the_class_allows(asked: dict[str, int], most: int | None, wanted: int) -> None:
    bounds = {} if most is None else {"maxGraceSeconds": most}
    made = resolve(with_slurm({"lease": asked}), samples.tenant_class(scheduling={"slurm": bounds}), Settings())
    assert made is not None
    assert made.lease.grace == timedelta(seconds=wanted)
