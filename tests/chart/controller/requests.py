"""What the controller asks of a host: what the chart's policies refuse of it and what they let through."""

import json
from typing import Any

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError
from bulkhead.kube.resources import resource_of
from controller.decide.remnant import remnant_of
from tests.chart import volume_samples
from tests.kit.syncerbed import until

CONTROLLER = "system:serviceaccount:bulkhead-system:bulkhead-controller"
MARKS = {"app.kubernetes.io/managed-by": "bulkhead", "bulkhead.dev/tenant": "team-a"}
LEVEL = {"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/enforce-version": "v1.36"}
TIGHT = LEVEL | {"pod-security.kubernetes.io/enforce": "restricted"}


def space(name: str, tenant: str = "team-a", uid: str = "u-1", **labels: str) -> Obj:
    marks = MARKS | {"bulkhead.dev/tenant": tenant}
    meta = {"name": name, "labels": marks | labels, "annotations": {"bulkhead.dev/tenant-uid": uid}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def binding(role: str, place: str | None = "bh-team-a-work", *, name: str = "x", **more: Any) -> Obj:
    kind = "RoleBinding" if place else "ClusterRoleBinding"
    meta: Obj = {"name": name, "labels": dict(MARKS)} | ({"namespace": place} if place else {})
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    made: Obj = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": meta, "roleRef": ref}
    return made | {"subjects": [account("syncer", "bh-team-a")]} | more


def account(name: str, place: str) -> Obj:
    return {"kind": "ServiceAccount", "name": name, "namespace": place}


def config_map(place: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": place, "labels": dict(MARKS)}}


def way_in(place: str) -> Obj:
    meta = {"name": "plane-public", "namespace": place, "labels": dict(MARKS)}
    spec = {"type": "LoadBalancer", "selector": dict(MARKS), "ports": [{"port": 443}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def service_cidr(name: str, labels: dict[str, str]) -> Obj:
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": meta, "spec": {"cidrs": ["10.113.0.0/22"]}}


NODES = "bh-team-a-syncer-nodes"
OWN = {"subjects": [account("bulkhead-controller", "bulkhead-system")]}
WORK_ROLES = ("bulkhead-syncer-work", "bulkhead-syncer-ingress", "bulkhead-syncer-podgroups", "bulkhead-syncer-snapshots")

REFUSED: dict[str, Obj] = {
    "a ClusterRoleBinding to a syncer's rights": binding("bulkhead-syncer-work", None, name="bh-team-a-syncer-nodes"),
    "one of another name": binding("bulkhead-syncer-work", None, name="bh-x"),
    "one to read Secrets": binding("bulkhead-controller-secrets", None, name=NODES, **OWN),
    "one to everything": binding("cluster-admin", None, name=NODES),
    "the node reader under another name": binding("bulkhead-syncer-nodes", None, name="bh-team-a"),
    "the node reader for another tenant": binding("bulkhead-syncer-nodes", None, name="bh-team-b-syncer-nodes"),
    "the node reader to another's syncer": binding(
        "bulkhead-syncer-nodes", None, name=NODES, subjects=[account("syncer", "bh-team-b")]
    ),
    "the node reader to a workload": binding(
        "bulkhead-syncer-nodes", None, name=NODES, subjects=[account("workload", "bh-team-a")]
    ),
    "the node reader without a subject": binding("bulkhead-syncer-nodes", None, name=NODES, subjects=[]),
    "a namespace's role of everything": binding("cluster-admin"),
    "a role and no ClusterRole": binding(
        "x", roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "bulkhead-syncer-work"}
    ),
    "work for a second subject": binding(
        "bulkhead-syncer-work", subjects=[account("syncer", "bh-team-a"), account("x", "somebodys")]
    ),
    "work for another's syncer": binding("bulkhead-syncer-work", subjects=[account("syncer", "bh-team-b")]),
    "work for a user of that name": binding(
        "bulkhead-syncer-work",
        subjects=[{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "system:serviceaccount:bh-team-a:syncer"}],
    ),
    "work for the controller": binding("bulkhead-syncer-work", **OWN),
    "work in another tenant's namespace": binding("bulkhead-syncer-work", "bh-team-b-work"),
    "work in the plane's namespace": binding("bulkhead-syncer-work", "bh-team-a"),
    "work in another's namespace": binding("bulkhead-syncer-work", "somebodys"),
    "the plane's in the work namespace": binding("bulkhead-syncer-plane"),
    "Secrets of the work namespace": binding("bulkhead-controller-secrets", **OWN),
    "the pull secret for a syncer": binding("bulkhead-controller-pulls"),
    "the pull secret elsewhere": binding("bulkhead-controller-pulls", "bulkhead-system", **OWN),
    "the pull secret everywhere": binding("bulkhead-controller-pulls", None, name=NODES, **OWN),
    "pods for a syncer": binding("bulkhead-ledger-work"),
    "pods of a plane": binding("bulkhead-ledger-work", "bh-team-a", **OWN),
    "another's pods": binding("bulkhead-ledger-work", "somebodys", **OWN),
    "pods of all namespaces": binding("bulkhead-ledger-work", None, name=NODES, **OWN),
    "another's Secrets": binding("bulkhead-controller-secrets", "bh-somebodys", **OWN),
    "Secrets of the system": binding("bulkhead-controller-secrets", "kube-system", **OWN),
    "Secrets for a syncer": binding("bulkhead-controller-secrets", "bh-team-a"),
    "elsewhere": config_map("somebodys"),
    "in the namespace of what is shared": config_map("bulkhead-shared"),
    "in a namespace that only looks like a tenant's": config_map("bh-somebodys"),
    "a way in for another namespace": way_in("somebodys"),
    "a way in for the system": way_in("bulkhead-system"),
    "another's namespace": space("somebody-else", **LEVEL),
    "a namespace named after another": space("bh-team-c", **TIGHT),
    "a namespace that is not marked": space("bh-team-a-work-2", **LEVEL),
    "a namespace without a level": space("bh-team-d-work", "team-d"),
    "a namespace that allows everything": space(
        "bh-team-d-work", "team-d", **LEVEL | {"pod-security.kubernetes.io/enforce": "privileged"}
    ),
    "a level of a former version": space(
        "bh-team-d-work", "team-d", **LEVEL | {"pod-security.kubernetes.io/enforce-version": "v1.24"}
    ),
    "a level without a version": space("bh-team-d-work", "team-d", **{"pod-security.kubernetes.io/enforce": "baseline"}),
    "a plane's namespace at the workloads' level": space("bh-team-d", "team-d", **LEVEL),
    "a namespace with a label that others act on": space("bh-team-d-work", "team-d", **LEVEL, **{"istio-injection": "enabled"}),
    "a range without a tenant": service_cidr("bh-x", {}),
    "a range of another's name": service_cidr("bh-team-b", MARKS),
    "a remnant without its mark": service_cidr("10.113.0.0-22.left.bulkhead.dev", {}),
    "a range that is marked as a remnant": service_cidr("kubernetes-2", {"bulkhead.dev/left-by": "team-a"}),
    **volume_samples.REFUSED,
}

ALLOWED: dict[str, Obj] = {
    "the node reader": binding("bulkhead-syncer-nodes", None, name=NODES),
    **{role: binding(role) for role in WORK_ROLES},
    "the plane's": binding("bulkhead-syncer-plane", "bh-team-a"),
    "Secrets of the plane": binding("bulkhead-controller-secrets", "bh-team-a", **OWN),
    "pods of the work namespace": binding("bulkhead-ledger-work", **OWN),
    "the pull secret of the work namespace": binding("bulkhead-controller-pulls", **OWN),
    "in the plane's namespace": config_map("bh-team-a"),
    "in the work namespace": config_map("bh-team-a-work"),
    "a way in": way_in("bh-team-a"),
    "a plane's namespace": space("bh-team-d", "team-d", **TIGHT),
    "a work namespace": space("bh-team-d-work", "team-d", **LEVEL),
    "a work namespace at the tighter level": space("bh-team-d-work", "team-d", **TIGHT),
    "a range": service_cidr("bh-team-d", MARKS | {"bulkhead.dev/tenant": "team-d"}),
    "a remnant of a slice": remnant_of(service_cidr("bh-team-d", MARKS)),
    **volume_samples.ALLOWED,
}


async def refusal(client: Client, obj: Obj) -> str:
    """Why a create is refused by a policy of ours; empty when it is not. Nothing is made."""
    resource = resource_of(obj["apiVersion"], obj["kind"])
    place = obj["metadata"].get("namespace")
    try:
        await client.transport.request("POST", resource.path(place), params={"dryRun": "All"}, body=json.dumps(obj).encode())
    except ApiError as error:
        if "ValidatingAdmissionPolicy 'bulkhead-controller-" not in str(error):
            raise
        return str(error).partition("denied request: ")[2]
    return ""


async def in_force(client: Client, admin: Client) -> None:
    """Wait until each policy bites: one request of each kind, since policies come into force one after the other."""
    samples = {obj["kind"]: obj for obj in REFUSED.values()}

    async def bite() -> bool:
        return all([await refusal(client, obj) for obj in samples.values()])

    await until(bite, "the policies in force")
