"""Keeps quota and room for the successors of moved pods.

    Moved ──> room on its new node, and its quota once it is gone itself ──> reserved in the books
    a workload that waits ──> the successor of one? ──> it starts there, before all others

A successor has another UID, and often another name. It is recognised by its controller: a single pod, no older than the
decision, that asks for the same, may go to the same nodes and has the same priorities. Among several such pods any one may be
it.
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
    """What is kept for one."""

    moved: Moved
    # Room, and quota once the pod that was moved is gone.
    done: Done
    # That pod is there still.
    is_there: bool


class Homes:
    """Of one turn."""

    def __init__(self, moved: Iterable[Moved], books: Books) -> None:
        self._books = books
        self._homes: dict[_Like, list[Home]] = {}
        for move in moved:
            pod, is_there = move.pod, move.pod.uid in books.held
            if is_there and not books.is_coming(pod):
                # The host has not shown that it goes, or did not take the note.
                continue
            charge = books.now.account.charge(pod.tenant, pod.asks, books.flavors.used(replace(pod, node=move.node)))
            done = Done(single(pod), {} if is_there else charge, (move.node,), reserved=True)
            books.do(done)
            if is_there:
                # Who waits for its end gets none of its quota.
                books.later.do(Done(single(pod), charge, reserved=True))
            self._homes.setdefault(_like(pod), []).append(Home(move, done, is_there))

    def of(self, workload: Workload) -> Home | None:
        """What is kept for a workload; once its predecessor is gone it is not kept any more then."""
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
    """The same workload on that node alone."""
    pod = workload.pods[0]
    return single(replace(pod, needs=only(pod.needs, "In", (home.moved.node,))))


def _like(pod: Pod) -> _Like:
    asks = tuple(sorted(pod.asks.items()))
    return pod.tenant, pod.virtual_namespace, pod.maker, asks, pod.needs, pod.priority, pod.own_priority
