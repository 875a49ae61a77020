"""A tenant's PodGroup on the host, what a pod says about its group, and when a pod may follow its group.

The host's scheduler places the pods of a group together or not at all, so a pod goes to the host only after its group, and
only while what stands there is that very group. `scheduling.k8s.io/v1alpha2` is alpha: an API server without a gate drops the
fields of that gate silently, so what must not be lost is checked on the host before a pod relies on it.

A group's spec cannot be changed on either side. Its Workload stays in the plane: the host refuses a group whose Workload it
does not have, and nothing on the host reads one.
"""

from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, sequence
from syncer.translate import metadata, podgroupapi, sanitise, schema
from syncer.translate.kinds import nodemarks
from syncer.translate.metadata import Identity
from syncer.translate.podspec import scheduling
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.references import POD_GROUP
from syncer.translate.schema import NAME, Dropped, ListOf, Number, OneOf, Refused, Struct, Text, Translated
from syncer.translate.view import TenantView

_PATH: Final = f"spec.{podgroupapi.NAMED_IN}"

# Every field of a PodGroup's spec of Kubernetes 1.36.
GANG: Final = Struct({"minCount": Number(1, (1 << 31) - 1)})
POLICY: Final = Struct({"basic": Struct({}), "gang": GANG})
TOPOLOGY: Final = Struct({"key": Text(317)})
CONSTRAINTS: Final = Struct({"topology": ListOf(TOPOLOGY, 8)})
GROUP_SPEC: Final = Struct(
    {
        "podGroupTemplateRef": Dropped("Workloads stay in the plane"),
        "schedulingPolicy": POLICY,
        "schedulingConstraints": CONSTRAINTS,
        "resourceClaims": Refused("claims that a group shares are not passed to the host", Reason.NOT_SUPPORTED),
        "disruptionMode": OneOf(("", "Pod"), Reason.NOT_SUPPORTED),
        "priorityClassName": Translated("scheduling"),
        "priority": Dropped("the host computes it from the class"),
    }
)
OF_POD: Final = Struct({"podGroupName": NAME})

# Conditions of a group that the host's scheduler writes; others are the tenant's own and stay.
_CONDITIONS: Final = frozenset({"PodGroupScheduled", "DisruptionTarget"})
_CONDITION_FIELDS: Final = ("type", "status", "lastTransitionTime", "reason")
_MOST_CONDITIONS: Final = 16


def to_host(virtual: Obj, view: TenantView) -> Obj:
    """The host PodGroup for `virtual`."""
    identity = metadata.identity(POD_GROUP, virtual)
    if view.judges and not view.pod_groups:
        raise Untranslatable(Reason.NOT_SUPPORTED, "pod groups are not offered")
    own = schema.mapping(virtual.get("spec"), "spec")
    spec = schema.struct(own, GROUP_SPEC, "spec")
    # "Pod" is what the host does anyway, and a host without the gate does not know the field.
    spec.pop("disruptionMode", None)
    policy = spec.get("schedulingPolicy", {})
    if len(policy) != 1 or ("gang" in policy and "minCount" not in policy["gang"]):
        raise Untranslatable(Reason.MALFORMED, "either `basic` or `gang` with a minCount", "spec.schedulingPolicy")
    _check_topology(spec.get("schedulingConstraints", {}).get("topology", []))
    priority = scheduling.priority(own, view)
    if priority:
        spec["priorityClassName"] = priority
    return {
        "apiVersion": podgroupapi.API_VERSION,
        "kind": POD_GROUP,
        "metadata": metadata.host_metadata(identity, virtual, view),
        "spec": spec,
    }


def remarks(virtual: Obj, _view: TenantView) -> list[str]:
    """The parts of a group that do not hold on the host, in the tenant's words."""
    mapped = scheduling.mapped(mapping(virtual.get("spec")))
    return [mapped] if mapped else []


def status_to_virtual(host: Obj, virtual: Obj, view: TenantView) -> Obj:
    """What the host's scheduler says of the group, in the tenant's words."""
    kept = [condition for condition in _conditions(virtual) if condition.get("type") not in _CONDITIONS]
    mirrored = [_condition(condition, virtual, view) for condition in _conditions(host) if condition.get("type") in _CONDITIONS]
    return {"conditions": [*kept, *mirrored]} if kept or mirrored else {}


def of_pod(spec: Mapping[str, Any], identity: Identity, view: TenantView) -> Obj:
    """A pod's `schedulingGroup` on the host; empty for a pod of no group."""
    if spec.get(podgroupapi.NAMED_IN) is None:
        return {}
    if view.judges and not view.pod_groups:
        raise Untranslatable(Reason.NOT_SUPPORTED, "pod groups are not offered", _PATH)
    plain = schema.struct(spec[podgroupapi.NAMED_IN], OF_POD, _PATH)
    name = metadata.object_name(plain.get("podGroupName"), f"{_PATH}.podGroupName")
    return {"podGroupName": view.host_name(POD_GROUP, identity.namespace, name)}


def check_ready(pod: Obj, group: Obj | None, host: Obj | None) -> None:
    """Refuse, or let wait, a pod whose group is not on the host as the tenant made it."""
    name = podgroupapi.named(pod)
    if group is None:
        raise _waiting(f"waiting for the PodGroup {name!r}")
    meta = mapping((host or {}).get("metadata"))
    uid = mapping(group.get("metadata")).get("uid")
    if mapping(meta.get("labels")).get(marks.VIRTUAL_UID) != uid or meta.get("deletionTimestamp"):
        raise _waiting(f"the PodGroup {name!r} is not on the host yet; its events tell why, if it was refused")
    if podgroupapi.topology(group) != podgroupapi.topology(host or {}):
        raise Untranslatable(
            Reason.NOT_SUPPORTED, f"the host does not place groups by topology, as the PodGroup {name!r} asks for", _PATH
        )


def _waiting(message: str) -> Untranslatable:
    return Untranslatable(Reason.REFERENCE_MISSING, message, f"{_PATH}.podGroupName")


def _check_topology(topology: list[Obj]) -> None:
    for index, constraint in enumerate(topology):
        key = constraint.get("key", "")
        if not nodemarks.is_shown(key):
            path = f"spec.schedulingConstraints.topology[{index}].key"
            raise Untranslatable(Reason.NOT_ALLOWED, f"{key[:63]!r} is not a label that nodes show in this cluster", path)


def _conditions(group: Obj) -> list[Mapping[str, Any]]:
    listed = mapping(group.get("status")).get("conditions")
    return [mapping(condition) for condition in sequence(listed)[:_MOST_CONDITIONS]]


def _condition(host: Mapping[str, Any], virtual: Obj, view: TenantView) -> Obj:
    found: Obj = {key: host[key] for key in _CONDITION_FIELDS if host.get(key) is not None}
    return found | {"message": sanitise.for_tenant(str(host.get("message") or ""), virtual, view)}
