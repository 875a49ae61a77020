"""What to change on a host object that exists: the desired state against the actual one and against what we set last time.

Only fields that we set are compared, so that what webhooks and controllers of the host add stays and never causes a storm of
updates. What was set last time stands on the object itself (`bulkhead.dev/applied`), so that a restarted syncer still knows
which labels and annotations it has to take away. On a running pod only the few fields that Kubernetes lets change are
patched; any other difference is the business of a new pod. Every patch carries the UID of the object that was read.

An image that the host's admission replaced, such as by that of its registry, is the host's business too: a patch would restart
the container, with an image that the host may not have. The generation says that the pod has all that its tenant asked for.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from bulkhead.api.objects import Obj
from bulkhead.api.quantity import parse
from bulkhead.api.quantity import same as same_quantity
from bulkhead.api.untrusted import mapping, sequence
from syncer.translate import mergepatch
from syncer.translate.kinds.gate import MADE_ONCE
from syncer.translate.kinds.pod import GENERATION
from syncer.translate.metadata import APPLIED, WANTED, stands_for_tenants
from syncer.translate.podspec.placement import ASKED_WITH, MADE_FOR
from syncer.translate.registry import KINDS

# Annotation on a host pod whose images the host replaced: a hash of those that were asked for. It counts while they are asked
# for, whatever else of the pod changes.
ASKED_IMAGES: Final = "bulkhead.dev/asked-images"
STRATEGIC: Final = "application/strategic-merge-patch+json"
MERGE: Final = "application/merge-patch+json"
_RESIZABLE: Final = ("cpu", "memory")
_WITH_IMAGES: Final = ("initContainers", "containers")
# What a host pod was made with: nothing that is patched later.
_FIXED: Final = frozenset({ASKED_WITH, MADE_FOR, *MADE_ONCE})
# What selects pods: each further term selects fewer, so here what the host has besides counts.
_SELECTORS: Final = frozenset({"podSelector", "selector"})
# Fields of a Service for which the host has no default: a value that is no longer wanted has to be removed.
_NOT_DEFAULTED: Final = ("ports", "publishNotReadyAddresses", "selector", "trafficDistribution")


@dataclass(frozen=True, slots=True)
class Patch:
    """One request: PATCH of the object or of one of its subresources."""

    body: Obj
    subresource: str | None = None
    content_type: str = STRATEGIC
    # Says that the others were taken: not to be sent where one of them was refused.
    last: bool = False
    # Says something of the whole object: only for the version that was read, or that the patch before it left.
    exact: bool = False


class Recreate(Exception):  # noqa: N818  # an instruction, not a fault
    """The object cannot become what is desired: delete it (by UID) and recreate it."""


def pod_patches(desired: Obj, actual: Obj, ephemeral: Sequence[Obj] = ()) -> tuple[Patch, ...]:
    """The patches that bring a host pod as near to `desired` as Kubernetes allows; none where nothing is to be done.

    The annotation with the virtual pod's generation is written when the host pod has all that it stands for, so in a patch of
    its own after those of subresources: else what the kubelet has observed would count as that generation before a resize.
    For the same reason all patches are exact then: compared with an older copy, a host pod may lack a resize unseen.
    """
    body = _metadata_patch(desired, actual)
    exact = GENERATION in body.get("metadata", {}).get("annotations", {})
    spec = _spec_patch(mapping(desired.get("spec")), mapping(actual.get("spec")))
    images, note = _images(desired, actual)
    if spec or images:
        body["spec"] = spec | images
    if note:
        body.setdefault("metadata", {}).setdefault("annotations", {}).update(note)
    parts = []
    resize = _resize(mapping(desired.get("spec")), mapping(actual.get("spec")))
    if resize:
        parts.append(_patch({"spec": resize}, actual, "resize"))
    have = {entry.get("name") for entry in sequence(mapping(actual.get("spec")).get("ephemeralContainers"))}
    added = [entry for entry in ephemeral if entry["name"] not in have]
    if added:
        parts.append(_patch({"spec": {"ephemeralContainers": added}}, actual, "ephemeralcontainers"))
    generation = _take_generation(body) if parts else None
    if generation is not None:
        parts.append(replace(_patch({"metadata": {"annotations": {GENERATION: generation}}}, actual), last=True))
    found = (*((_patch(body, actual),) if body else ()), *parts)
    return tuple(replace(patch, exact=True) for patch in found) if exact else found


def is_ahead(actual: Obj, virtual: Obj) -> bool:
    """Whether a host pod has what a newer generation of its virtual pod asks for than this copy of that one."""
    stamped = mapping(mapping(actual.get("metadata")).get("annotations")).get(GENERATION)
    generation = mapping(virtual.get("metadata")).get("generation")
    return isinstance(stamped, str) and stamped.isdecimal() and isinstance(generation, int) and int(stamped) > generation


def object_patch(desired: Obj, actual: Obj) -> Patch | None:
    """A merge patch for anything but a pod; None where it is as desired; may raise Recreate."""
    kind = str(desired.get("kind"))
    entry = KINDS[kind]
    for path in entry.fixed:
        if _at(desired, path) != _at(actual, path):
            raise Recreate(f"{kind}: {'.'.join(path)} cannot be changed")
    body = _metadata_patch(desired, actual)
    special = _SPECIAL.get(kind) or (_stamped_spec if entry.stamped else None)
    for field in entry.content:
        change = special(desired, actual) if special else _content(desired.get(field), actual.get(field))
        if change is not None:
            body[field] = change
    return _patch(body, actual, content_type=MERGE) if body else None


def _patch(body: Obj, actual: Obj, subresource: str | None = None, content_type: str = STRATEGIC) -> Patch:
    uid = mapping(actual.get("metadata")).get("uid")
    meta = dict(body.get("metadata", {})) | ({"uid": uid} if uid else {})
    return Patch({**body, "metadata": meta}, subresource, content_type)


def _metadata_patch(desired: Obj, actual: Obj) -> Obj:
    """Labels and annotations: ours set right, those that we set before and no longer want taken away."""
    want, have = mapping(desired.get("metadata")), mapping(actual.get("metadata"))
    before = applied(have)
    changes: Obj = {}
    for field in ("labels", "annotations"):
        wanted, there = mapping(want.get(field)), mapping(have.get(field))
        change: Obj = {key: value for key, value in wanted.items() if there.get(key) != value and key not in _FIXED}
        change |= {key: None for key in before.get(field, ()) if key in there and key not in wanted}
        if change:
            changes[field] = change
    return {"metadata": changes} if changes else {}


def _take_generation(body: Obj) -> str | None:
    """Take the annotation with the virtual pod's generation out of a patch of ours, where it changes."""
    meta: Obj = body.get("metadata", {})
    annotations: dict[str, str] = meta.get("annotations", {})
    generation = annotations.pop(GENERATION, None)
    if not annotations:
        meta.pop("annotations", None)
    if not meta:
        body.pop("metadata", None)
    return generation


def applied(meta: Mapping[str, Any]) -> Mapping[str, list[str]]:
    """The keys of labels and annotations that the last translation set."""
    text = mapping(meta.get("annotations")).get(APPLIED)
    try:
        found = json.loads(text) if isinstance(text, str) else {}
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {field: [key for key in keys if isinstance(key, str)] for field, keys in found.items() if isinstance(keys, list)}


def _images(desired: Obj, actual: Obj) -> tuple[Obj, Obj]:
    """The images to set, by field of the spec, and what to note of them in an annotation; both may be empty."""
    wanted, there = mapping(desired.get("spec")), mapping(actual.get("spec"))
    changed = {field: found for field in _WITH_IMAGES if (found := _other_images(wanted, there, field))}
    if not changed:
        return {}, {}
    want, have = (mapping(mapping(pod.get("metadata")).get("annotations")) for pod in (desired, actual))
    asked = [[entry["name"], entry.get("image")] for field in _WITH_IMAGES for entry in sequence(wanted.get(field))]
    digest = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:32]
    noted = have.get(ASKED_IMAGES)
    if noted == digest:
        return {}, {}
    if GENERATION in want and want[GENERATION] == have.get(GENERATION):
        return {}, {ASKED_IMAGES: digest}
    return changed, {} if noted is None else {ASKED_IMAGES: None}


def _other_images(wanted: Mapping[str, Any], there: Mapping[str, Any], field: str) -> list[Obj]:
    images = {entry.get("name"): entry.get("image") for entry in sequence(there.get(field))}
    return [
        {"name": entry["name"], "image": entry["image"]}
        for entry in sequence(wanted.get(field))
        if entry.get("image") and entry["name"] in images and images[entry["name"]] != entry["image"]
    ]


def _spec_patch(desired: Mapping[str, Any], actual: Mapping[str, Any]) -> Obj:
    spec: Obj = {}
    deadline = desired.get("activeDeadlineSeconds")
    current = actual.get("activeDeadlineSeconds")
    if deadline is not None and (current is None or deadline < current):  # it may only be set or shortened
        spec["activeDeadlineSeconds"] = deadline
    tolerations = _with_tolerations(sequence(desired.get("tolerations")), sequence(actual.get("tolerations")))
    if tolerations is not None:
        spec["tolerations"] = tolerations
    gone = _removed_gates(desired, actual)
    if gone:
        spec["schedulingGates"] = [{"name": name, "$patch": "delete"} for name in gone]
    return spec


def _removed_gates(desired: Mapping[str, Any], actual: Mapping[str, Any]) -> list[str]:
    """The tenant's gates that the tenant removed; those of others on the host go when their owners lift them."""
    wanted = {gate.get("name") for gate in sequence(desired.get("schedulingGates"))}
    names = [str(gate.get("name")) for gate in sequence(actual.get("schedulingGates"))]
    return [name for name in names if name not in wanted and stands_for_tenants(name)]


def _with_tolerations(desired: Sequence[Obj], actual: Sequence[Obj]) -> list[Obj] | None:
    """The tolerations that a host pod has and those that it lacks; None where it lacks none.

    Of one that is there only its time may change, and it is changed in its place: of two, the earlier would count.
    """
    wanted, found = {_toleration(entry) for entry in desired}, list(actual)
    held = [_toleration(entry) for entry in actual]
    for entry in desired:
        each = _toleration(entry)
        if each in held:
            continue
        places = (place for place, old in enumerate(held) if old not in wanted and old[:-1] == each[:-1])
        place = next(places, len(held))
        found[place : place + 1], held[place : place + 1] = [entry], [each]
    return None if held == [_toleration(entry) for entry in actual] else found


def _toleration(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        entry.get("key") or "", entry.get("operator") or "Equal", entry.get("value") or "", entry.get("effect") or "",
        entry.get("tolerationSeconds"),
    )  # fmt: skip


def _resize(desired: Mapping[str, Any], actual: Mapping[str, Any]) -> Obj:
    """CPU and memory that are asked for now and were not before; values that the host defaulted are left alone."""
    wanted, given = mapping(desired.get("resources")), mapping(actual.get("resources"))
    # Of the pod as a whole, which Kubernetes lets change since 1.36.
    whole = _changed_resources(wanted, given)
    found: Obj = {"resources": whole} if whole else {}
    for field in ("initContainers", "containers"):
        there = {entry.get("name"): mapping(entry.get("resources")) for entry in sequence(actual.get(field))}
        changed = []
        for entry in sequence(desired.get(field)):
            if entry["name"] not in there:
                continue
            held = there[entry["name"]]
            own = mapping(entry.get("resources"))
            news = _changed_resources({**own, "limits": _limits(own, held, wanted, given)}, held)
            if news:
                changed.append({"name": entry["name"], "resources": news})
        if changed:
            found[field] = changed
    return found


def _limits(own: Mapping[str, Any], held: Mapping[str, Any], wanted: Mapping[str, Any], given: Mapping[str, Any]) -> Obj:
    """A container's own limits, and for those that it has from its pod (`podsize.shared`) what its pod has now."""
    now, before = mapping(wanted.get("limits")), mapping(given.get("limits"))
    shared = {
        key: now[key] for key, limit in mapping(held.get("limits")).items()
        if key in now and key in before and same_quantity(limit, before[key])
    }  # fmt: skip
    return {**shared, **mapping(own.get("limits"))}


def _changed_resources(wanted: Mapping[str, Any], there: Mapping[str, Any]) -> Obj:
    news: Obj = {}
    for part in ("requests", "limits"):
        want, have = mapping(wanted.get(part)), mapping(there.get(part))
        # What was not asked for before is asked for now: that is a resize as well.
        change = {
            key: want[key] for key in _RESIZABLE if key in want and not (key in have and same_quantity(want[key], have[key]))
        }
        if change:
            news[part] = change
    return news


def _content(desired: Any, actual: Any) -> Any:
    """The merge patch of one content field: mappings by key, anything else as a whole; None where nothing changes."""
    if isinstance(desired, list):
        return desired if _without_null(desired) != _without_null(actual or []) else None
    wanted, there = mapping(desired), mapping(actual)
    change: Obj = {key: value for key, value in wanted.items() if there.get(key) != value}
    change |= {key: None for key in there if key not in wanted}
    return change or None


def _service_spec(desired: Obj, actual: Obj) -> Obj | None:
    """The fields of a Service's spec that we set; the rest is the host's defaulting."""
    wanted, there = mapping(desired.get("spec")), mapping(actual.get("spec"))
    change: Obj = {}
    for key in sorted(wanted):
        if key == "ports":
            ports = [_port(entry) for entry in sequence(there.get("ports"))]
            if [_port(entry) for entry in wanted["ports"]] != ports:
                change["ports"] = wanted["ports"]
        elif key == "selector":
            selector = _content(wanted["selector"], there.get("selector"))
            if selector is not None:
                change["selector"] = selector
        elif there.get(key) != wanted[key]:
            change[key] = wanted[key]
    change |= {key: None for key in _NOT_DEFAULTED if key not in wanted and there.get(key)}
    if there.get("sessionAffinityConfig") and wanted.get("sessionAffinity") == "None":
        change["sessionAffinityConfig"] = None  # only beside ClientIP
    return change or None


def _claim_spec(desired: Obj, actual: Obj) -> Obj | None:
    """A volume may only grow; the claim is never recreated, for that would be the end of its data.

    A size that its storage could not give may be taken back, as API servers have it: to more than the volume has by now.
    """
    path = ("spec", "resources", "requests", "storage")
    wanted, there, held = _at(desired, path), _at(actual, path), _at(actual, ("status", "capacity", "storage"))
    if wanted is None or there is None or same_quantity(wanted, there):
        return None
    if parse(wanted) < parse(there) and (held is None or parse(wanted) <= parse(held)):
        return None
    return {"resources": {"requests": {"storage": wanted}}}


def _stamped_spec(desired: Obj, actual: Obj) -> Any:
    """A spec as a whole: written if the desired spec changed, or if a field that we set is missing."""
    stamp = ("metadata", "annotations", WANTED)
    if _at(desired, stamp) == _at(actual, stamp) and _within(desired.get("spec"), actual.get("spec")):
        return None
    # At every depth: a merge patch keeps what it does not name, and a selector would keep the terms that it had before.
    return mergepatch.between(dict(mapping(actual.get("spec"))), dict(mapping(desired.get("spec")))) or None


def _within(wanted: Any, there: Any) -> bool:
    """Whether `there` has all of `wanted`; what the host filled in besides does not count."""
    if isinstance(wanted, Mapping):
        return all(
            _without_null(value) == _without_null(held) if key in _SELECTORS else _within(value, held)
            for key, value in wanted.items()
            for held in (mapping(there).get(key),)
        )
    if isinstance(wanted, list):
        held = sequence(there)
        return len(wanted) == len(held) and all(_within(one, other) for one, other in zip(wanted, held, strict=True))
    return bool(wanted == there)


def _port(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """A port with the API server's defaults filled in."""
    return (
        entry.get("name") or "",
        entry.get("protocol") or "TCP",
        entry.get("port"),
        entry.get("targetPort") or entry.get("port"),
        entry.get("appProtocol"),
    )


def _without_null(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_null(item) for key, item in value.items() if item not in (None, {}, [])}
    if isinstance(value, list):
        return [_without_null(item) for item in value]
    return value


def _at(obj: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        obj = mapping(obj).get(key)
    return obj


_SPECIAL: Final[Mapping[str, Callable[[Obj, Obj], Obj | None]]] = {
    "Service": _service_spec,
    "PersistentVolumeClaim": _claim_spec,
}
