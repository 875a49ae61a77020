"""A tenant's VolumeSnapshot on the host, and what the tenant reads of its making.

A snapshot is of one claim of its namespace, named; a content that exists already is the host's, as is a volume. The API is a
CustomResourceDefinition, which a tenant may bend in its own plane: a spec of any shape is refused or copied field by field.
The host's controller makes the content; its name stays on the host, since the tenant could do nothing with it.

    to_host            the claim under its host name, a class that is offered
    status_to_virtual  ready, when, how large, why not

A snapshot is made once. One that was taken and is gone from the host is not taken again: it would hold other data.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from bulkhead.api.objects import Obj
from bulkhead.api.quantity import readable
from bulkhead.api.untrusted import mapping
from syncer.translate import metadata, sanitise, schema
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.references import CLAIM
from syncer.translate.schema import NAME, Dropped, Refused, Struct, Translated
from syncer.translate.view import TenantView

KIND: Final = "VolumeSnapshot"
GROUP: Final = "snapshot.storage.k8s.io"
API_VERSION: Final = f"{GROUP}/v1"
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})")

# Every field of a snapshot's spec of snapshot.storage.k8s.io/v1.
SOURCE: Final = Struct(
    {
        "persistentVolumeClaimName": NAME,
        "volumeSnapshotContentName": Refused("contents that exist are the host's; name a claim in persistentVolumeClaimName"),
    }
)
SNAPSHOT_SPEC: Final = Struct({"source": SOURCE, "volumeSnapshotClassName": Translated("_class")})
# Every field of its status; the two that are dropped name objects of the host.
STATUS_TRANSLATED: Final = ("creationTime", "error", "readyToUse", "restoreSize")
STATUS_DROPPED: Final = ("boundVolumeSnapshotContentName", "volumeGroupSnapshotName")
_SNAPSHOT: Final = Struct(
    {
        "apiVersion": Dropped("fixed"),
        "kind": Dropped("fixed"),
        "metadata": Translated("metadata"),
        "spec": Translated("SNAPSHOT_SPEC"),
        "status": Dropped("the host's status is reported"),
    }
)


def to_host(virtual: Obj, view: TenantView) -> Obj:
    """The host snapshot for `virtual`."""
    identity = metadata.identity(KIND, virtual)
    if not view.offers_snapshots:
        raise Untranslatable(Reason.NOT_SUPPORTED, "the class of this tenant offers no snapshots")
    schema.struct(virtual, _SNAPSHOT, "")
    own = schema.mapping(virtual.get("spec"), "spec")
    plain = schema.struct(own, SNAPSHOT_SPEC, "spec")
    claim = plain.get("source", {}).get("persistentVolumeClaimName")
    name = metadata.object_name(claim, "spec.source.persistentVolumeClaimName")
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata.host_metadata(identity, virtual, view),
        "spec": {
            "source": {"persistentVolumeClaimName": view.host_name(CLAIM, identity.namespace, name)},
            "volumeSnapshotClassName": _class(own, view),
        },
    }


def status_to_virtual(host: Obj, virtual: Obj, view: TenantView) -> Obj:
    """The status that the virtual snapshot should have; malformed times, sizes and flags are left out."""
    given = mapping(host.get("status"))
    found = _plain(given)
    if isinstance(given.get("readyToUse"), bool):
        found["readyToUse"] = given["readyToUse"]
    error = mapping(given.get("error"))
    if error:
        shown: Obj = {"time": error["time"]} if _is_time(error.get("time")) else {}
        if isinstance(error.get("message"), str):
            shown["message"] = sanitise.for_tenant(error["message"], virtual | {"kind": KIND}, view)
        if shown:
            found["error"] = shown
    return found


def blocked(virtual: Obj, reason: Reason, message: str, now: str) -> Obj:
    """The status of a snapshot that has no place on the host; that it was taken once stays known."""
    before = mapping(virtual.get("status"))
    error = {"message": f"{reason}: {message}", "time": now}
    old = mapping(before.get("error"))
    if old.get("message") == error["message"] and _is_time(old.get("time")):
        error["time"] = old["time"]
    found = _plain(before)
    if was_taken(virtual) and not found and _is_time(mapping(virtual.get("metadata")).get("creationTimestamp")):
        found["creationTime"] = virtual["metadata"]["creationTimestamp"]
    return found | {"readyToUse": False, "error": error}


def was_taken(virtual: Obj) -> bool:
    """Whether the snapshot was on the host and taken, as its status says."""
    status = mapping(virtual.get("status"))
    return status.get("readyToUse") is True or bool(_plain(status))


def _plain(status: Mapping[str, Any]) -> Obj:
    found: Obj = {}
    if _is_time(status.get("creationTime")):
        found["creationTime"] = status["creationTime"]
    if readable(status.get("restoreSize")) is not None:
        found["restoreSize"] = str(status["restoreSize"])
    return found


def _class(spec: Mapping[str, Any], view: TenantView) -> str:
    field = "spec.volumeSnapshotClassName"
    name = schema.text(spec.get("volumeSnapshotClassName"), field, 253)
    if not name:
        # Not left to the host, whose default may be one that is not offered.
        name = view.default_snapshot_class or (next(iter(view.snapshot_classes)) if len(view.snapshot_classes) == 1 else "")
    if name not in view.snapshot_classes:
        wrong = f"VolumeSnapshotClass {name[:63]!r} is not offered" if name else "a class has to be named"
        offered = ", ".join(sorted(view.snapshot_classes)) or "none"
        raise Untranslatable(Reason.NOT_ALLOWED, f"{wrong}; offered: {offered}", field)
    return name


def _is_time(value: Any) -> bool:
    if not isinstance(value, str) or len(value) > 40 or not _TIME.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True
