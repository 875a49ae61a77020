"""Which gang a tenant's pod is of: pods that start together or not at all, however the tenant says so. Pure.

    spec.schedulingGroup                                     PodGroup of the plane: minCount, topology
    label scheduling.x-k8s.io/pod-group                      the tenant's own PodGroup of that API: minMember; without one the
                                                             label or annotation that says how many
    label kueue.x-k8s.io/pod-group-name                      annotation kueue.x-k8s.io/pod-group-total-count
    annotation bulkhead.dev/gang-size                        the pods of one owner: a Job

A pod is in one gang. Its name is unique within the virtual namespace, and the ledger looks for its other pods only there, so a
value that names another namespace, or another tenant's group, names a group that does not exist. A malformed size is refused.
If the class does not offer gangs, all of this is ignored.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api.ledger import MOST_PODS
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings, text
from syncer.translate import metadata, podgroupapi, schema
from syncer.translate.kinds import nodemarks
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.view import TenantView

# The API of the coscheduling plugin, which a tenant may have put into its plane.
OWN_GROUP: Final = "SchedulingPodGroup"
_COSCHEDULED: Final = "scheduling.x-k8s.io/pod-group"
_MINIMA: Final = ("scheduling.x-k8s.io/pod-group-min-available", "pod-group.scheduling.sigs.k8s.io/min-available")
_KUEUE: Final = "kueue.x-k8s.io/pod-group-name"
_KUEUE_TOTAL: Final = "kueue.x-k8s.io/pod-group-total-count"
_OF_OWNER: Final = "bulkhead.dev/gang-size"
_TOPOLOGIES: Final = {
    "kueue.x-k8s.io/podset-required-topology": "required",
    "kueue.x-k8s.io/podset-preferred-topology": "preferred",
}
_COUNT: Final = re.compile(r"[0-9]{1,10}")
_LONGEST_NAME: Final = 240


@dataclass(frozen=True, slots=True)
class Gang:
    """What the ledger has to know of a gang."""

    name: str
    size: int
    topology: str = ""  # `required:<label key>` or `preferred:<label key>`


@dataclass(frozen=True, slots=True)
class Groups:
    """The objects that a pod names as its group, and what both sides serve of them."""

    upstream: Obj | None = None
    own: Obj | None = None
    serves_own: bool = False
    # Whether the host has PodGroups too; if not, the ledger alone holds a gang together.
    mirrored: bool = True


def of_pod(virtual: Obj, view: TenantView, groups: Groups) -> Gang | None:
    """The gang of a pod; None for a pod that starts by itself."""
    found = [each for spelled in _SPELLINGS if (each := spelled(virtual, view, groups)) is not None]
    if len(found) > 1:
        raise Untranslatable(Reason.MALFORMED, "the pod names more than one gang; keep one of them", "metadata")
    # One pod alone is together with itself.
    return found[0] if found and found[0].size > 1 else None


def name_of(group: str, uid: str) -> str:
    """The name of the gang of a group with this name and UID, as the ledger has it."""
    return _unique(group, {"metadata": {"uid": uid}})


def own_group_of(virtual: Obj) -> str:
    """The name of the tenant's own PodGroup (`OWN_GROUP`) that a pod names; empty for a pod of none."""
    return text(_labels(virtual).get(_COSCHEDULED))


def offered(view: TenantView) -> bool:
    """Whether pods may be of gangs that the ledger admits; PodGroups count as soon as any pod waits for it."""
    return view.gated_gangs or (view.pod_groups and bool(view.gated_resources))


def _upstream(virtual: Obj, view: TenantView, groups: Groups) -> Gang | None:
    name = podgroupapi.named(virtual)
    if not name or not offered(view):
        return None
    path = f"spec.{podgroupapi.NAMED_IN}.podGroupName"
    group = groups.upstream
    if group is None:
        raise Untranslatable(Reason.REFERENCE_MISSING, f"waiting for the PodGroup {name!r}", path)
    minimum = podgroupapi.minimum(group)
    if minimum is None:
        return None
    size = _size(minimum, path, f"minCount of the PodGroup {name!r}")
    keys = podgroupapi.topology(group)
    if len(keys) > 1:
        raise Untranslatable(Reason.NOT_SUPPORTED, f"the PodGroup {name!r} names more than one topology", path)
    topology = f"required:{_shown(keys[0], path)}" if keys else _topology(virtual)
    return Gang(_unique(name, group), size, topology)


def _coscheduled(virtual: Obj, view: TenantView, groups: Groups) -> Gang | None:
    if not view.gated_gangs or _COSCHEDULED not in _labels(virtual):
        return None
    path = schema.key_path("metadata.labels", _COSCHEDULED)
    name = metadata.object_name(_labels(virtual)[_COSCHEDULED], path)
    if groups.own is not None:
        size = _size(mapping(groups.own.get("spec")).get("minMember"), path, f"minMember of the PodGroup {name!r}")
        return Gang(_unique(name, groups.own), size, _topology(virtual))
    for key in _MINIMA:
        for field, given in (("labels", _labels(virtual)), ("annotations", _annotations(virtual))):
            if key in given:
                return Gang(name, _size(given[key], schema.key_path(f"metadata.{field}", key), key), _topology(virtual))
    if groups.serves_own:
        raise Untranslatable(Reason.REFERENCE_MISSING, f"waiting for the PodGroup {name!r} of scheduling.x-k8s.io", path)
    text = f"the size of the group {name!r} is missing: add the label {_MINIMA[0]}"
    raise Untranslatable(Reason.MALFORMED, text, path)


def _kueue(virtual: Obj, view: TenantView, _groups: Groups) -> Gang | None:
    if not view.gated_gangs or _KUEUE not in _labels(virtual):
        return None
    name = metadata.object_name(_labels(virtual)[_KUEUE], schema.key_path("metadata.labels", _KUEUE))
    path = schema.key_path("metadata.annotations", _KUEUE_TOTAL)
    return Gang(name, _size(_annotations(virtual).get(_KUEUE_TOTAL), path, _KUEUE_TOTAL), _topology(virtual))


def _owned(virtual: Obj, view: TenantView, _groups: Groups) -> Gang | None:
    if not view.gated_gangs or _OF_OWNER not in _annotations(virtual):
        return None
    path = schema.key_path("metadata.annotations", _OF_OWNER)
    size = _size(_annotations(virtual)[_OF_OWNER], path, _OF_OWNER)
    owners = mappings(mapping(virtual.get("metadata")).get("ownerReferences"))
    owner = next((reference for reference in owners if reference.get("controller") is True), None)
    if owner is None:
        raise Untranslatable(Reason.MALFORMED, "a gang of this kind is the pods of one owner, such as a Job", path)
    name = metadata.object_name(owner.get("name"), path)
    return Gang(_unique(name, {"metadata": owner}), size, _topology(virtual))


_SPELLINGS: Final[tuple[Callable[[Obj, TenantView, Groups], Gang | None], ...]] = (_upstream, _coscheduled, _kueue, _owned)


def _size(value: Any, path: str, what: str) -> int:
    plain = text(value)
    if value is None:
        raise Untranslatable(Reason.MALFORMED, f"the size of its gang is missing: add {what}", path)
    if type(value) is int:
        size = value
    elif _COUNT.fullmatch(plain):
        size = int(plain)
    else:
        raise Untranslatable(Reason.MALFORMED, f"{what} is {str(value)[:32]!r}, but must be a number of pods", path)
    if size < 1:
        raise Untranslatable(Reason.MALFORMED, f"{what} must be at least 1, not {size}", path)
    if size > MOST_PODS:
        raise Untranslatable(Reason.TOO_LARGE, f"{what} must be at most {MOST_PODS}, not {size}", path)
    return size


def _topology(virtual: Obj) -> str:
    """Where the pod says that its whole gang must be, or should be."""
    annotations = _annotations(virtual)
    found = [(key, how) for key, how in _TOPOLOGIES.items() if key in annotations]
    if len(found) > 1:
        raise Untranslatable(Reason.MALFORMED, "one topology is either required or preferred", "metadata.annotations")
    return "".join(f"{how}:{_shown(annotations[key], schema.key_path('metadata.annotations', key))}" for key, how in found)


def _shown(key: Any, path: str) -> str:
    """The key of a topology: any other would tell whether the host's nodes have a label."""
    if not isinstance(key, str) or not nodemarks.is_shown(key):
        raise Untranslatable(Reason.NOT_ALLOWED, f"{str(key)[:63]!r} is not a label that nodes show in this cluster", path)
    return str(key)


def _unique(name: str, of: Mapping[str, Any]) -> str:
    """A name that an object of the same name, made later, does not have: pods of the earlier one may still end."""
    uid = text(mapping(of.get("metadata")).get("uid"))
    return f"{name[:_LONGEST_NAME]}.{metadata.digest(uid)[:8]}"


def _labels(virtual: Obj) -> Mapping[str, Any]:
    return mapping(mapping(virtual.get("metadata")).get("labels"))


def _annotations(virtual: Obj) -> Mapping[str, Any]:
    return mapping(mapping(virtual.get("metadata")).get("annotations"))
