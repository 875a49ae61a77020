"""The plan of a tenant's host objects, computed from observations. Pure; nothing is written here.

PlaneSpec + keys + existing objects ──> plan() ──> stages to apply in order, orphans to delete, objects inside the plane
"""

from dataclasses import dataclass, replace

from bulkhead.api import labels
from bulkhead.api.conditions import Reason
from bulkhead.api.objects import Obj
from controller.decide.catchup import caught_up
from controller.decide.extras import Refused, is_extra
from controller.decide.fixed import as_it_began
from controller.existing import Existing, Slot, slot_of
from controller.inside.objects import bootstrap
from controller.plane import auditreceiver, authentication, etcd, statefulset
from controller.plane.render import Rendered, render
from controller.plane.secrets import KeyMaterial
from controller.plane.spec import PLANE, TRUST_ANNOTATION, PlaneSpec

# Kinds that are deleted if the plan does not contain them: left by an older version, they would widen rights or open ports.
# Other kinds hold data, or may belong to a user who only copied the label.
PRUNED = ("NetworkPolicy", "RoleBinding", "ClusterRoleBinding", "Service", "Deployment", "PodDisruptionBudget", "TLSRoute")
# Secrets that an older version created and that nothing uses now (a kubeconfig whose certificate lived for 90 days), and the
# credential of a receiver that the class no longer names.
RETIRED = (("Secret", "kubeconfig"), ("Secret", auditreceiver.SECRET))


@dataclass(frozen=True, slots=True)
class Deletion:
    """One host object to delete, if it is still the observed one."""

    slot: Slot
    uid: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one reconcile: stages in order, deletions after them, then the objects inside the plane."""

    spec: PlaneSpec
    rendered: Rendered
    deletions: tuple[Deletion, ...]
    extra_deletions: tuple[Deletion, ...]  # of objects that a plane runs without
    bootstrap: tuple[Obj, ...]
    withdrawn: tuple[Obj, ...]  # bootstrap objects that an earlier plan had and this one does not have
    kept: tuple[Refused, ...] = ()  # objects with an immutable field that differs; all their other fields are applied

    def followers(self, *, plane_answers: bool, existing: Existing) -> tuple[Obj, ...]:
        """Objects that are created only once the plane answers; existing ones are kept up to date in any case."""
        wanted = (obj for obj in self.rendered.followers if plane_answers or slot_of(obj) in existing)
        return tuple(caught_up(obj, self.spec, existing, plane_answers=plane_answers) for obj in wanted)

    @property
    def stages(self) -> tuple[tuple[Obj, ...], ...]:
        """The stages in the order of their application, after those of `ground`."""
        parts = self.rendered
        return (parts.authorities, parts.parts, parts.workloads)


def plan(spec: PlaneSpec, keys: KeyMaterial, existing: Existing, *, held: bool = False) -> Plan:
    """The plan for a tenant that may be built, or for a held one (`controller.decide.held`)."""
    rendered = render(spec, keys)
    if held:
        rendered = as_it_runs(rendered, spec, keys, existing)
    rendered, kept = _as_it_began(rendered, existing)
    wanted = {slot_of(obj) for obj in rendered.everything()}
    if held:
        # The running pod, which is kept, may mount it.
        wanted.add(Slot("Secret", spec.namespace, auditreceiver.SECRET))
    orphans = (slot for slot, obj in existing.items() if _pruned(slot, spec) and slot not in wanted and _prunable(obj, spec))
    deletions = [Deletion(slot, str(existing[slot]["metadata"].get("uid") or "")) for slot in sorted(orphans)]
    needed = tuple(deletion for deletion in deletions if not is_extra(deletion.slot))
    extra = tuple(deletion for deletion in deletions if is_extra(deletion.slot))
    inside = bootstrap.objects(spec, keys.authorities["kubelet"].certificate)
    return Plan(spec, rendered, needed, extra, inside, bootstrap.withdrawn(spec), kept)


def _as_it_began(rendered: Rendered, existing: Existing) -> tuple[Rendered, tuple[Refused, ...]]:
    """The stages with StatefulSets that keep their immutable fields, and those fields."""
    workloads, kept = [], []
    for obj in rendered.workloads:
        if obj["kind"] != "StatefulSet":
            workloads.append(obj)
            continue
        made, fields = as_it_began(obj, existing.get(slot_of(obj)))
        workloads.append(made)
        if fields:
            named = ", ".join(f"spec.{field}" for field in fields)
            words = f"{named} cannot change"
            kept.append(Refused(slot_of(obj), Reason.HOST_REFUSED, words, kept=True))
    return replace(rendered, workloads=tuple(workloads)), tuple(kept)


def _pruned(slot: Slot, spec: PlaneSpec) -> bool:
    """Whether an object that is not in the plan must be deleted; a provider that returns brings new keys."""
    return (
        slot.kind in PRUNED
        or (slot.kind, slot.name) in RETIRED
        or slot == Slot("ConfigMap", spec.namespace, authentication.ISSUERS)
    )


def as_it_runs(rendered: Rendered, spec: PlaneSpec, keys: KeyMaterial, existing: Existing) -> Rendered:
    """A held plane keeps its StatefulSet and the files that belong to it; only new CAs and its scale are applied.

    Leaf certificates are in Secrets, which its processes reload by themselves. So does its API server with the trusted identity
    providers, so a change of these in the class takes effect at once.
    """
    running = existing.get(Slot("StatefulSet", spec.namespace, PLANE))
    if running is None:
        return rendered
    template = running["spec"]["template"]
    meta = template["metadata"]
    annotations = (meta.get("annotations") or {}) | {TRUST_ANNOTATION: keys.trust}
    wanted = running["spec"] | {
        # Its template is for this number: another pod of a plane of one would found a second cluster.
        "replicas": statefulset.members(spec) and (etcd.members_of(running) or spec.control_plane.replicas),
        "template": template | {"metadata": meta | {"annotations": annotations}},
        **statefulset.strategy(etcd.members_of(running)),
    }
    config = Slot("ConfigMap", spec.namespace, statefulset.CONFIG_MAP)
    told = [_believing(obj, existing.get(config)) for obj in rendered.parts if slot_of(obj) == config]
    parts = (*(policy for policy in told if policy is not None), *(obj for obj in rendered.parts if slot_of(obj) != config))
    workloads = tuple(
        obj | {"spec": wanted} if obj["kind"] == "StatefulSet" else obj
        for obj in rendered.workloads
        if obj["kind"] != "StatefulSet" or wanted != running["spec"]
    )
    return replace(rendered, parts=parts, workloads=workloads)


def _believing(config: Obj, running: Obj | None) -> Obj | None:
    """The running files with the present identity providers; None if those run already."""
    if running is None:
        return config
    data = {**(running.get("data") or {}), authentication.FILE: config["data"][authentication.FILE]}
    return None if data == running.get("data") else config | {"data": data}


def _prunable(obj: Obj, spec: PlaneSpec) -> bool:
    own = obj["metadata"].get("labels") or {}
    marked = own.get(labels.MANAGED_BY) == labels.MANAGED_BY_BULKHEAD and own.get(labels.TENANT) == spec.tenant
    return marked and labels.SYNCED not in own and not obj["metadata"].get("deletionTimestamp")
