"""For how long the shell remembers who was moved where."""

from dataclasses import replace

from bulkhead.ledger.model import Cause, Moved, Pod, Reclaim, Stage
from controller.dispatch.moves import Moves

POD = Pod("u", "bh-team-a-work", "p", {}, Stage.BOUND, 0.0, tenant="team-a", node="n0")
LEAVES = replace(POD, reclaim_by=180.0)
RECLAIM = Reclaim(POD, Cause.MOVED, 180.0, to="n1")


def kept(moves: Moves, now: float, *, there: bool) -> tuple[Moved, ...]:
    return moves.at(now, lambda _: LEAVES if there else None)


def test_a_place_is_kept_while_the_pod_is_there_and_for_a_minute_after() -> None:
    moves = Moves()
    moves.note(RECLAIM, 10.0)
    assert kept(moves, 500.0, there=True) == (Moved(POD, "n1", 10.0),)
    assert kept(moves, 510.0, there=False) == (Moved(POD, "n1", 10.0, until=570.0),)
    assert kept(moves, 569.0, there=False) == (Moved(POD, "n1", 10.0, until=570.0),)
    assert kept(moves, 570.0, there=False) == ()


def test_what_does_not_go_after_all_keeps_no_other_place() -> None:
    moves = Moves()
    moves.note(RECLAIM, 10.0)
    assert moves.at(40.0, lambda _: POD), "the note may be on its way"
    assert moves.at(40.1, lambda _: POD) == ()


def test_once_its_successor_is_admitted_nothing_is_kept() -> None:
    moves = Moves()
    moves.note(RECLAIM, 10.0)
    moves.forget("")
    assert kept(moves, 11.0, there=False)
    moves.forget("u")
    assert kept(moves, 12.0, there=False) == ()


def test_of_very_many_the_last_are_remembered() -> None:
    moves = Moves()
    for number in range(2000):
        moves.note(Reclaim(Pod(str(number), "a", "p", {}, Stage.BOUND, 0.0), Cause.MOVED, 0.0, to="n1"), 0.0)
    found = kept(moves, 1.0, there=True)
    assert (len(found), found[-1].pod.uid) == (1024, "1999")
