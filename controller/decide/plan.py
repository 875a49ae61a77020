"""What a tenant's host objects should be: from what was observed to an ordered plan. Pure; nothing is done here.

PlaneSpec + keys + what exists ──> plan() ──> stages to apply in order, orphans to delete, what the plane's own API gets
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
from controller.plane import auditreceiver, authentication, statefulset
from controller.plane.render import Rendered, render
from controller.plane.secrets import KeyMaterial
from controller.plane.spec import PLANE, TRUST_ANNOTATION, PlaneSpec

# Kinds of which nothing may stay that the plan does not name: what an older version made would widen rights or open ports.
# Other kinds hold data, or may belong to a user who only copied our label.
PRUNED = ("NetworkPolicy", "RoleBinding", "ClusterRoleBinding", "Service", "Deployment", "PodDisruptionBudget", "TLSRoute")
# What an older version made and nothing uses now, a kubeconfig whose certificate lived for 90 days; and the credential of a
# receiver that the class no longer names.
RETIRED = (("Secret", "kubeconfig"), ("Secret", auditreceiver.SECRET))


@dataclass(frozen=True, slots=True)
class Deletion:
    """One object of the host that is to go, as long as it is the one that was observed."""

    slot: Slot
    uid: str


@dataclass(frozen=True, slots=True)
class Plan:
    """One reconcile: stages in order, deletions after them, then what the plane's own API gets."""

    spec: PlaneSpec
    rendered: Rendered
    deletions: tuple[Deletion, ...]
    extra_deletions: tuple[Deletion, ...]  # of what a plane runs without
    bootstrap: tuple[Obj, ...]
    withdrawn: tuple[Obj, ...]  # objects of the bootstrap that an earlier plan had and this one has not
    kept: tuple[Refused, ...] = ()  # objects of which a field cannot become what it should be; the rest of them is applied

    def followers(self, *, plane_answers: bool, existing: Existing) -> tuple[Obj, ...]:
        """What starts only once the plane answers; what was started before is kept as it should be whatever the plane does."""
        wanted = (obj for obj in self.rendered.followers if plane_answers or slot_of(obj) in existing)
        return tuple(caught_up(obj, self.spec, existing, plane_answers=plane_answers) for obj in wanted)

    @property
    def stages(self) -> tuple[tuple[Obj, ...], ...]:
        """The stages in the order of their application, after those of `ground`."""
        parts = self.rendered
        return (parts.authorities, parts.parts, parts.workloads)


def plan(spec: PlaneSpec, keys: KeyMaterial, existing: Existing, *, held: bool = False) -> Plan:
    """The plan for a tenant that may be built, or for one that is held (`controller.decide.held`)."""
    rendered = render(spec, keys)
    if held:
        rendered = as_it_runs(rendered, spec, keys, existing)
    rendered, kept = _as_it_began(rendered, existing)
    wanted = {slot_of(obj) for obj in rendered.everything()}
    if held:
        # The pod that is kept as it runs may mount it.
        wanted.add(Slot("Secret", spec.namespace, auditreceiver.SECRET))
    orphans = (slot for slot, obj in existing.items() if _pruned(slot, spec) and slot not in wanted and _prunable(obj, spec))
    deletions = [Deletion(slot, str(existing[slot]["metadata"].get("uid") or "")) for slot in sorted(orphans)]
    needed = tuple(deletion for deletion in deletions if not is_extra(deletion.slot))
    extra = tuple(deletion for deletion in deletions if is_extra(deletion.slot))
    inside = bootstrap.objects(spec, keys.authorities["kubelet"].certificate)
    return Plan(spec, rendered, needed, extra, inside, bootstrap.withdrawn(spec), kept)


def _as_it_began(rendered: Rendered, existing: Existing) -> tuple[Rendered, tuple[Refused, ...]]:
    """StatefulSets without a change of what never changes."""
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
    """Whether an object of ours is to go that the plan does not name; a provider that comes again comes with fresh keys."""
    return (
        slot.kind in PRUNED
        or (slot.kind, slot.name) in RETIRED
        or slot == Slot("ConfigMap", spec.namespace, authentication.ISSUERS)
    )


def as_it_runs(rendered: Rendered, spec: PlaneSpec, keys: KeyMaterial, existing: Existing) -> Rendered:
    """A plane that is held keeps its StatefulSet and the files that belong to it; only new CAs reach it, and its scale.

    Leaf certificates are in Secrets, which its processes read again by themselves. So does its API server with the identity
    providers to trust, so a change in the class takes effect at once.
    """
    running = existing.get(Slot("StatefulSet", spec.namespace, PLANE))
    if running is None:
        return rendered
    template = running["spec"]["template"]
    meta = template["metadata"]
    annotations = (meta.get("annotations") or {}) | {TRUST_ANNOTATION: keys.trust}
    wanted = running["spec"] | {
        "replicas": spec.control_plane.replicas,
        "template": template | {"metadata": meta | {"annotations": annotations}},
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
    """The files as they run, but with the present identity providers; None if those run already."""
    if running is None:
        return config
    data = {**(running.get("data") or {}), authentication.FILE: config["data"][authentication.FILE]}
    return None if data == running.get("data") else config | {"data": data}


def _prunable(obj: Obj, spec: PlaneSpec) -> bool:
    own = obj["metadata"].get("labels") or {}
    marked = own.get(labels.MANAGED_BY) == labels.MANAGED_BY_BULKHEAD and own.get(labels.TENANT) == spec.tenant
    return marked and labels.SYNCED not in own and not obj["metadata"].get("deletionTimestamp")
