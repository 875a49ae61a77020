"""What a claim for devices was given by the host's scheduler, as metering counts it.

    ResourceClaim of the host, mirrored ──> claimed_of ──> Claimed: whose, which devices by class, since when, for which pods

A claim that was given nothing yet holds nothing: devices are others' to use, though no longer theirs to borrow. Of alternatives
only the one counts that was given. A claim that the host's scheduler made for what a pod asks for as a resource is none of
these, since it is counted with the pod. Who uses a claim, the host wrote into its status; a tenant writes to its own claim in
its plane, and of that no status goes down. Pure.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api import labels, ledger, names
from bulkhead.api.untrusted import mapping, mappings, text

# The host's API takes no more than 32 devices, requests and alternatives, and no more than 256 users of one claim.
_MOST_DEVICES: Final = 64
_MOST_USERS: Final = 256
_LONGEST_NAME: Final = 253


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claim of a tenant that was given devices. Times are milliseconds since 1970."""

    uid: str
    tenant: str
    # Of the virtual claim.
    namespace: str
    name: str
    # By device class.
    devices: Mapping[str, int]
    created: int
    # When it was given them, where the host says so: from Kubernetes 1.36 on it does.
    given: int | None
    # The pods that it is reserved for, by UID.
    users: tuple[str, ...]


def claimed_of(claim: Mapping[str, Any]) -> Claimed | None:
    """What a claim of the host was given; None for one that is no tenant's own, or that has nothing."""
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
        namespace=text(noted.get(labels.VIRTUAL_NAMESPACE))[:_LONGEST_NAME],
        name=(text(noted.get(labels.VIRTUAL_NAME)) or text(meta.get("name")))[:_LONGEST_NAME],
        devices=devices,
        created=_milliseconds(meta.get("creationTimestamp")) or 0,
        given=_milliseconds(allocation.get("allocationTimestamp")),
        users=tuple(text(user.get("uid")) for user in users if user.get("resource") == "pods" and user.get("uid")),
    )


def _devices(asked: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, int]:
    """How many of each class: a result names the request that it is for, and of alternatives which one it was (`gpu/small`)."""
    classes: dict[str, str] = {}
    for request in mappings(asked.get("requests"), _MOST_DEVICES):
        name = text(request.get("name"))
        classes[name] = _class(mapping(request.get("exactly")))
        for alternative in mappings(request.get("firstAvailable"), _MOST_DEVICES):
            classes[f"{name}/{text(alternative.get('name'))}"] = _class(alternative)
    found: Counter[str] = Counter()
    for result in mappings(given.get("results"), _MOST_DEVICES):
        # Who administers a device does not have it: it may be another's.
        if result.get("adminAccess") is not True:
            found[classes.get(text(result.get("request")), "")] += 1
    return {name: number for name, number in found.items() if name}


def _class(asked: Mapping[str, Any]) -> str:
    return text(asked.get("deviceClassName"))[:_LONGEST_NAME]


def _milliseconds(stamp: Any) -> int | None:
    at = ledger.seconds(stamp)
    return None if at is None else round(at * 1000)
