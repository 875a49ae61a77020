"""An experiment that was only slow is made once more: slow again is a violation, anything but slowness stays one.

Of those beside which the machine became slower more may be made once more, and no other is forgiven more easily.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from e2e.chaos import again, judgement, report, runner, speed
from e2e.chaos.again import LEAST, ONE_IN, SLOWED_ONE_IN, SLOWER, once_more
from e2e.chaos.experiments import Experiment
from e2e.chaos.history import Evidence, Finding, Probe, Record, Span, Speed
from e2e.chaos.invariants import Violation
from e2e.chaos.pace import Pace
from e2e.chaos.page import document
from e2e.chaos.schedule import Turn
from tests.e2e_pure.chaosruns import Fault, good_run

FIRST = Fault("killed", "etcd of a killed", "a", 130.0, 134.0, 150.0, 4.0)
OTHER = Fault("frozen", "etcd of a frozen", "a", 200.0, 220.0, 230.0, 20.0)
AGAIN = replace(FIRST, name=once_more("killed"), begin=240.0, lifted=244.0, end=260.0)
Change = Callable[[list[Record]], list[Record]]


def run(*faults: Fault, changes: Sequence[Change] = ()) -> judgement.Judgement:
    records = good_run(faults=faults)
    for change in changes:
        records = change(records)
    return judgement.judge(records)


def slow(fault: Fault, owner: str = "b") -> Change:
    """Ten of the requests of one API take half a second while this fault lasts."""

    def change(records: list[Record]) -> list[Record]:
        own = [
            item for item in records if isinstance(item, Probe) and item.tenant == owner and fault.begin <= item.at < fault.end
        ]
        late = {item.at for item in own[:10]}
        assert len(late) == 10
        return [
            replace(item, seconds=0.5) if isinstance(item, Probe) and item.tenant == owner and item.at in late else item
            for item in records
        ]

    return change


def failing(fault: Fault) -> Change:
    """One request of another tenant fails while this fault lasts."""

    def change(records: list[Record]) -> list[Record]:
        at = next(item.at for item in records if isinstance(item, Probe) and item.tenant == "c" and item.at >= fault.begin)
        return [
            replace(item, error="connection refused")
            if isinstance(item, Probe) and item.tenant == "c" and item.at == at
            else item
            for item in records
        ]

    return change


def unproven(fault: Fault) -> Change:
    return lambda records: [
        replace(item, proven=False) if isinstance(item, Evidence) and item.experiment == fault.name else item
        for item in records
    ]


def unrecovered(fault: Fault) -> Change:
    return lambda records: [
        replace(item, recovered_s=None) if isinstance(item, Finding) and item.experiment == fault.name else item
        for item in records
    ]


def unended(fault: Fault) -> Change:
    return lambda records: [
        item for item in records if not (isinstance(item, Span | Finding) and item.experiment == fault.name)
    ]


def of(judged: judgement.Judgement, name: str) -> list[str]:
    return [item.text for item in judged.violations if item.experiment == name]


def test_what_was_slow_once_and_not_again_is_a_moment_and_is_reported() -> None:
    judged = run(FIRST, OTHER, AGAIN, changes=[slow(FIRST)])
    assert judged.passed
    moment = "I4: tenant b: p99 500 ms, 10 of 100 requests took more than"
    (row,) = [row for row in judged.rows if row.moments]
    assert (row.experiment, row.passed) == ("killed", True)
    assert row.moments[0].startswith(moment)
    told = "slow for a moment, and not when it was made once more"
    assert f"killed: {told}: {moment}" in report.as_text(judged)
    assert "Slow for a moment, and not when it was made once more, as killed#again" in document.html(judged)
    assert report.as_json(judged)["experiments"][0]["moments"] == row.moments
    assert [row.experiment for row in judged.rows] == ["killed", "frozen", "killed#again"]


@pytest.mark.parametrize(
    "changes",
    [
        [slow(FIRST), slow(AGAIN)],
        [slow(FIRST), slow(AGAIN, "c")],
        [slow(FIRST), slow(AGAIN, "host")],
        [slow(FIRST), failing(FIRST)],
        [slow(FIRST), failing(AGAIN)],
        [slow(FIRST), unproven(FIRST)],
        [slow(FIRST), unproven(AGAIN)],
        [slow(FIRST), unrecovered(AGAIN)],
        [slow(FIRST), unended(AGAIN)],
        [failing(FIRST)],
    ],
    ids=[
        "slow again", "another neighbour", "the host", "failed too", "failed again", "unproven", "unproven again",
        "not recovered again", "not ended again", "failed alone",
    ],
)  # fmt: skip
def test_nothing_else_is_forgiven(changes: Sequence[Change]) -> None:
    judged = run(FIRST, OTHER, AGAIN, changes=changes)
    assert not judged.passed
    assert of(judged, "killed")
    assert not any(row.moments for row in judged.rows)


def test_what_was_not_made_once_more_is_a_violation() -> None:
    judged = run(FIRST, OTHER, changes=[slow(FIRST)])
    assert not judged.passed
    assert of(judged, "killed")


def late(name: str, *, slow: bool = True) -> Violation:
    return Violation("I4", name, "tenant b: p99 500 ms", slow=slow)


def test_more_than_a_few_slow_ones_show_a_slow_platform() -> None:
    asked = [f"e{number}" for number in range(30)]
    few, many = asked[: 30 // ONE_IN], asked[: 30 // ONE_IN + 1]
    everything = frozenset(once_more(name) for name in asked)
    assert again.settle([late(name) for name in few], everything, asked, {}).violations == ()
    assert again.settle([late(name) for name in many], everything, asked, {}).moments == ()
    # A short run has six experiments.
    assert again.settle([late("e1"), late("e2")], everything, asked[:6], {}).violations == ()
    assert len(again.settle([late("e1"), late("e2"), late("e3")], everything, asked[:6], {}).violations) == 3


def test_what_was_slow_beside_a_slower_machine_counts_apart_and_has_to_hold_all_the_same() -> None:
    asked = [f"e{number}" for number in range(32)]
    beside = dict.fromkeys(asked[: 32 // SLOWED_ONE_IN], 1.5)
    slow = [*beside, *asked[-(32 // ONE_IN) :]]
    held = frozenset(once_more(name) for name in slow)
    assert again.settle([late(name) for name in slow], held, asked, beside).violations == ()
    assert len(again.settle([late(name) for name in slow], held, asked, {}).violations) == len(slow)
    # One of them is slow once more.
    assert again.settle([late(name) for name in slow], held - {once_more("e0")}, asked, beside).violations == (late("e0"),)
    # More than so many show that the machine cannot tell anything of the platform.
    most = dict.fromkeys(asked[: 32 // SLOWED_ONE_IN + 1], 1.5)
    assert again.settle([late(name) for name in most], frozenset(map(once_more, most)), asked, most).moments == ()


def test_a_machine_is_slower_by_the_worst_look_at_it_against_those_of_the_baseline() -> None:
    baseline = [Speed(at, "", cpu_seconds) for at, cpu_seconds in enumerate((0.040, 0.042, 0.090))]
    looks = [
        Speed(10, "one", 0.042), Speed(15, "one", 0.063), Speed(20, "one", 0.042), Speed(30, "two", 0.042 * SLOWER),
        Speed(40, "three", 0.030),
    ]  # fmt: skip
    assert again.slowed([*baseline, *looks]) == {"one": pytest.approx(1.5)}
    assert again.slowed(looks) == {}
    assert again.slowed(baseline) == {}


def test_the_work_that_shows_a_machines_speed_is_little() -> None:
    first, second = speed.cpu_seconds(), speed.cpu_seconds()
    assert 0 < first < 2
    assert 0 < second < 2


def test_a_slower_machine_is_told_and_its_experiments_may_be_more() -> None:
    begins = [130.0 + 30 * number for number in range(LEAST + 1)]
    faults = [replace(FIRST, name=f"killed-{begin:.0f}", begin=begin, lifted=begin + 4, end=begin + 20) for begin in begins]
    records = good_run(faults=tuple(faults))
    for fault in faults:
        records = slow(fault)(records)
    assert judgement.slow_ones(records) == ()
    looks = [Speed(100.0, "", 0.04), Speed(131.0, "killed-130", 0.06)]
    assert judgement.slow_ones([*records, *looks]) == tuple(fault.name for fault in faults)
    judged = judgement.judge([*records, *looks])
    assert "killed-130: the machine took 1.5 times the CPU time of the baseline for the same work" in report.as_text(judged)
    assert report.as_json(judged)["machine_slower"] == {"killed-130": 1.5}


def test_only_slow_ones_are_made_once_more_and_only_once() -> None:
    asked = ["one", "two", "three", once_more("one")]
    found = [late("one"), late("two"), late("two", slow=False), late(once_more("one")), late("baseline")]
    assert again.slow_ones(found, asked) == ("one",)


def test_a_run_asks_for_none_where_too_many_were_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    records = slow(OTHER)(slow(FIRST)(good_run(faults=(FIRST, OTHER))))
    assert judgement.slow_ones(records) == ("killed", "frozen")
    monkeypatch.setattr(again, "LEAST", 1)
    assert judgement.slow_ones(records) == ()


class Standing:
    """A recorder that goes on, or that ends after so many looks at it."""

    def __init__(self, looks: int = 99) -> None:
        self.looks = looks

    def poll(self) -> int | None:
        self.looks -= 1
        return None if self.looks >= 0 else 1


@pytest.mark.parametrize(("slow_names", "made"), [((), []), (("one", "two"), ["one#again", "two#again"])])
def test_the_runner_makes_them_once_more_on_the_same_tenants(
    monkeypatch: pytest.MonkeyPatch, slow_names: tuple[str, ...], made: list[str]
) -> None:
    it, done, begun = a_runner(monkeypatch, slow_names)
    it._once_more(*done)
    assert [(turn.experiment.name, turn.member.name) for turn in begun] == [(name, f"of-{name[:3]}") for name in made]
    looks = [(record.experiment, record.cpu_seconds) for record in it.records if isinstance(record, Speed)]
    assert looks == [(name, 0.04) for name in made for _ in ("before", "after")]


def test_a_machine_whose_speed_is_not_known_stops_no_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> float:
        raise FileNotFoundError("/bin/true")

    it, done, begun = a_runner(monkeypatch, ("one",))
    monkeypatch.setattr(speed, "cpu_seconds", gone)
    it._once_more(*done)
    assert (len(begun), it.records) == (1, [])


def test_the_runner_stops_once_nothing_is_recorded_any_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    it, done, begun = a_runner(monkeypatch, ("one", "two"))
    nothing: Any = Standing(looks=1)
    it._recorders = {"observer": nothing}
    it._once_more(*done)
    assert [turn.experiment.name for turn in begun] == ["one#again"]
    assert it.failed == "ended before two#again began: observer"
    it._once_more(*done)  # what cannot be judged is not made longer
    assert len(begun) == 1


def a_runner(monkeypatch: pytest.MonkeyPatch, slow_names: tuple[str, ...]) -> tuple[runner.Runner, tuple[Any, ...], list[Turn]]:
    """A runner with three experiments behind it, the arguments of its last step, and the turns that it begins."""
    nothing: Any = None
    standing: Any = Standing()
    it = runner.Runner(nothing, lambda _: None, Pace(settle=0.0))
    it._recorders = {"observer": standing}
    turns = []
    for name in ("one", "two", "three"):
        member: Any = SimpleNamespace(name=f"of-{name}")
        turns.append(Turn(Experiment(name, name, nothing, 60), member))
    monkeypatch.setattr(judgement, "slow_ones", lambda _: slow_names)
    monkeypatch.setattr(runner.Runner, "_gather", lambda _: [])
    monkeypatch.setattr(speed, "cpu_seconds", lambda: 0.04)
    monkeypatch.setattr(runner.Runner, "_whole", lambda *_: None)
    begun: list[Turn] = []
    opened = {turn.member.name: SimpleNamespace(name=turn.member.name) for turn in turns}

    def experiment(_: runner.Runner, experiment: Experiment, target: Any, others: Any) -> bool:
        assert target not in others
        assert len(others) == 2
        begun.append(Turn(experiment, target))
        return False

    monkeypatch.setattr(runner.Runner, "_experiment", experiment)
    return it, (None, None, opened, turns), begun
