"""The volumes under a plane's etcd: which should grow, and what the status reports on those that differ from the spec. Pure.

    requested size ──> each smaller claim ─────> patched, while the plane runs
                       StatefulSet's template ─> stays as it is: it is immutable

The StatefulSet is not recreated with a template of another size: between the deletion and the next apply nothing on the host
would show how many members etcd has and where their data is. A claim that the StatefulSet creates later, for a member whose
volume was lost, starts with the size of the template and grows like any other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api import labels
from bulkhead.api.conditions import Reason
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings, text
from controller.existing import Existing
from controller.plane.spec import PLANE, PlaneSpec
from controller.verdict import Verdict
from controller.volumes import larger, never_moves, never_shrinks, not_grown

_CLAIM: Final = "PersistentVolumeClaim"
_MESSAGE_CHARACTERS: Final = 300
_PENDING: Final = "FileSystemResizePending"
_ERRORS: Final = ("ControllerResizeError", "NodeResizeError")


@dataclass(frozen=True, slots=True)
class Growth:
    """A claim that must grow."""

    claim: str
    uid: str
    size: str


@dataclass(frozen=True, slots=True)
class _Volume:
    name: str
    asks: Any
    has: Any  # None: not bound yet
    storage_class: Any
    conditions: Mapping[str, str]


def claims_of(objects: Iterable[Obj], namespace: str) -> tuple[Obj, ...]:
    """The claims of a plane's etcd, by name."""
    found = (
        obj
        for obj in objects
        if obj.get("kind") == _CLAIM
        and obj["metadata"].get("namespace") == namespace
        and mapping(obj["metadata"].get("labels")).get(labels.COMPONENT) == PLANE
    )
    return tuple(sorted(found, key=lambda obj: str(obj["metadata"]["name"])))


def growths(spec: PlaneSpec, existing: Existing) -> tuple[Growth, ...]:
    """The claims to patch; a claim that is not bound yet cannot grow, and is patched once it is."""
    found = []
    for claim in claims_of(existing.values(), spec.namespace):
        volume, meta = _volume(claim), claim["metadata"]
        if volume.has is not None and not meta.get("deletionTimestamp") and larger(spec.storage.volume_size, volume.asks):
            found.append(Growth(volume.name, str(meta.get("uid") or ""), spec.storage.volume_size))
    return tuple(found)


def room(wanted: str, claims: Iterable[Obj]) -> str:
    """The size that every volume certainly has: the requested size, or the smallest existing one while that is less."""
    least = wanted
    for claim in claims:
        has = _volume(claim).has
        least = str(has) if has is not None and larger(least, has) else least
    return least


def verdict(spec: PlaneSpec, claims: Iterable[Obj], refused: Mapping[str, str]) -> Verdict | None:
    """The condition StorageApplied; None if there are no claims yet. `refused` are the host's words, by claim."""
    volumes = [_volume(claim) for claim in claims]
    if not volumes:
        return None
    kept = [text for volume in volumes for text in _kept(spec, volume, refused)]
    growing = [text for volume in volumes if volume.name not in refused and (text := _growing(spec, volume))]
    if kept:
        return Verdict("False", Reason.VOLUME_KEPT, ". ".join((*kept, *growing)))
    if growing:
        return Verdict("False", Reason.VOLUME_GROWING, ". ".join(growing))
    sizes = ", ".join(f"{volume.name} {volume.has if volume.has is not None else volume.asks}" for volume in volumes)
    return Verdict("True", Reason.APPLIED, f"the volumes of the plane's etcd match the spec: {sizes}")


def _kept(spec: PlaneSpec, volume: _Volume, refused: Mapping[str, str]) -> Iterable[str]:
    wanted = spec.storage
    if larger(volume.asks, wanted.volume_size):
        yield never_shrinks(volume.name, volume.asks, wanted.volume_size)
    elif volume.name in refused:
        words = refused[volume.name][:_MESSAGE_CHARACTERS]
        yield not_grown(volume.name, volume.asks, wanted.volume_size, volume.storage_class, words)
    if wanted.volume_class and volume.storage_class and volume.storage_class != wanted.volume_class:
        yield never_moves(volume.name, volume.storage_class, wanted.volume_class)


def _growing(spec: PlaneSpec, volume: _Volume) -> str:
    """How far a growing volume is; empty if it has the requested size."""
    wanted = spec.storage
    if volume.has is None:
        waits = f"{volume.name} grows to {wanted.volume_size} once it is bound"
        return waits if larger(wanted.volume_size, volume.asks) else ""
    asks = wanted.volume_size if larger(wanted.volume_size, volume.asks) else volume.asks
    if not larger(asks, volume.has):
        return ""
    what = f"{volume.name} grows from {volume.has} to {asks}"
    errors = [volume.conditions[kind][:_MESSAGE_CHARACTERS] for kind in _ERRORS if kind in volume.conditions]
    if errors:
        return f"{what}, but the host has failed so far: {'; '.join(errors)}"
    if _PENDING in volume.conditions:
        pod = volume.name.removeprefix("data-")
        return (
            f"{what}: the volume has grown, and its node grows the file system ({_PENDING}); if that lasts, its driver "
            f"does it only at the next mount: kubectl delete pod {pod} -n {spec.namespace}"
        )
    return what


def _volume(claim: Obj) -> _Volume:
    spec, status = mapping(claim.get("spec")), mapping(claim.get("status"))
    bound = status.get("phase") == "Bound"
    conditions = mappings(status.get("conditions"))
    return _Volume(
        name=str(claim["metadata"]["name"]),
        asks=mapping(mapping(spec.get("resources")).get("requests")).get("storage"),
        has=mapping(status.get("capacity")).get("storage") if bound else None,
        storage_class=spec.get("storageClassName"),
        conditions={
            text(condition.get("type")): text(condition.get("message"))
            for condition in conditions
            if condition.get("status") == "True"
        },
    )
