"""The multi-tenancy benchmark of Kubernetes, each check twice: in the plane, and on the host.

    benchmark.yaml ──┬─> pod, service: stored by the plane; the host gets nothing of it, and an event says why
                     ├─> manages: the tenant creates, changes and deletes them in the plane
                     ├─> rights: what rights.yaml gives a tenant's identities on the host (test_rights.py asks real servers)
                     └─> quota: what a class can have the host count

In a plane a tenant is the admin, so the benchmark's refusals would be faults there. The benchmark counts any error as a pass;
here the event has to name the field that the check is about, and the honest twin, without it, has to reach the host.
"""

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import MERGE_PATCH, Client
from bulkhead.kube.objects import Resource
from bulkhead.kube.resources import PODS, SERVICES
from controller.plane.quota import resource_quotas
from tests.adversarial import rows, smuggled
from tests.adversarial.cases import HERE
from tests.kit import yamlfiles
from tests.kit.syncerbed import SyncerBed
from tests.kit.tenantsamples import plane_spec

CHECKS: Final[dict[str, Any]] = {check["id"]: check for check in yamlfiles.load(HERE / "benchmark.yaml")}
RIGHTS: Final[Any] = yamlfiles.load(HERE / "rights.yaml")
OF_A_TENANT: Final = ("syncer, and its shim", "a tenant's pods")
BENCHMARKS_CHECKS: Final = 19
READS: Final = {"get", "list", "watch"}
# What is cluster-wide among the things that a tenant's identities may name in every namespace.
ROLES: Final = {"roles", "rolebindings", "clusterroles", "clusterrolebindings"}
RESTRICTED: Final[Obj] = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
ROLE: Final = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", True)
BINDING: Final = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", True)
POLICY: Final = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", True)
# By what the benchmark has a tenant manage: the kind, an object, and a change of it.
MANAGED: Final[dict[str, tuple[Resource, Obj, Obj]]] = {
    "roles": (
        ROLE,
        {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
        {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]},
    ),
    "rolebindings": (
        BINDING,
        {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}, "subjects": []},
        {"subjects": [{"kind": "User", "name": "ada", "apiGroup": "rbac.authorization.k8s.io"}]},
    ),
    "networkpolicies": (
        POLICY,
        {"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}},
        {"spec": {"policyTypes": ["Ingress", "Egress"]}},
    ),
}


def having(field: str) -> list[str]:
    return [name for name, check in CHECKS.items() if field in check]


def test_every_check_of_the_benchmark_stands_there_and_is_run_or_shown() -> None:
    assert len({check["check"] for check in CHECKS.values()}) == BENCHMARKS_CHECKS
    how = ("pod", "service", "rights", "quota", "manages", "shown_by", "deviates")
    assert [name for name, check in CHECKS.items() if not any(field in check for field in how)] == []
    named = [test for check in CHECKS.values() for test in check.get("shown_by", ())]
    assert [test for test in named if not rows.exists(test)] == []


@pytest.fixture
async def bed(host_client: Client, plane_client: Client) -> AsyncIterator[SyncerBed]:
    async with SyncerBed.open(host_client, plane_client) as opened:
        yield opened


def pod_of(bed: SyncerBed, name: str, change: Any) -> Obj:
    """A pod that level `restricted` lets run, with what a check adds to it."""
    honest = {"name": "main", "image": "busybox:1.36", "securityContext": dict(RESTRICTED)}
    container = smuggled.over(honest, change.get("container", {}))
    return bed.pod(name, **change.get("spec", {}) | {"containers": [container]})


@pytest.mark.apiserver
async def test_what_the_benchmark_has_refused_is_stored_in_the_plane_and_not_on_the_host(
    host_client: Client, plane_client: Client
) -> None:
    async with SyncerBed.open(host_client, plane_client, podSecurity="restricted") as bed:
        for at, name in enumerate(having("pod")):
            check = CHECKS[name]
            stored = await plane_client.create(PODS, pod_of(bed, f"check-{at}", check["pod"]))
            assert stored["metadata"]["uid"], "self-service: the tenant's own plane takes it"
            await bed.event(f"check-{at}", check["field"])
            assert await bed.mirror(f"check-{at}") is None, name
        await plane_client.create(PODS, pod_of(bed, "twin", {}))
        assert await bed.mirrored("twin")


@pytest.mark.apiserver
async def test_no_service_of_a_tenant_opens_a_port_of_a_node(bed: SyncerBed, host_client: Client, plane_client: Client) -> None:
    for name in having("service"):
        spec = CHECKS[name]["service"] | {"selector": {"app": "web"}}
        made = await plane_client.create(SERVICES, {"metadata": {"name": "web"}, "spec": spec}, bed.space)
        assert made["spec"]["type"] == "NodePort"
    await bed.quiet()
    found = (await host_client.list(SERVICES, bed.work)).items
    assert found, "the Service is mirrored"
    assert [port for service in found for port in service["spec"]["ports"] if "nodePort" in port] == []
    assert {service["spec"]["type"] for service in found} == {"ClusterIP"}


@pytest.mark.apiserver
@pytest.mark.parametrize("what", sorted({kind for name in having("manages") for kind in CHECKS[name]["manages"]}))
async def test_a_tenant_manages_it_in_the_plane(bed: SyncerBed, plane_client: Client, what: str) -> None:
    kind, body, change = MANAGED[what]
    await plane_client.create(kind, body | {"metadata": {"name": "own"}}, bed.space)
    changed = await plane_client.patch(kind, "own", change, bed.space, content_type=MERGE_PATCH)
    assert changed["metadata"]["name"] == "own"
    await plane_client.delete(kind, "own", bed.space)


def rights(space: str) -> dict[str, set[str]]:
    """What the identities that a tenant has on the host may do in a namespace, or everywhere: verbs by resource."""
    found: dict[str, set[str]] = {}
    for identity in OF_A_TENANT:
        for line in RIGHTS["host"][identity].get(space, ()):
            what, _, verbs = line.partition(": ")
            found.setdefault(what.split(" ")[0], set()).update(verbs.split())
    return found


def everywhere_and(*spaces: str) -> dict[str, set[str]]:
    found = rights("everywhere")
    for space in spaces:
        for what, verbs in rights(space).items():
            found.setdefault(what, set()).update(verbs)
    return found


def test_a_tenants_identities_write_nothing_that_is_cluster_wide() -> None:
    assert rights("everywhere"), "the file has what the syncer reads"
    assert {what: verbs - READS for what, verbs in rights("everywhere").items() if verbs - READS} == {}


def test_a_tenants_identities_change_no_quota() -> None:
    quotas = {what: verbs for what, verbs in everywhere_and("bh-team-a", "bh-team-a-work").items() if "quota" in what}
    assert quotas == {"resourcequotas": READS}


def test_a_tenants_identities_have_nothing_in_namespaces_of_others() -> None:
    assert rights("bh-team-a-work"), "the file has what the syncer may do in its own"
    for space in ("bh-team-b", "bh-team-b-work", "default", "kube-system", "bulkhead-system", "bulkhead-shared"):
        assert rights(space) == {}, space


def test_a_tenants_identities_touch_no_role() -> None:
    found = everywhere_and("bh-team-a", "bh-team-a-work")
    assert {what for what in found if what.partition(".")[0] in ROLES} == set()
    assert {verb for verbs in found.values() for verb in verbs} & {"bind", "escalate", "impersonate"} == set()


def test_a_class_can_have_the_host_count_what_the_benchmark_asks_for() -> None:
    asked = [name for check in having("quota") for name in CHECKS[check]["quota"]]
    amounts = tuple((name, "8") for name in asked if name in {"cpu", "memory", "ephemeral-storage"})
    objects = tuple((name, "8") for name in asked if name not in dict(amounts))
    quotas = resource_quotas(plane_spec(quota={"limits": amounts, "object_limits": objects}))
    counted = {name.removeprefix("requests.") for quota in quotas for name in quota["spec"]["hard"]}
    assert {name for name in asked if name not in counted} == set()
