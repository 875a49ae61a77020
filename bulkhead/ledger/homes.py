"""Keeps quota and room for the successors of moved pods.

    Moved ──> room on its new node, and its quota once the pod itself is gone ──> reserved in the books
    a waiting workload ──> the successor of a moved pod? ──> it starts there, before all others

A successor has another UID, and often another name. It is a single pod of the same controller, no older than the decision, with
the same requests, needs and priorities. If several pods match, any of them counts as the successor.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from bulkhead.ledger.books import Books, Done
from bulkhead.ledger.model import Moved, Needs, Pod
from bulkhead.ledger.nodes import only
from bulkhead.ledger.order import Workload, single

_Like: TypeAlias = tuple[str, str, str, tuple[tuple[str, int], ...], Needs, int, int]
# A time that an API server wrote is cut to whole seconds.
_STAMP_CUT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Home:
    """The reservation for the successor of one moved pod."""

    moved: Moved
    # Room, and quota once the moved pod is gone.
    done: Done
    # Whether the moved pod still exists.
    is_there: bool


class Homes:
    """The reservations for successors in one turn."""

    def __init__(self, moved: Iterable[Moved], books: Books) -> None:
        self._books = books
        self._homes: dict[_Like, list[Home]] = {}
        for move in moved:
            pod, is_there = move.pod, move.pod.uid in books.held
            if is_there and not books.is_coming(pod):
                # The host has not shown the reclaim yet, or refused to write it.
                continue
            charge = books.now.account.charge(pod.tenant, pod.asks, books.flavors.used(replace(pod, node=move.node)))
            done = Done(single(pod), {} if is_there else charge, (move.node,), reserved=True)
            books.do(done)
            if is_there:
                # A workload that waits for the moved pod's end must not get its quota.
                books.later.do(Done(single(pod), charge, reserved=True))
            self._homes.setdefault(_like(pod), []).append(Home(move, done, is_there))

    def of(self, workload: Workload) -> Home | None:
        """The reservation for a workload; None if it is not a successor. If its predecessor is gone, the reservation ends."""
        if len(workload.pods) != 1 or workload.pods[0].gang is not None:
            return None
        mine = self._homes.get(_like(workload.pods[0]), [])
        home = next((home for home in mine if workload.since + _STAMP_CUT_SECONDS > home.moved.since), None)
        if home is not None:
            mine.remove(home)
            if not home.is_there:
                self._books.do(home.done, -1)
        return home


def at_home(workload: Workload, home: Home) -> Workload:
    """The same workload, restricted to its reserved node."""
    pod = workload.pods[0]
    return single(replace(pod, needs=only(pod.needs, "In", (home.moved.node,))))


def _like(pod: Pod) -> _Like:
    asks = tuple(sorted(pod.asks.items()))
    return pod.tenant, pod.virtual_namespace, pod.maker, asks, pod.needs, pod.priority, pod.own_priority
