"""A tenant's audit trail, as its class asks for one. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bulkhead.api.quantity import mebibytes
from controller.decide.case import Case
from controller.decide.storage import claims_of, room
from controller.plane.spec import PlaneSpec
from controller.plane.trail import Audit, Receiver
from controller.sections import section_of


def audit_of(case: Case, spec: PlaneSpec) -> Audit | None:
    """The class's audit trail; on etcd's volume it takes at most a quarter of it."""
    bounds = case.bounds
    if "audit" not in bounds:
        return None
    asked = section_of(bounds, "audit")
    made = Audit(
        requests=asked.get("level") == "Request",
        sink=str(asked.get("sink") or "File"),
        file_mib=mebibytes(asked.get("maxSize") or "32Mi"),
        backups=int(asked.get("maxBackups") or 2),
        days=int(asked.get("maxAgeDays") or 30),
        retain=asked.get("retain") is True,
        receiver=_receiver(section_of(asked, "webhook"), spec.tenant),
    )
    if not made.retain:
        return made
    volume = room(spec.storage.volume_size, claims_of(case.existing.values(), spec.namespace))
    return replace(made, file_mib=max(1, min(made.file_mib, mebibytes(volume) // 4 // (made.backups + 2))))


def _receiver(asked: Mapping[str, Any], tenant: str) -> Receiver | None:
    """The receiver of the trail, without its credential, which is read once the tenant may be built."""
    if not asked:
        return None
    return Receiver(
        url=str(asked["url"]).replace("{tenant}", tenant),
        address=str(asked["address"]),
        certificate_authority=str(asked["certificateAuthority"]),
        secret=str(asked["secretName"]),
        namespace=str(asked.get("namespace") or ""),
    )
