"""Reads which devices a host pod of a tenant holds, as metering counts them.

    host pod ──> held_of ──> Held: the tenant, the devices, since when, running since, ended

A pod holds devices from its admission by the ledger. A pod without the ledger's gate holds them from its binding. The devices
are in use once a container that has them has started. Beginnings and ends are timestamps of the host. Times are whole
milliseconds since 1970. Pure.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api import accelerators, labels, ledger, names, virtualowners
from bulkhead.api.conditions import condition_of
from bulkhead.api.podphase import has_ended, placed_on
from bulkhead.api.untrusted import mapping, mappings, text

LONGEST_NAME: Final = 253
MOST_DEVICES: Final = 64


@dataclass(frozen=True, slots=True)
class Held:
    """A pod of a tenant that holds or held devices, directly or by claims."""

    uid: str
    tenant: str
    # Of the virtual pod. Its owner is its controller, or the pod itself: `Job/train`.
    namespace: str
    name: str
    owner: str
    devices: Mapping[str, int]
    # Of all devices but some.
    flavor: str
    unflavored: tuple[str, ...]
    # How many of the devices its tenant borrowed when the pod was admitted.
    borrowed: Mapping[str, int]
    since: int
    running: int | None
    # Whether it has ended, and when, if that is known.
    over: bool
    ended: int | None
    # In its tenant's plane.
    virtual_uid: str = ""


def held_of(pod: Mapping[str, Any]) -> Held | None:
    """The devices that a host pod holds; None if it belongs to no tenant, or holds nothing yet."""
    meta, spec, status = (mapping(pod.get(part)) for part in ("metadata", "spec", "status"))
    uid, tenant = text(meta.get("uid")), names.tenant_of_work(text(meta.get("namespace")))
    if not uid or not tenant:
        return None
    devices = accelerators.requested(pod, sorted(accelerators.extended(pod))[:MOST_DEVICES])
    claims = spec.get("resourceClaims")
    since = _since(pod) if devices or claims else None
    if since is None:
        return None
    noted = mapping(meta.get("annotations"))
    admitted = ledger.read_admitted(noted)
    name = (text(noted.get(labels.VIRTUAL_NAME)) or text(meta.get("name")))[:LONGEST_NAME]
    borrowed = {} if admitted is None else admitted.borrowed or {}
    over = has_ended(pod)
    started, finished = _stamps(status, "startedAt", _holders(spec, devices)), _stamps(status, "finishedAt")
    return Held(
        uid,
        tenant,
        namespace=text(noted.get(labels.VIRTUAL_NAMESPACE))[:LONGEST_NAME],
        name=name,
        owner=virtualowners.owner_name(virtualowners.controller_of(noted), name),
        devices=devices,
        flavor="" if admitted is None else admitted.flavor,
        unflavored=() if admitted is None else tuple(resource for resource in admitted.unflavored if resource in devices),
        borrowed={resource: min(number, devices[resource]) for resource, number in borrowed.items() if resource in devices},
        since=since,
        running=min(started, default=None),
        over=over,
        ended=_end(status, finished) if over else None,
        virtual_uid=text(noted.get(labels.VIRTUAL_UID))[:LONGEST_NAME],
    )


def _since(pod: Mapping[str, Any]) -> int | None:
    """The time from which no other pod could have its devices: its admission, or its binding if it had no gate."""
    spec, meta = mapping(pod.get("spec")), mapping(pod.get("metadata"))
    if any(gate.get("name") == ledger.GATE for gate in mappings(spec.get("schedulingGates"))):
        return None
    admitted = ledger.read_admitted(mapping(meta.get("annotations")))
    if admitted is not None:
        return _milliseconds(admitted.at)
    if not placed_on(pod):
        return None
    bound = condition_of(pod, "PodScheduled")
    stamps = (
        bound.get("lastTransitionTime") if bound.get("status") == "True" else None,
        mapping(pod.get("status")).get("startTime"),
        meta.get("creationTimestamp"),
    )
    return next((_milliseconds(at) for at in map(ledger.seconds, stamps) if at is not None), None)


def _holders(spec: Mapping[str, Any], devices: Mapping[str, int]) -> frozenset[str] | None:
    """The containers that request a pod's devices, including init containers; None if no container does.

    The pod's phase cannot replace this: a pod is Pending while its init containers run, and while any other image is pulled.
    """
    found = set()
    for container in (*mappings(spec.get("initContainers")), *mappings(spec.get("containers"))):
        asked = mapping(container.get("resources"))
        if asked.get("claims") or any(name in mapping(asked.get(part)) for part in ("limits", "requests") for name in devices):
            found.add(text(container.get("name")))
    return frozenset(found) or None


def _stamps(status: Mapping[str, Any], field: str, of: Collection[str] | None = None) -> list[int]:
    """When containers started or finished, as the kubelet reports it; for all containers, or only for those in `of`."""
    listed = (*mappings(status.get("initContainerStatuses")), *mappings(status.get("containerStatuses")))
    some = (container for container in listed if of is None or text(container.get("name")) in of)
    states = (mapping(container.get(part)) for container in some for part in ("state", "lastState"))
    written = (mapping(state.get(how)).get(field) for state in states for how in ("running", "terminated"))
    return [_milliseconds(at) for at in map(ledger.seconds, written) if at is not None]


def _end(status: Mapping[str, Any], finished: list[int]) -> int | None:
    """When a finished pod ended: with its last container, or, if none ran, with the last change of a condition."""
    changes = (ledger.seconds(condition.get("lastTransitionTime")) for condition in mappings(status.get("conditions")))
    return max(finished or [_milliseconds(at) for at in changes if at is not None], default=None)


def _milliseconds(at: float) -> int:
    return round(at * 1000)
