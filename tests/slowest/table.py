"""Pure: from the lines of a record to the tables that `make slowest` prints."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.kit.order import LONGEST_FIRST, unit_of
from tests.slowest import memory, speed
from tests.slowest.memory import Held
from tests.slowest.speed import Speed

PHASES = ("setup", "call", "teardown")
LONG_SECONDS = 15.0  # a unit of tests that takes longer, and begins late, makes the other processes wait for its own
MAIN = "main"  # the process that gives tests to the others, or runs them itself


@dataclass(slots=True)
class Cost:
    """Seconds of the wall, of the test's process, and of what it started."""

    wall: float = 0.0
    own: float = 0.0
    started: float = 0.0
    count: int = 0

    @property
    def waited(self) -> float:
        """What neither this process nor those that it started computed; never less than nothing on several cores."""
        return max(0.0, self.wall - self.own - self.started)

    def add(self, wall: float, own: float, started: float) -> None:
        """Another part of it."""
        self.wall += wall
        self.own += own
        self.started += started


@dataclass(slots=True)
class Spent:
    """A whole run."""

    tests: dict[str, Cost] = field(default_factory=lambda: defaultdict(Cost))
    files: dict[str, Cost] = field(default_factory=lambda: defaultdict(Cost))
    folders: dict[str, Cost] = field(default_factory=lambda: defaultdict(Cost))
    fixtures: dict[str, Cost] = field(default_factory=lambda: defaultdict(Cost))
    processes: dict[str, list[tuple[float, int, str]]] = field(default_factory=lambda: defaultdict(list))
    memory: Held = field(default_factory=Held)
    speed: Speed = field(default_factory=Speed)
    begun: dict[str, float] = field(default_factory=dict)  # process of the run -> when
    ended: dict[str, float] = field(default_factory=dict)
    latest: float = 0.0  # when the latest line with a time was written

    @property
    def seconds(self) -> float:
        """From the first process's begin to the last one's end, or to the last sign of it."""
        first = min(self.begun.values(), default=0.0)
        return max(first, self.latest, *self.ended.values()) - first

    @property
    def cut(self) -> list[str]:
        """The processes that did not end: the run was cut off, or goes on."""
        return sorted(self.begun.keys() - self.ended.keys())

    @property
    def sum(self) -> Cost:
        """All tests together."""
        whole = Cost(count=len(self.tests))
        for cost in self.tests.values():
            whole.add(cost.wall, cost.own, cost.started)
        return whole


def spent(lines: Iterable[Mapping[str, Any]]) -> Spent:
    """Add up a record; lines that are of no known kind are of another version and are passed over."""
    run = Spent()
    for line in lines:
        if "test" in line:
            _test(run, line)
        elif "fixture" in line:
            cost = run.fixtures[f"{line['fixture']} ({line['scope']})"]
            cost.wall += line["seconds"]
            cost.count += 1
        elif "process" in line:
            run.processes[line["process"]].append((line["cpu"], line["peak_mib"], line["first"]))
        elif "memory" in line:
            run.memory = Held({name: (count, mib) for name, (count, mib) in line["memory"].items()})
        elif "speed" in line:
            run.speed = Speed(tuple(line["speed"]))
        elif "begun" in line:
            run.begun[line.get("worker", "")] = line["begun"]
        elif "ended" in line:
            run.ended[line.get("worker", "")] = line["ended"]
    return run


def _test(run: Spent, line: Mapping[str, Any]) -> None:
    run.latest = max(run.latest, line.get("at", 0.0))
    file = line["test"].partition("::")[0]
    folder = "/".join(file.split("/")[:2])
    for cost in (run.tests[line["test"]], run.files[file], run.folders[folder]):
        cost.count += 1
        for phase in PHASES:
            cost.add(*line.get(phase, (0.0, 0.0, 0.0)))


def printed(run: Spent, rows: int = 15) -> list[str]:
    """The tables, widest first: folders, files, tests, fixtures, started processes."""
    whole = run.sum
    seconds = f"own CPU {whole.own:.0f}, CPU of what they started {whole.started:.0f}, waited {whole.waited:.0f}"
    cut = f", cut off: no end of {', '.join(run.cut)}" if run.cut else ""
    text = [f"{whole.count} tests in {run.seconds:.0f} s{cut}; test-seconds {whole.wall:.0f}: {seconds}"]
    text += _tail(run)
    if run.memory.mib:
        text += [memory.sentence(run.memory)]
    if run.speed.looks:
        text += [speed.sentence(run.speed)]
    for title, costs in (("folder", run.folders), ("file", run.files), ("test", run.tests)):
        text += ["", *_costs(title, costs, rows if title != "folder" else 100)]
    text += ["", f"{'seconds':>8} {'times':>6}  fixture, without those that it needs"]
    slow = sorted(run.fixtures.items(), key=lambda each: -each[1].wall)[:rows]
    text += [f"{cost.wall:8.1f} {cost.count:6}  {name}" for name, cost in slow]
    text += ["", f"{'CPU':>8} {'each':>6} {'MiB':>6} {'number':>6}  started process that was seen at the end of a test"]
    return [*text, *_processes(run.processes)]


def _tail(run: Spent) -> list[str]:
    """When each process that ran tests for another one ended, since the others wait for the last; and what may keep it."""
    first = min(run.begun.values(), default=0.0)
    ends = sorted((ended - first, worker) for worker, ended in run.ended.items() if worker not in {MAIN, ""})
    if len(ends) < 2:
        return []
    text = ["processes ended after " + ", ".join(f"{seconds:.0f} s ({worker})" for seconds, worker in ends)]
    units: dict[str, Cost] = defaultdict(Cost)
    for test, cost in run.tests.items():
        units[unit_of(test)].add(cost.wall, cost.own, cost.started)
    late = [(cost.wall, unit) for unit, cost in units.items() if cost.wall > LONG_SECONDS and unit not in LONGEST_FIRST]
    if late:
        named = ", ".join(f"{unit} {seconds:.0f} s" for seconds, unit in sorted(late, reverse=True))
        text += [f"not among those that begin first (tests/kit/order.py): {named}"]
    return text


def _costs(title: str, costs: Mapping[str, Cost], rows: int) -> list[str]:
    head = f"{'seconds':>8} {'own':>7} {'started':>8} {'waited':>7} {'tests':>6}  {title}"
    slow = sorted(costs.items(), key=lambda each: -each[1].wall)[:rows]
    return [head, *(f"{c.wall:8.1f} {c.own:7.1f} {c.started:8.1f} {c.waited:7.1f} {c.count:6}  {name}" for name, c in slow)]


def _processes(found: Mapping[str, Sequence[tuple[float, int, str]]]) -> list[str]:
    text = []
    for name, all_of in sorted(found.items(), key=lambda each: -sum(cpu for cpu, _, _ in each[1])):
        cpu = sum(each[0] for each in all_of)
        text.append(f"{cpu:8.1f} {cpu / len(all_of):6.1f} {max(each[1] for each in all_of):6} {len(all_of):6}  {name}")
    return text
