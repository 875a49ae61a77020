"""A tenant's PersistentVolumeClaim on the host, and the volume that the tenant sees for it.

The host provisions: a claim goes down with its size, modes and an offered StorageClass, never with a volume or a selector of
volumes, so that no tenant reaches a volume that was not made for it. What comes up is the claim's status and a
PersistentVolume of the plane's own, named after the claim's UID, which shows nothing of the host's storage.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from bulkhead.api import labels as marks
from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.api.quantity import InvalidQuantityError, canonical, parse
from bulkhead.api.untrusted import mapping
from syncer.translate import metadata, sanitise, schema
from syncer.translate.kinds import snapshot
from syncer.translate.metadata import Identity
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.references import CLAIM
from syncer.translate.schema import NAME, QUANTITY, Dropped, ListOf, OneOf, Refused, Struct, Text, Translated
from syncer.translate.view import TenantView

DRIVER: Final = "volumes.bulkhead.dev"
LOST: Final = "Lost"  # the phase of a claim that had a volume
_MODES: Final = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
_SIZES: Final = Struct({"storage": QUANTITY})

# Every field of a claim's spec of Kubernetes 1.36.
CLAIM_SPEC: Final = Struct(
    {
        "accessModes": ListOf(OneOf(_MODES), 4),
        "dataSource": Translated("_source"),
        "dataSourceRef": Translated("_source"),
        "resources": Struct({"requests": _SIZES, "limits": _SIZES}),
        "selector": Refused("volumes are made for each claim, there are none to select from", Reason.NOT_SUPPORTED),
        "storageClassName": Translated("_storage_class"),
        "volumeAttributesClassName": Refused("volume attribute classes are not offered", Reason.NOT_SUPPORTED),
        "volumeMode": OneOf(("Filesystem", "Block")),
        "volumeName": Translated("_check_volume"),
    }
)
_SOURCE: Final = Struct({"apiGroup": Text(253), "kind": Text(63), "name": NAME, "namespace": Text(63)})

# Every field of a claim's status of Kubernetes 1.36.
STATUS_COPIED: Final = ("phase", "accessModes", "capacity", "allocatedResources", "allocatedResourceStatuses")
STATUS_TRANSLATED: Final = ("conditions",)
STATUS_DROPPED: Final = ("currentVolumeAttributesClassName", "modifyVolumeStatus")  # those classes are not offered
_CONDITION: Final = ("type", "status", "reason", "lastProbeTime", "lastTransitionTime")
_CLAIM_FIELDS: Final = Struct(
    {
        "apiVersion": Dropped("fixed"),
        "kind": Dropped("fixed"),
        "metadata": Translated("metadata"),
        "spec": Translated("CLAIM_SPEC"),
        "status": Dropped("the host's status is reported"),
    }
)


def to_host(virtual: Obj, view: TenantView) -> Obj:
    """The host claim for `virtual`."""
    identity = metadata.identity(CLAIM, virtual)
    schema.struct(virtual, _CLAIM_FIELDS, "")
    if names.is_shared_claim(identity.name):
        raise Untranslatable(Reason.NOT_ALLOWED, "claims of this name are those of shared volumes", "metadata.name")
    own = schema.mapping(virtual.get("spec"), "spec")
    spec = schema.struct(own, CLAIM_SPEC, "spec")
    _check_volume(own, identity)
    _check_size(spec, view)
    spec |= _storage_class(own, view)
    for field in ("dataSource", "dataSourceRef"):
        if own.get(field) is not None:
            spec[field] = _source(own[field], f"spec.{field}", identity, view)
    meta = metadata.host_metadata(identity, virtual, view)
    return {"apiVersion": "v1", "kind": CLAIM, "metadata": meta, "spec": spec}


def status_to_virtual(host: Obj, virtual: Obj, view: TenantView) -> Obj:
    """The status that the virtual claim should have."""
    given = mapping(host.get("status"))
    found: Obj = {key: given[key] for key in STATUS_COPIED if given.get(key)}
    conditions = []
    for condition in given.get("conditions") or ():
        plain = {key: condition[key] for key in _CONDITION if condition.get(key) is not None}
        if isinstance(condition.get("message"), str):
            plain["message"] = sanitise.for_tenant(condition["message"], virtual | {"kind": CLAIM}, view)
        conditions.append(plain)
    if conditions:
        found["conditions"] = conditions
    return {"phase": "Pending"} | found


def as_made(view: TenantView, host: Obj) -> TenantView:
    """What is known when a claim is reconciled that the host has already: its class and its size were allowed then."""
    if view.most_per_claim:
        view = replace(view, most_per_claim=max(view.most_per_claim, _size(mapping(host.get("spec"))), key=parse))
    made_of = mapping(host.get("spec")).get("storageClassName")
    if not isinstance(made_of, str) or not made_of:
        return view
    return replace(view, storage_classes=view.storage_classes | {made_of}, default_storage_class=made_of)


def is_bound(host: Obj) -> bool:
    """Whether the host has given the claim a volume."""
    return mapping(host.get("status")).get("phase") == "Bound" and bool(mapping(host.get("spec")).get("volumeName"))


def had_volume(virtual: Obj) -> bool:
    """Whether a virtual claim was given its volume."""
    uid = mapping(virtual.get("metadata")).get("uid")
    return isinstance(uid, str) and mapping(virtual.get("spec")).get("volumeName") == volume_name(uid)


def has_lost_its_volume(virtual: Obj, host: Obj) -> bool:
    """Whether a claim that has its volume in the plane is one on the host that was never given any."""
    named = mapping(virtual.get("spec")).get("volumeName")
    held = mapping(host.get("spec")).get("volumeName") or mapping(host.get("metadata")).get("deletionTimestamp")
    return bool(named) and not held


def volume_name(uid: str) -> str:
    """The name of the virtual volume of a virtual claim."""
    return f"pvc-{uid}"


def volume(virtual: Obj, host: Obj) -> Obj:
    """The virtual PersistentVolume of a bound claim."""
    identity = metadata.identity(CLAIM, virtual)
    own, given = mapping(virtual.get("spec")), mapping(host.get("spec"))
    status = mapping(host.get("status"))
    capacity = mapping(status.get("capacity")).get("storage") or mapping(mapping(given.get("resources")).get("requests")).get(
        "storage", "0"
    )
    name = volume_name(identity.uid)
    spec: Obj = {
        "capacity": {"storage": str(capacity)},
        "accessModes": list(status.get("accessModes") or given.get("accessModes") or ()),
        "claimRef": {
            "apiVersion": "v1", "kind": CLAIM, "namespace": identity.namespace, "name": identity.name, "uid": identity.uid,
        },
        "persistentVolumeReclaimPolicy": "Delete",
        "volumeMode": str(given.get("volumeMode") or "Filesystem"),
        "csi": {"driver": DRIVER, "volumeHandle": name},
    }  # fmt: skip
    # Of the two, the class that the tenant knows; a claim that named none shows what the host chose.
    storage_class = own.get("storageClassName") or given.get("storageClassName")
    if storage_class:
        spec["storageClassName"] = storage_class
    meta = {"name": name, "labels": {marks.PLATFORM: "true"}, "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec}


def snapshot_on_host(host: Obj) -> str:
    """The host name of the snapshot that a host claim's data comes from; empty where it comes from none."""
    spec = mapping(host.get("spec"))
    sources = [mapping(spec.get(field)) for field in ("dataSourceRef", "dataSource")]
    return next((str(source["name"]) for source in sources if source.get("kind") == snapshot.KIND), "")


def _check_volume(spec: Mapping[str, Any], identity: Identity) -> None:
    named = schema.text(spec.get("volumeName"), "spec.volumeName", 253)
    if named not in ("", volume_name(identity.uid)):
        raise Untranslatable(
            Reason.NOT_ALLOWED, "the platform makes a volume for each claim; leave volumeName empty", "spec.volumeName"
        )


def _check_size(spec: Mapping[str, Any], view: TenantView) -> None:
    asked = _size(spec)
    if view.most_per_claim and parse(asked) > parse(view.most_per_claim):
        text = f"the claim requests {asked} of storage, and one claim may request at most {view.most_per_claim}"
        raise Untranslatable(Reason.TOO_LARGE, text, "spec.resources.requests")


def _size(spec: Mapping[str, Any]) -> str:
    """What a claim of this spec requests; nothing where it says nothing that an API server takes."""
    requested = mapping(mapping(spec.get("resources")).get("requests")).get("storage", "0")
    try:
        return canonical(requested)
    except InvalidQuantityError:
        return "0"


def _storage_class(spec: Mapping[str, Any], view: TenantView) -> Obj:
    field = "spec.storageClassName"
    offered = ", ".join(sorted(view.storage_classes)) or "none"
    if spec.get("storageClassName") is None:
        if not view.storage_listed:
            return {}  # the host's default
        # Not left to the host, whose default may be one that is not offered. As everywhere, the claim waits for a default.
        if not view.default_storage_class:
            message = f"names no StorageClass, and none that is offered is the default; offered: {offered}"
            raise Untranslatable(Reason.REFERENCE_MISSING, message, field)
        return {"storageClassName": view.default_storage_class}
    name = schema.text(spec["storageClassName"], field, 253)
    if not name:
        raise Untranslatable(
            Reason.NOT_SUPPORTED, f"a claim without a class waits for a volume made by hand; classes offered: {offered}", field
        )
    if name not in view.storage_classes:
        raise Untranslatable(Reason.NOT_ALLOWED, f"StorageClass {name[:63]!r} is not offered; offered: {offered}", field)
    return {"storageClassName": name}


def _source(value: Any, path: str, identity: Identity, view: TenantView) -> Obj:
    source = schema.struct(value, _SOURCE, path)
    kind, group = source.get("kind"), source.get("apiGroup", "")
    of_snapshot = (kind, group) == (snapshot.KIND, snapshot.GROUP) and view.offers_snapshots
    if not of_snapshot and (kind != CLAIM or group):
        also = " or a VolumeSnapshot" if view.offers_snapshots else ""
        raise Untranslatable(Reason.NOT_SUPPORTED, f"a claim's data may only come from another claim{also}", path)
    if source.get("namespace") not in (None, "", identity.namespace):
        raise Untranslatable(Reason.NOT_ALLOWED, "data of another namespace is not offered", f"{path}.namespace")
    name = metadata.object_name(source.get("name"), f"{path}.name")
    if of_snapshot:
        return {"apiGroup": group, "kind": kind, "name": view.host_name(snapshot.KIND, identity.namespace, name)}
    return {"kind": CLAIM, "name": view.host_name(CLAIM, identity.namespace, name)}
