"""Reads which devices the host's scheduler allocated to a claim, as metering counts them.

    ResourceClaim of the host, mirrored ──> claimed_of ──> Claimed: tenant, devices by class, since when, for which pods

A claim without an allocation holds nothing: other tenants may still use the devices, though they can no longer borrow the
quota. Of alternative requests only the allocated one counts. A claim that the host's scheduler created for a pod's extended
resource is left out, because it is counted with the pod. The pods that use a claim come from the status on the host. Tenants
cannot forge it: they write to the claim in their plane, and the syncer copies no status to the host. Pure.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api import labels, ledger, names
from bulkhead.api.untrusted import mapping, mappings, text
from bulkhead.metering.held import LONGEST_NAME, MOST_DEVICES

# The host's API accepts at most 256 users of one claim, and 32 devices, requests and alternatives, which MOST_DEVICES exceeds.
_MOST_USERS: Final = 256


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claim of a tenant with allocated devices. Times are milliseconds since 1970."""

    uid: str
    tenant: str
    # Of the virtual claim.
    namespace: str
    name: str
    # By device class.
    devices: Mapping[str, int]
    created: int
    # When they were allocated, if the host reports it: Kubernetes does from 1.36 on.
    given: int | None
    # The pods that it is reserved for, by UID.
    users: tuple[str, ...]


def claimed_of(claim: Mapping[str, Any]) -> Claimed | None:
    """The devices of a host claim; None if no tenant created it, or if it has no devices."""
    meta, status = mapping(claim.get("metadata")), mapping(claim.get("status"))
    uid, tenant = text(meta.get("uid")), names.tenant_of_work(text(meta.get("namespace")))
    if not uid or not tenant or not labels.is_mirrored(claim):
        return None
    allocation = mapping(status.get("allocation"))
    devices = _devices(mapping(mapping(claim.get("spec")).get("devices")), mapping(allocation.get("devices")))
    if not devices:
        return None
    noted = mapping(meta.get("annotations"))
    users = mappings(status.get("reservedFor"), _MOST_USERS)
    return Claimed(
        uid,
        tenant,
        namespace=text(noted.get(labels.VIRTUAL_NAMESPACE))[:LONGEST_NAME],
        name=(text(noted.get(labels.VIRTUAL_NAME)) or text(meta.get("name")))[:LONGEST_NAME],
        devices=devices,
        created=_milliseconds(meta.get("creationTimestamp")) or 0,
        given=_milliseconds(allocation.get("allocationTimestamp")),
        users=tuple(text(user.get("uid")) for user in users if user.get("resource") == "pods" and user.get("uid")),
    )


def _devices(asked: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, int]:
    """The number of devices by class: each result names its request and, for alternatives, the chosen one (`gpu/small`)."""
    classes: dict[str, str] = {}
    for request in mappings(asked.get("requests"), MOST_DEVICES):
        name = text(request.get("name"))
        classes[name] = _class(mapping(request.get("exactly")))
        for alternative in mappings(request.get("firstAvailable"), MOST_DEVICES):
            classes[f"{name}/{text(alternative.get('name'))}"] = _class(alternative)
    found: Counter[str] = Counter()
    for result in mappings(given.get("results"), MOST_DEVICES):
        # Admin access to a device does not hold it: another claim may have it.
        if result.get("adminAccess") is not True:
            found[classes.get(text(result.get("request")), "")] += 1
    return {name: number for name, number in found.items() if name}


def _class(asked: Mapping[str, Any]) -> str:
    return text(asked.get("deviceClassName"))[:LONGEST_NAME]


def _milliseconds(stamp: Any) -> int | None:
    at = ledger.seconds(stamp)
    return None if at is None else round(at * 1000)
