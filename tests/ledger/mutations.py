"""The ledger with one rule taken out, each time another one. `machine` has to find each of them.

A mutation names what is wrong with the code that it makes, and puts that into the present code. Rules of which the machine
seldom notices that they are missing have stories of their own, in `test_decide`.
"""

import heapq
from collections.abc import Callable
from typing import Any, Final

import pytest

from bulkhead.ledger import decide, takeback
from bulkhead.ledger.account import TenantLine
from bulkhead.ledger.books import Books, Held, Side
from bulkhead.ledger.model import Stage

Mutation = Callable[[pytest.MonkeyPatch], None]


def lends_more_than_there_is(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TenantLine, "room", lambda self: max(0, self.ceiling - self.used - self.reserved - self.own))


def forgets_pods_between_admission_and_binding(patch: pytest.MonkeyPatch) -> None:
    def hold(self: Side, held: Held) -> None:
        self.account.add(held.pod.tenant, held.charge)
        if held.pod.stage is Stage.BOUND:
            self.board.hold(held.node, held.pod.asks)

    patch.setattr(Side, "hold", hold)


def leaves_gangs_in_part(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "_rests", lambda *_: [])


def waits_for_ever_for_a_binding(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(takeback, "_unbound", lambda *_: None)


def holds_places_for_what_cannot_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Books, "could_ever", lambda *_: True)


def puts_borrowers_before_owners(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide.Queue, "_push", _push_by_age)


def _push_by_age(self: Any, line: Any) -> None:
    first = self._lines[line][-1]
    heapq.heappush(self._heap, (0, 0.0, -first.priority, first.since, first.tenant, first.key, line))


def waits_for_ever_for_what_is_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Books, "is_overdue", lambda *_: False)


QUICK: Final[tuple[Mutation, ...]] = (lends_more_than_there_is, waits_for_ever_for_what_is_lost)
MUTATIONS: Final[tuple[Mutation, ...]] = (
    lends_more_than_there_is,
    forgets_pods_between_admission_and_binding,
    leaves_gangs_in_part,
    waits_for_ever_for_a_binding,
    holds_places_for_what_cannot_start,
    puts_borrowers_before_owners,
    waits_for_ever_for_what_is_lost,
)
