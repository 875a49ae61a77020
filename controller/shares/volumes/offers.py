"""Computes which SharedVolumes can be granted, the source of each, and why others cannot be granted. Pure.

SharedVolume ── nfs ──────────────────────────> Origin ─┐
└──────── PersistentVolume of the host ──> Origin ─┴─> path below it ──> Offer ──> Grant of one tenant
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bulkhead.api import labels, names
from bulkhead.api.sharedvolume import NAME_LIMIT
from bulkhead.api.untrusted import mapping, sequence, text
from controller.shares.content import Absent, Unusable
from controller.shares.spec import Where, where_of
from controller.shares.volumes import subpath
from controller.shares.volumes.subpath import Parts

NFS: Final = "nfs"
CSI: Final = "csi"
LOCAL: Final = "local"
# Volumes of all other types cannot be made read-only by themselves, or reach arbitrary files of nodes.
TYPES: Final = (NFS, CSI, LOCAL)
MOST_SHARED_VOLUMES: Final = 64
_READ_ONLY: Final = "ro"


@dataclass(frozen=True, slots=True)
class Offer:
    """A SharedVolume that can be granted, and the source of its PersistentVolumes; `path` is its template."""

    name: str
    type: str
    source: Mapping[str, Any]
    place: str  # the server, for type nfs; directories of two offers of one place may overlap
    path: Parts
    read_only: bool
    capacity: str
    options: tuple[str, ...]
    affinity: Mapping[str, Any]
    where: Where


@dataclass(frozen=True, slots=True)
class Written:
    """A directory that a tenant's pods may write to through an existing volume, even if its SharedVolume has changed since."""

    volume: str
    tenant: str
    shared: str
    type: str
    place: str
    path: Parts


@dataclass(frozen=True, slots=True)
class Grant:
    """One tenant's part of one SharedVolume."""

    name: str
    tenant: str
    type: str
    source: Mapping[str, Any]
    read_only: bool
    capacity: str
    options: tuple[str, ...]
    affinity: Mapping[str, Any]
    where: Where

    @property
    def claim(self) -> str:
        """The name of the claim, on the host and in the plane."""
        return claim_name(self.name, read_only=self.read_only)

    @property
    def volume(self) -> str:
        """The name of the host's volume."""
        digest = hashlib.sha256(self.claim.encode()).hexdigest()[:8]
        return f"{names.plane_namespace(self.tenant)}-shared-{self.name}-{digest}"

    @property
    def digest(self) -> str:
        """A digest of all fields that cannot change once the volume exists."""
        parts = (self.source, self.read_only, self.capacity, self.options, self.affinity)
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def claim_name(name: str, *, read_only: bool) -> str:
    """The name of the claim of a SharedVolume."""
    return f"{names.READ_ONLY_CLAIM if read_only else names.WRITABLE_CLAIM}{name}"


def is_for(shared: Mapping[str, Any], tenant: str, class_name: str) -> bool:
    """Whether a SharedVolume is granted to a tenant."""
    spec = mapping(shared.get("spec"))
    return tenant in sequence(spec.get("tenants")) or (bool(class_name) and class_name in sequence(spec.get("classes")))


def volume_named(shared: Mapping[str, Any]) -> str:
    """The PersistentVolume of the host that a SharedVolume names; empty if it names none."""
    return text(mapping(shared.get("spec")).get("persistentVolumeName"))


def offer_of(
    shared: Mapping[str, Any], volume: Mapping[str, Any] | Absent | Unusable | None, types: Collection[str]
) -> Offer | Unusable:
    """The offer of a SharedVolume; `volume` is the PersistentVolume that it names, as the host has it."""
    if isinstance(volume, Unusable):
        return volume
    if isinstance(volume, Absent):
        return Unusable(f"the host has no PersistentVolume {volume_named(shared)}")
    try:
        return _offer(shared, volume, types)
    except ValueError as error:
        return Unusable(str(error))


def _offer(shared: Mapping[str, Any], volume: Mapping[str, Any] | None, types: Collection[str]) -> Offer:
    spec, own = mapping(shared.get("spec")), mapping(mapping(volume).get("spec"))
    name = text(mapping(shared.get("metadata")).get("name"))
    if not 0 < len(name) <= NAME_LIMIT or "." in name:
        raise ValueError(f"its name must be a DNS label of at most {NAME_LIMIT} characters")
    type_, source = _of_volume(volume) if volume is not None else (NFS, mapping(spec.get(NFS)))
    if type_ not in types:
        raise ValueError(f"volumes of type {type_} are not allowed by the chart value shares.volumeTypes")
    below = subpath.parse(text(spec.get("subPath")))
    if type_ == CSI and below:
        raise ValueError("subPath is not allowed for a volume of type csi, which is shared as a whole")
    options = spec.get("mountOptions") if spec.get("mountOptions") is not None else own.get("mountOptions")
    return Offer(
        name=name,
        type=type_,
        source=source,
        place=text(source.get("server")).lower(),
        path=() if type_ == CSI else (*subpath.plain(text(source.get("path"))), *below),
        read_only=spec.get("readOnly") is not False,
        capacity=text(spec.get("capacity")) or "1Gi",
        options=tuple(map(str, sequence(options))),
        affinity=mapping(own.get("nodeAffinity")),
        where=where_of(mapping(spec.get("namespaces"))),
    )


def _of_volume(volume: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    meta, spec = mapping(volume.get("metadata")), mapping(volume.get("spec"))
    name = text(meta.get("name"))
    if labels.SHARED_VOLUME in mapping(meta.get("labels")):
        raise ValueError(f"PersistentVolume {name} was itself created for a shared volume of a tenant")
    if text(mapping(spec.get("claimRef")).get("namespace")).startswith("bh-"):
        raise ValueError(f"PersistentVolume {name} belongs to a claim of a tenant")
    if spec.get("volumeMode") == "Block":
        raise ValueError(f"PersistentVolume {name} must be a file system, not a block device")
    for type_ in TYPES:
        if spec.get(type_) is not None:
            return type_, mapping(spec.get(type_))
    raise ValueError(f"PersistentVolume {name} must be of one of the types {', '.join(TYPES)}")


def written_of(volume: Mapping[str, Any]) -> Written | None:
    """The directory that pods may write to through a host volume; None if no shared directory can be below it."""
    meta, spec = mapping(volume.get("metadata")), mapping(volume.get("spec"))
    marks = mapping(meta.get("labels"))
    if labels.SHARED_VOLUME not in marks or _READ_ONLY in sequence(spec.get("mountOptions")):
        return None
    for type_ in (NFS, LOCAL):
        source = mapping(spec.get(type_))
        if not source:
            continue
        try:
            path = subpath.plain(text(source.get("path")))
        except ValueError:
            return None  # not created by the platform
        return Written(
            volume=text(meta.get("name")),
            tenant=text(marks.get(labels.TENANT)),
            shared=text(marks.get(labels.SHARED_VOLUME)),
            type=type_,
            place=text(source.get("server")).lower(),
            path=path,
        )
    return None


def trap(offer: Offer, others: Iterable[Offer], written: Iterable[Written] = ()) -> str:
    """Why an offer is refused because it is below a directory that tenants may write to; empty if there is no such directory.

    A directory that a SharedVolume no longer offers still counts until its last volume is gone, because pods may write to it.
    """
    for other in others:
        met = (other.type, other.place) == (offer.type, offer.place) and offer.type != CSI
        if met and not other.read_only and subpath.lies_below(offer.path, other.path):
            return (
                f"it is below {subpath.joined(other.path)}, which SharedVolume {other.name} lets tenants write to: "
                "a tenant could place a symbolic link there that leads anywhere"
            )
    for volume in written:
        met = (volume.type, volume.place) == (offer.type, offer.place)
        if met and subpath.lies_below(offer.path, volume.path):
            return (
                f"it is below {subpath.joined(volume.path)}, which pods of tenant {volume.tenant} may still write to by "
                f"an earlier SharedVolume {volume.shared} (PersistentVolume {volume.volume}): it is granted once they end"
            )
    return ""


@dataclass(frozen=True, slots=True)
class Granted:
    """The SharedVolumes of one tenant: those that it gets, and those that it does not get now."""

    grants: tuple[Grant, ...] = ()
    held: Mapping[str, str] = field(default_factory=dict)  # unknown ones, and why: their existing objects stay
    refused: Mapping[str, str] = field(default_factory=dict)  # unsafe ones, and why: their existing objects are removed


def granted(
    offers: Mapping[str, Offer | Unusable], tenant: str, given: Iterable[str], written: Iterable[Written] = ()
) -> Granted:
    """Sort the SharedVolumes in `given`; `written` are the directories that volumes of any tenant let pods write to."""
    sound = [offer for offer in offers.values() if isinstance(offer, Offer)]
    written = tuple(written)
    grants: list[Grant] = []
    held: dict[str, str] = {}
    refused: dict[str, str] = {}
    for name in sorted(given):
        offer = offers.get(name, Unusable("it was created or deleted just now; it is read again at once"))
        if isinstance(offer, Unusable):
            held[name] = offer.why
        elif why := trap(offer, sound, written):
            refused[name] = why
        elif len(grants) < MOST_SHARED_VOLUMES:
            grants.append(_grant(offer, tenant))
        else:
            held[name] = f"a tenant has at most {MOST_SHARED_VOLUMES} shared volumes"
    return Granted(tuple(grants), held, refused)


def _grant(offer: Offer, tenant: str) -> Grant:
    return Grant(
        name=offer.name,
        tenant=tenant,
        type=offer.type,
        source=_pointed(offer, tenant),
        read_only=offer.read_only,
        capacity=offer.capacity,
        options=offer.options,
        affinity=offer.affinity,
        where=offer.where,
    )


def _pointed(offer: Offer, tenant: str) -> Mapping[str, Any]:
    """The source of a tenant's own volume."""
    if offer.type == CSI:
        return {**offer.source, "readOnly": offer.read_only}
    path = subpath.joined(subpath.filled(offer.path, tenant))
    if offer.type == NFS:
        return {"server": text(offer.source.get("server")), "path": path, "readOnly": offer.read_only}
    return {**offer.source, "path": path}
