"""The benchmark of planes that survive: what was not observed has no figure, what a run leaves out is not missed."""

import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from e2e.performance import durable, judgement
from e2e.performance.durable import LIMITS, PARTS, Plan, left_out
from e2e.performance.durable_everything import unnamed
from e2e.performance.durable_figures import (
    CONTROL,
    DELETED,
    FORCED,
    LOST,
    ROLLOUT,
    Asked,
    Event,
    Everything,
    Full,
    Readings,
    Restore,
    Snapshot,
    Started,
    noticed,
    summarise,
)
from e2e.performance.durable_plot import plot

WELL = tuple(Asked(float(at)) for at in range(10))
ONE_FAILS = (*WELL, Asked(10.0, "refused", "refused", ""), Asked(11.0))
BOTH_FAIL = (*WELL, Asked(10.0, "refused", "refused", "refused"), Asked(10.5, "refused", "", "refused"), Asked(14.0))
LIMITED = judgement.load(LIMITS)


def whole() -> Readings:
    """A run that measured everything, as well as it is wanted."""
    readings = Readings(
        snapshots=[Snapshot(size, size + 0.4, 3.0, 100.0, 120.0, WELL) for size in (1, 10, 100, 500)],
        restores=[Restore(size, size + 0.4, 30.0, 31.0, 12.0, 15.0, BOTH_FAIL) for size in (1, 10, 100)],
        everything=Everything(40, 1200.0, 1210.0, (), ()),
        started=Started(20.0, 25.0),
        full=Full(4.0, 40.0),
    )
    readings.events = [Event(DELETED, 20.0, ONE_FAILS), Event(DELETED, 25.0, WELL), Event(FORCED, 20.0, ONE_FAILS)]
    readings.events += [Event(LOST, 60.0, WELL), Event(ROLLOUT, 90.0, WELL), Event(CONTROL, 15.0, BOTH_FAIL)]
    return readings


def test_a_client_that_tries_again_notices_what_fails_twice() -> None:
    assert noticed(ONE_FAILS) == {"requests": 12, "failed": 1, "failed_at_once": 1, "failed_retry": 0, "longest_s": 1.0}
    assert noticed(BOTH_FAIL) == {"requests": 13, "failed": 2, "failed_at_once": 1, "failed_retry": 2, "longest_s": 4.0}
    # An outage that goes on to the end counts until its last request.
    assert noticed((Asked(1.0, "refused"), Asked(3.0, "refused")))["longest_s"] == 2.0


def test_a_client_that_asked_nothing_has_no_figures_and_fails_the_run() -> None:
    assert noticed(()) == {}
    readings = whole()
    readings.snapshots[3] = Snapshot(500, 500.0, 5.0, 100.0, 120.0, ())
    readings.events[1] = Event(DELETED, 25.0, ())
    complaints = judgement.complaints(judgement.judge(summarise(readings), LIMITED))
    assert complaints == ["not measured: snapshot.500.failed, deleted.failed_retry"]


def test_events_of_one_name_count_together() -> None:
    found = summarise(whole())["deleted"]
    assert (found["seconds"], found["each_s"], found["requests"], found["failed"]) == (25.0, [20.0, 25.0], 22, 1)
    assert summarise(whole())["control"]["errors"] == ["refused"]


def test_a_run_that_measured_everything_as_wanted_passes() -> None:
    verdicts = judgement.judge(summarise(whole()), LIMITED)
    assert judgement.complaints(verdicts) == []
    assert judgement.passes(verdicts)


def _without(part: str) -> Callable[[Readings], None]:
    def change(readings: Readings) -> None:
        setattr(readings, part, type(getattr(readings, part))() if isinstance(getattr(readings, part), list) else None)

    return change


def _event(name: str, asked: tuple[Asked, ...]) -> Callable[[Readings], None]:
    def change(readings: Readings) -> None:
        readings.events = [event for event in readings.events if event.name != name] + [Event(name, 20.0, asked)]

    return change


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (_without("snapshots"), "not measured: snapshot.1.seconds"),
        (_without("restores"), "not measured: restore.1.ready_s"),
        (_without("everything"), "not measured: all.each_s"),
        (_without("events"), "not measured: deleted.failed_retry"),
        (_without("full"), "not measured: full.noticed_s"),
        (_event(DELETED, BOTH_FAIL), "beyond the limit: deleted.failed_retry 2 (0)"),
        (_event(LOST, BOTH_FAIL), "beyond the limit: lost.failed_retry 2 (0)"),
        # The control: if the deletion of an only pod is not noticed, the client would have noticed nothing at all.
        (_event(CONTROL, WELL), "beyond the limit: control.failed_retry 0 (1)"),
    ],
    ids=["snapshots", "restores", "all", "events", "full", "noticed", "lost", "control"],
)
def test_what_is_missing_or_noticed_fails_the_run(change: Callable[[Readings], None], complaint: str) -> None:
    readings = whole()
    change(readings)
    assert complaint in " ".join(judgement.complaints(judgement.judge(summarise(readings), LIMITED)))


def test_a_lost_member_that_is_no_voter_again_within_five_minutes_fails_the_run() -> None:
    """What is promised, whatever is recorded: a limit follows the worst figure, and must not pass the promise."""
    readings = whole()
    readings.events = [replace(event, seconds=300.1) if event.name == LOST else event for event in readings.events]
    complaints = " ".join(judgement.complaints(judgement.judge(summarise(readings), LIMITED)))
    assert "beyond the limit: lost.seconds 300.1" in complaints
    assert LIMITED["lost.seconds"].is_judged
    assert LIMITED["lost.seconds"].limit <= 300


@pytest.mark.parametrize("part", PARTS)
def test_a_part_alone_wants_its_own_figures(part: str) -> None:
    plan = Plan((part,), (1, 100), 4)
    wanted = set(LIMITED) - set(left_out(plan, LIMITED))
    expected = {
        "snapshot": {"snapshot.1.seconds", "snapshot.1.failed", "snapshot.100.seconds", "snapshot.100.failed"},
        "restore": {"restore.1.ready_s", "restore.1.failed", "restore.100.ready_s"},
        "pods": {"members.ready_s", "deleted.failed_retry", "forced.failed_retry", "control.failed_retry"},
        "volume": {"members.ready_s", "lost.seconds", "lost.failed_retry"},
        "rollout": {"members.ready_s", "rollout.failed_retry"},
        "full": {"full.noticed_s", "full.opened_s"},
        "all": {"all.each_s", "all.changed", "all.unnamed"},
    }
    assert wanted == expected[part]


def test_everything_is_wanted_of_a_whole_run_and_half_an_hour_of_forty_tenants_alone() -> None:
    assert left_out(Plan(), LIMITED) == ("all.forty_min",)
    assert left_out(Plan(tenants=40), LIMITED) == ()
    assert "forty_min" in summarise(whole())["all"]
    assert "forty_min" not in summarise(Readings(everything=Everything(4, 1.0, 1.0, (), ())))["all"]


def test_a_restore_alone_takes_the_snapshots_that_it_needs() -> None:
    plan = Plan(("restore",), (1, 100, 500))
    assert (plan.snapshots, plan.restores) == ((1, 100), (1, 100))
    assert Plan(("snapshot",), (1, 500)).restores == ()


def test_a_tenant_that_the_command_did_not_speak_of_is_named() -> None:
    told = ["[  1.0s] tenant t-1: the plane stops", "[  2.0s] warning: tenant t-10 is back, with snapshot s"]
    assert unnamed(told, ["t-1", "t-10"]) == ("t-10",)


def test_a_part_that_ended_early_says_why() -> None:
    readings, notes = whole(), list[str]()

    def fails() -> None:
        raise AssertionError("waited 600 s for all members after lost")

    durable._tried("volume", fails, readings, notes.append)
    assert notes[-1] == "volume ended early: waited 600 s for all members after lost"
    assert summarise(readings)["broken"] == {"volume": "waited 600 s for all members after lost"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--sizes", "1,x"], "--sizes must be numbers of MiB such as 1,100, not '1,x'"),
        (["--sizes", "0"], "--sizes must be from 1 to 900, not '0'"),
        (["--sizes", "2000"], "--sizes must be from 1 to 900"),
        (["--tenants", "0"], "--tenants must be from 1 to 60, not 0"),
        (["--only", "everything"], "invalid choice: 'everything'"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    arguments: list[str], complaint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["durable", *arguments])
    with pytest.raises(SystemExit) as ended:
        durable._chosen()
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


def test_what_is_asked_for_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "argv", ["durable", "--only", "pods", "--only", "all", "--forty", "--sizes", "100,1", "--skip-install"]
    )
    assert durable._chosen() == (Plan(("pods", "all"), (1, 100), 40), False)


def texts(picture: str) -> list[Any]:
    return [element.text for element in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314 - our own


def test_the_picture_shows_seconds_by_size_and_failed_requests() -> None:
    found = texts(plot(whole()))
    assert found.count("3") == 4
    assert found.count("31") == 3
    assert "a pod deleted, each in turn" in found
    assert "1, 0 of 22" in found
    assert "2, 2 of 13" in found


def test_a_run_that_measured_nothing_has_a_picture_without_points() -> None:
    assert "snapshot taken" in texts(plot(Readings()))
    assert "circle" in plot(Readings())
    assert "rect x" not in plot(Readings())
