"""Whether the volumes of a plane have room for a snapshot. Pure.

    a plane that is here ──> its present data, the file, and what is made of it: three times the store, two without that data
    a Tenant that is made again ──> the file, and what is made of it: two times
    a clone ──> in between, the file is made its own: three times

The pod that fills a volume asks the file system of the volume itself (`controller.restores.fill`), when its Tenant is there.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from bulkhead.api.objects import Obj
from bulkhead.api.planevolume import STORAGE_SIZE
from bulkhead.api.quantity import InvalidQuantityError, parse
from bulkhead.api.untrusted import mapping, text

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
# What a volume needs in addition: etcd's log and snapshot.
_LOG_BYTES: Final = 160 << 20
# What the file system of a new volume takes for itself: ext4 reserves 5 %, and has tables of inodes.
_FILE_SYSTEM: Final = 1.08


def of_present(claims: Iterable[Obj], store: int, *, discard: bool) -> list[str]:
    """The volumes of a plane that are too small for a store of so many bytes."""
    needed, reasons = (2 if discard else 3) * store + _LOG_BYTES, []
    for claim in claims:
        name = str(claim["metadata"]["name"])
        has = _bytes(mapping(mapping(claim.get("status")).get("capacity")).get("storage"))
        if name.startswith("data-plane-") and has is not None and has < needed:
            way_out = "raise controlPlane.storage.size" + (
                "" if discard else ", or give up the present data: --discard-old-data"
            )
            reasons.append(f"volume {name} has {has // _MIB} MiB, and {-(-needed // _MIB)} are needed: {way_out}")
    return reasons


def of_new(spec: Mapping[str, Any], offer: Mapping[str, Any], store: int, *, clone: bool) -> list[str]:
    """Why the volumes that a Tenant of this spec gets are too small. `offer` is the spec of its class."""
    of_class = _storage(offer)
    size = text(_storage(spec).get("size")) or text(of_class.get("size")) or STORAGE_SIZE
    copies = 3 if clone else 2
    needed = int((copies * store + _LOG_BYTES) * _FILE_SYSTEM)
    most = _larger(of_class.get("maxSize"), of_class.get("size") or STORAGE_SIZE)
    has = _bytes(size)
    if has is None:
        return []
    if _larger(size, most) != most:
        return [f"its volumes would have {size}, and its class allows {most} (controlPlane.storage.maxSize)"]
    if has >= needed:
        return []
    enough = f"{-(-needed // _GIB)}Gi"
    words = (
        f"its volumes have {size}, and {-(-needed // _MIB)} MiB are needed ({copies} times the store of {-(-store // _MIB)} "
        f"MiB, {_LOG_BYTES // _MIB} MiB, and what the file system takes): --storage {enough}"
    )
    if _larger(enough, most) != most:
        words += f"; its class allows {most}, so raise controlPlane.storage.maxSize there first"
    return [words]


def sized(spec: Mapping[str, Any], size: str) -> Obj:
    """The spec of a Tenant with volumes of this size; as it is if the size is empty."""
    if not size:
        return dict(spec)
    plane = mapping(spec.get("controlPlane"))
    return {**spec, "controlPlane": {**plane, "storage": {**mapping(plane.get("storage")), "size": size}}}


def _storage(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(spec.get("controlPlane")).get("storage"))


def _larger(one: object, other: object) -> str:
    """The larger of two sizes; the second if the first cannot be parsed."""
    return text(one) if (_bytes(one) or 0) > (_bytes(other) or 0) else text(other)


def _bytes(size: object) -> int | None:
    try:
        return int(parse(size))
    except InvalidQuantityError:
        return None
