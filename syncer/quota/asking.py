"""What a pod that waits for the ledger asks for, of which gang it is, and where it stands: read from virtual and host pods.

Amounts are whole numbers in base units, as in `bulkhead.ledger.model`: millicores of cpu, bytes of memory, devices.
"""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from bulkhead.api import ledger, podresources
from bulkhead.api.objects import Obj
from bulkhead.api.quantity import base_units, readable
from bulkhead.api.untrusted import mapping, sequence, text
from syncer.quota.order import Amounts, Gang, QueueOrder
from syncer.translate.kinds import gate
from syncer.translate.podspec import podsize
from syncer.translate.view import TenantView

# As every API server writes it: as texts such times stand in their order.
_MADE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_YOUNGEST: Final = "9999-12-31T23:59:59Z"
_LONGEST_UID: Final = 64


class Priorities:
    """The host's priorities by class, as far as host pods have shown them; an unseen class counts as 0."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def learn(self, desired: Obj, made: Obj) -> None:
        """Learn the priority that the host gave to a pod's class, or to none."""
        self._known[text(desired["spec"].get("priorityClassName"))] = _priority(made)

    def saw(self, host: Obj, view: TenantView) -> None:
        """Learn from a host pod; a class that tenants cannot name is the host's default class."""
        name = text(mapping(host.get("spec")).get("priorityClassName"))
        named = name in view.allowed_priority_classes or name == view.priority_class
        self._known.setdefault(name if named else "", _priority(host))

    def rank(self, virtual: Obj, view: TenantView) -> QueueOrder:
        """Where a virtual pod stands."""
        named = text(mapping(virtual.get("spec")).get("priorityClassName"))
        name = named if named in view.allowed_priority_classes else view.priority_class
        return (_held_back(virtual), -self._known.get(name, 0), -gate.own_priority(virtual), *_age_of(virtual))


def rank_of_host(host: Obj) -> QueueOrder:
    """The rank of a host pod by its own age, until its virtual pod has been seen."""
    noted = text(mapping(mapping(host.get("metadata")).get("annotations")).get(ledger.OWN_PRIORITY))
    own = int(noted) if noted.removeprefix("-").isdecimal() and len(noted) < 12 else 0
    return (0, -_priority(host), -own, *_age_of(host))


def rank_as(virtual: Obj, rank: QueueOrder) -> QueueOrder:
    """The same rank with the values of its virtual pod."""
    _, given, own, *_ = rank
    return (_held_back(virtual), given, own, *_age_of(virtual))


def _held_back(virtual: Obj) -> int:
    """1 if the tenant holds the pod back by scheduling gates of its own; gates that the host has set do not count."""
    return int(bool(sequence(mapping(virtual.get("spec")).get("schedulingGates"))))


def _age_of(pod: Obj) -> tuple[str, str]:
    """When a pod was created, and its UID to order pods of one second; a malformed time counts as the youngest."""
    meta = mapping(pod.get("metadata"))
    made = text(meta.get("creationTimestamp"))
    return made if _MADE.fullmatch(made) else _YOUNGEST, text(meta.get("uid"))[:_LONGEST_UID]


def gang_of(host: Obj, namespace: str) -> Gang | None:
    """The gang that a host pod says it is of."""
    noted = mapping(mapping(host.get("metadata")).get("annotations"))
    name, size = text(noted.get(ledger.GANG)), text(noted.get(ledger.GANG_SIZE))
    if not name or not size.isdecimal() or len(size) > len(str(ledger.MOST_PODS)):
        return None
    return Gang(namespace, name, int(size), text(noted.get(ledger.GANG_TOPOLOGY)))


def of_desired(desired: Obj, resources: Iterable[str], view: TenantView) -> dict[str, int]:
    """What a pod asks for of each resource, with what the host gives to containers that name none."""
    return of_host(podsize.with_defaults(desired, view), resources)


def of_host(host: Obj, resources: Iterable[str]) -> dict[str, int]:
    """What a host pod asks for of each resource."""
    found = {name: base_units(name, podresources.requested(host, name), "up") for name in resources}
    return {name: number for name, number in found.items() if number > 0}


def room_of(quota: Mapping[str, Any], resource: str) -> int | None:
    """What a quota of the host has left of a resource, as its controller last counted; None where it has no limit."""
    status, name = mapping(quota.get("status")), f"requests.{resource}"
    hard, used = readable(mapping(status.get("hard")).get(name)), readable(mapping(status.get("used")).get(name))
    if hard is None:
        return None
    return base_units(resource, hard, "down") - base_units(resource, used or Decimal(0), "up")


def words(asks: Amounts) -> str:
    """Amounts as people read them."""
    return ", ".join(f"{number}{'m' if name == 'cpu' else ''} {name}" for name, number in asks.items())


def _priority(host: Obj) -> int:
    given = mapping(host.get("spec")).get("priority")
    return given if type(given) is int else 0
