"""What runs, in which order, and what still fits."""

import pytest

from ci import catalogue, plan, table
from ci.catalogue import Host, Suite
from ci.record import Past, Result, Run

OURS = catalogue.parse("""
suites:
  check: {title: t, command: make check, minutes: 1, fixed: true}
  pure: {title: t, command: make pure, minutes: 5}
  slurm: {title: t, command: make slurm, minutes: 15, host: shared}
  nodes: {title: t, command: make nodes, minutes: 8, host: own}
folders:
  docs/**: []
  syncer/**: [pure, nodes]
  controller/**: [slurm, nodes]
""")
PURE, SLURM, NODES = OURS.others


def ran(result: str, day: int, seconds: float = 100.0, commit: str = "c", *, changed: bool = False) -> Run:
    return Run(Result(result), commit, changed, seconds, f"2026-01-{day:02}T00:00:00+00:00")


def past(*runs: Run) -> Past:
    found = Past(runs[0], runs[0] if runs[0].result is Result.PASSED else None)
    for run in runs[1:]:
        found = found.then(run)
    return found


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ([], {}),
        (["docs/a.md"], {}),
        (["syncer/a.py", "syncer/b.py"], {"pure": ["syncer"], "nodes": ["syncer"]}),
        (
            ["syncer/a.py", "controller/x/a.py"],
            {"pure": ["syncer"], "slurm": ["controller/x"], "nodes": ["controller/x", "syncer"]},
        ),
        (None, {"pure": [], "slurm": [], "nodes": []}),
    ],
)
def test_a_change_wants_what_it_touches_and_without_a_base_all(changed: list[str] | None, wanted: dict[str, list[str]]) -> None:
    assert plan.wanted(OURS, changed) == wanted


def test_what_a_change_touches_is_shown_with_its_command_and_how_it_ended_last() -> None:
    record = {"nodes": past(ran("passed", 1, 90.0), ran("failed", 2, commit="0123456789abcdef"))}
    seconds = {suite.name: plan.expected(suite, record) for suite in (PURE, NODES)}
    assert table.touched(OURS.others, seconds, record).splitlines() == [
        "suite  last result  commit      takes       command",
        "pure   never run                5 min 00 s  make pure",
        "nodes  failed       0123456789  90 s        make nodes",
    ]
    assert table.touched(OURS.others, {}, record) == "the change touches no suite beyond the fixed part"


PARTED = catalogue.parse("""
suites:
  quick: {title: t, command: make quick, minutes: 1, fixed: true, part of: whole}
  whole: {title: t, command: make whole, minutes: 20}
  left: {title: t, command: make left, minutes: 8, part of: whole}
  right: {title: t, command: make right, minutes: 8, part of: whole}
  other: {title: t, command: make other, minutes: 8}
folders:
  l/**: [left, other]
  r/**: [right]
  all/**: [whole]
""")


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        (["l/a.py"], {"left": ["l"], "other": ["l"]}),
        (["r/a.py"], {"right": ["r"]}),
        (["l/a.py", "r/a.py", "r/b/a.py"], {"whole": ["l", "r", "r/b"], "other": ["l"]}),
        (["all/a.py", "l/a.py"], {"whole": ["all", "l"], "other": ["l"]}),
        (["all/a.py"], {"whole": ["all"]}),
        (None, {"whole": [], "other": []}),
    ],
)
def test_a_part_runs_alone_and_all_parts_as_the_whole(changed: list[str] | None, wanted: dict[str, list[str]]) -> None:
    assert plan.wanted(PARTED, changed) == wanted


def names(suites: list[Suite]) -> list[str]:
    return [suite.name for suite in suites]


def test_longest_not_run_is_first_and_never_run_before_it() -> None:
    record = {"slurm": past(ran("passed", 3)), "pure": past(ran("failed", 2))}
    assert names(plan.in_order(OURS.others, record, "c")) == ["nodes", "pure", "slurm"]


def test_a_run_that_was_stopped_does_not_count_as_run() -> None:
    record = {
        "pure": past(ran("passed", 1), ran("stopped", 9)),
        "slurm": past(ran("passed", 2)),
        "nodes": past(ran("stopped", 8)),
    }
    assert names(plan.in_order(OURS.others, record, "c")) == ["nodes", "pure", "slurm"]


def test_where_nothing_is_remembered_all_get_their_turn() -> None:
    firsts = {names(plan.in_order(OURS.others, {}, f"commit {number}"))[0] for number in range(30)}
    assert firsts == {"pure", "slurm", "nodes"}
    assert plan.in_order(OURS.others, {}, "c") == plan.in_order(reversed(OURS.others), {}, "c")


@pytest.mark.parametrize(
    ("runs", "seconds"),
    [
        ((), 300),
        ((ran("passed", 1, 200),), 200),
        ((ran("passed", 1, 200), ran("failed", 2, 10)), 200),
        ((ran("failed", 2, 10),), 300),
        ((ran("passed", 1, 200), ran("stopped", 2, 900)), 900),
        ((ran("passed", 1, 200), ran("stopped", 2, 50)), 200),
    ],
)  # fmt: skip
def test_what_a_suite_will_take(runs: tuple[Run, ...], seconds: float) -> None:
    assert plan.expected(PURE, {"pure": past(*runs)} if runs else {}) == seconds


@pytest.mark.parametrize(
    ("seconds", "first"), [(900.0, "slurm"), (899.0, "nodes"), (480.0, "nodes"), (479.0, "pure"), (10.0, None)]
)
def test_what_does_not_fit_waits_and_what_fits_goes_before_it(seconds: float, first: str | None) -> None:
    found = plan.following([SLURM, NODES, PURE], {}, seconds)
    assert (found.name if found else None) == first


@pytest.mark.parametrize(
    ("former", "suite", "down"),
    [
        (Host.NONE, SLURM, False),
        (Host.SHARED, SLURM, False),
        (Host.OWN, SLURM, True),
        (Host.NONE, NODES, True),
        (Host.SHARED, NODES, True),
        (Host.OWN, NODES, True),
        (Host.OWN, PURE, False),
    ],
)
def test_a_host_of_another_kind_goes_first(former: Host, suite: Suite, down: bool) -> None:
    assert plan.needs_down(former, suite) is down


def test_one_host_is_taken_down_as_rarely_as_can_be() -> None:
    assert names(plan.one_host([NODES, SLURM, PURE])) == ["pure", "slurm", "nodes"]


@pytest.mark.parametrize(
    ("runs", "changed", "done"),
    [
        ((ran("passed", 1),), False, True),
        ((ran("passed", 1), ran("failed", 2)), False, False),
        ((ran("passed", 1), ran("stopped", 2)), False, True),
        ((ran("passed", 1, commit="before"),), False, False),
        ((ran("passed", 1, changed=True),), False, False),
        ((ran("passed", 1),), True, False),
    ],
)
def test_what_passed_on_this_very_tree_is_done(runs: tuple[Run, ...], changed: bool, done: bool) -> None:
    assert plan.done(OURS.others, {"pure": past(*runs)}, "c", changed=changed) == ({"pure"} if done else set())
