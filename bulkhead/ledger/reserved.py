"""Which free devices are reserved for waiting workloads at this moment, for metering.

    reservations in the order in which they were made ──> free devices on their nodes ──> ReservedRoom, by tenant and owner

A reservation names nodes for its pods, and most of the devices there may still be in use: by pods that are being reclaimed, or
by workloads that were admitted ahead because they end early enough. Only devices that no pod holds count, and each only once.
Quota that is reserved without nodes does not count, because tenants of other cohorts may still use the devices. Room that is
reserved for the successor of a moved pod does not count either, because its tenant did not request the move.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from bulkhead.api.quotalines import Line, ReservedRoom
from bulkhead.ledger.books import Books, Done
from bulkhead.ledger.model import Pod


class Reservation(NamedTuple):
    """The reservation for a workload, and the flavor as which each resource counts."""

    done: Done
    flavors: Mapping[str, str]


def reserved_rooms(books: Books, reservations: Iterable[Reservation]) -> tuple[ReservedRoom, ...]:
    """The free devices that these reservations keep from other workloads. Leaves the books unchanged."""
    with_nodes = [reservation for reservation in reservations if reservation.done.nodes]
    if not with_nodes:
        return ()
    side = books.now
    mark = side.mark()
    for reservation in with_nodes:
        side.do(reservation.done, -1)
    found: dict[tuple[str, str, str], Counter[Line]] = {}
    for reservation in with_nodes:
        for pod, node in zip(reservation.done.workload.pods, reservation.done.nodes, strict=True):
            free = dict(_free_devices(books, pod, node, reservation.flavors))
            if free:
                found.setdefault((pod.tenant, pod.virtual_namespace, pod.owner), Counter()).update(free)
            side.board.hold(node, pod.asks)
    side.undo(mark)
    return tuple(ReservedRoom(*key, dict(devices)) for key, devices in found.items())


def _free_devices(books: Books, pod: Pod, node: str, flavors: Mapping[str, str]) -> Iterator[tuple[Line, int]]:
    """How many of the devices that a pod requests are free on its node, by line."""
    for resource, asked in pod.asks.items():
        free = min(asked, books.now.board.free(node, resource)) if "/" in resource else 0
        if free > 0:
            yield (flavors.get(resource, ""), resource), free
