"""What a tenant's host objects should be: from what was observed to an ordered plan. Pure; nothing is done here.

Observed ──> decide() ─┬─> Refusal: change nothing, tell why
                       └─> Plan: stages to apply in order, left-overs to delete, what the plane's own API gets
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bulkhead.api import labels
from controller.inside.objects import bootstrap
from controller.plane import etcd, statefulset
from controller.plane.render import Rendered, render
from controller.plane.secrets import KeyMaterial
from controller.plane.spec import PLANE, TRUST_ANNOTATION, Obj, PlaneSpec

# Kinds of which nothing may stay that the plan does not name: what an older version made would widen rights or open ports.
# Others hold data, or belong to somebody who only wears our label.
PRUNED = ("NetworkPolicy", "RoleBinding", "ClusterRoleBinding", "Service", "Deployment", "PodDisruptionBudget")


@dataclass(frozen=True, slots=True)
class Ref:
    """One host object."""

    kind: str
    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """One pass: stages in order, deletions after them, then what the plane's own API gets."""

    spec: PlaneSpec
    rendered: Rendered
    deletions: tuple[Ref, ...]
    bootstrap: tuple[Obj, ...]

    def followers(self, *, plane_answers: bool, existing: Mapping[Ref, Obj]) -> tuple[Obj, ...]:
        """What starts only once the plane answers; what was started before is kept as it should be whatever the plane does."""
        there = {(ref.kind, ref.namespace, ref.name) for ref in existing}
        refs = ((obj, ref_of(obj)) for obj in self.rendered.followers)
        return tuple(obj for obj, ref in refs if plane_answers or (ref.kind, ref.namespace, ref.name) in there)

    @property
    def stages(self) -> tuple[tuple[Obj, ...], ...]:
        """The stages in the order of their application, after those of `ground`."""
        parts = self.rendered
        return (parts.authorities, parts.parts, parts.workloads)


def plan(spec: PlaneSpec, keys: KeyMaterial, existing: Mapping[Ref, Obj], *, held: bool = False) -> Plan:
    """The plan for a tenant that may be built, or for one that is held (`controller.decide.held`)."""
    spec = as_it_began(spec, existing)
    rendered = render(spec, keys)
    if held:
        rendered = as_it_runs(rendered, spec, keys, existing)
    wanted = {(ref.kind, ref.namespace, ref.name) for ref in map(ref_of, rendered.everything())}
    deletions = tuple(
        sorted(
            (
                ref_of(obj)
                for ref, obj in existing.items()
                if ref.kind in PRUNED and (ref.kind, ref.namespace, ref.name) not in wanted and _prunable(obj, spec)
            ),
            key=lambda ref: (ref.kind, ref.namespace, ref.name),
        )
    )
    return Plan(spec, rendered, deletions, bootstrap.objects(spec, keys.authorities["kubelet"].certificate))


def as_it_began(spec: PlaneSpec, existing: Mapping[Ref, Obj]) -> PlaneSpec:
    """A plane keeps the storage class and the etcd members that it began with: a changed default is for new tenants.

    Claims cannot move, and members that are merely added would be a second cluster.
    """
    for ref, obj in existing.items():
        if (ref.kind, ref.namespace, ref.name) == ("StatefulSet", spec.namespace, PLANE):
            claims = obj["spec"].get("volumeClaimTemplates") or [{}]
            storage_class = (claims[0].get("spec") or {}).get("storageClassName")
            return replace(spec, storage_class=storage_class, replicas=etcd.members_of(obj) or spec.replicas)
    return spec


def as_it_runs(rendered: Rendered, spec: PlaneSpec, keys: KeyMaterial, existing: Mapping[Ref, Obj]) -> Rendered:
    """A plane that is held keeps its StatefulSet and the files that belong to it; only new CAs reach it, and its scale.

    Leaf certificates lie in Secrets, which its processes read again by themselves.
    """
    there = {(ref.kind, ref.namespace, ref.name): obj for ref, obj in existing.items()}
    running = there.get(("StatefulSet", spec.namespace, PLANE))
    if running is None:
        return rendered
    template = running["spec"]["template"]
    meta = template["metadata"]
    notes = (meta.get("annotations") or {}) | {TRUST_ANNOTATION: keys.trust}
    wanted = running["spec"] | {
        "replicas": spec.replicas,
        "template": template | {"metadata": meta | {"annotations": notes}},
    }
    config = ("ConfigMap", spec.namespace, statefulset.CONFIG_MAP)
    parts = tuple(obj for obj in rendered.parts if _slot(obj) != config or config not in there)
    workloads = tuple(
        obj | {"spec": wanted} if obj["kind"] == "StatefulSet" else obj
        for obj in rendered.workloads
        if obj["kind"] != "StatefulSet" or wanted != running["spec"]
    )
    return replace(rendered, parts=parts, workloads=workloads)


def ref_of(obj: Obj) -> Ref:
    """Which object this is."""
    meta = obj["metadata"]
    return Ref(str(obj["kind"]), str(meta.get("namespace") or ""), str(meta["name"]), str(meta.get("uid") or ""))


def _slot(obj: Obj) -> tuple[str, str, str]:
    ref = ref_of(obj)
    return ref.kind, ref.namespace, ref.name


def _prunable(obj: Obj, spec: PlaneSpec) -> bool:
    own = obj["metadata"].get("labels") or {}
    marked = own.get(labels.MANAGED_BY) == labels.MANAGED_BY_BULKHEAD and own.get(labels.TENANT) == spec.tenant
    return marked and labels.SYNCED not in own and not obj["metadata"].get("deletionTimestamp")
