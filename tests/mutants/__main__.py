"""`python -m tests.mutants`: takes rules away one at a time and says which test turns red; see `tests/mutants/__init__.py`."""

import argparse
import concurrent.futures
import contextlib
import fcntl
import itertools
import queue
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

from tests.mutants import catalogue, record
from tests.mutants.catalogue import Mutant
from tests.mutants.record import Record
from tests.mutants.trial import BROKEN, KILLED, SURVIVED, Bench, Outcome, named

_AT_ONCE = 10  # trials on a kept server before it is asked whether it is still sound


def main(arguments: Sequence[str]) -> int:
    """Try the mutants that are asked for, print what was found."""
    asked = _parser().parse_args(arguments)
    every = catalogue.mutants()
    chosen = [each for each in every if _is_chosen(each, asked)]
    if error := _wrong_choice(every, chosen, asked):
        _say(error)
        return 2
    if asked.list:
        _say("\n".join(f"{each.id:<48} {each.cost:<11} {each.rule}" for each in chosen))
        return 0
    try:
        alone = _alone(Path(asked.results))
    except BlockingIOError:
        _say(f"another run keeps its results in {asked.results}: wait for its end, or give --results another file")
        return 2
    with alone:
        return _run(chosen, asked)


def _alone(results: Path) -> TextIO:
    """Hold the results for this run: two would overwrite what the other found. Raises BlockingIOError where one holds them."""
    results.parent.mkdir(parents=True, exist_ok=True)
    held = results.with_suffix(".lock").open("w")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.close()
        raise
    return held


def _run(chosen: Sequence[Mutant], asked: argparse.Namespace) -> int:
    kept = Record(Path(asked.results), again=asked.again)
    _try_all([each for each in chosen if not kept.known(each, narrow=asked.narrow)], kept, asked)
    _say(record.table(kept.found, chosen))
    if asked.save:
        Path(asked.save).write_text(record.compact(kept.found))
    problems = record.unexpected(kept.found, chosen, catalogue.survivors())
    if asked.since:
        before = record.compacted(Path(asked.since).read_text())
        of_these = {each.id: before[each.id] for each in chosen if each.id in before}
        problems += [f"seen before, not now: {key}" for key in record.lost(of_these, kept.found)]
    untried = [each.id for each in chosen if not kept.known(each)]
    _say("\n".join([*problems, *([f"not tried yet: {len(untried)}"] if untried else [])]))
    return 1 if problems or untried else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--list", action="store_true", help="say which there are, try none")
    parser.add_argument("--area", action="append", default=[], help="those of an area (may be repeated)")
    parser.add_argument("--id", action="append", default=[], help="this one (may be repeated)")
    parser.add_argument("--suite", default="", help="those whose suite has this text in it, such as tests/ledger")
    parser.add_argument("--cost", choices=catalogue.COSTS, help="those whose suite needs this")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--minutes", type=float, default=0.0, help="begin none after so long; the next run goes on")
    parser.add_argument("--narrow", action="store_true", help="leave the wider suites to the next run without this")
    parser.add_argument("--again", action="store_true", help="forget what was found before")
    parser.add_argument("--results", default=str(record.RESULTS), help="where results are kept")
    parser.add_argument("--save", default="", help="write all results to a file that --since reads")
    parser.add_argument("--since", default="", help="fail for what was red in this file and is not now")
    return parser


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 -- a command


def _is_chosen(mutant: Mutant, asked: argparse.Namespace) -> bool:
    return (
        (not asked.area or mutant.area in asked.area)
        and (not asked.id or mutant.id in asked.id)
        and asked.suite in " ".join(mutant.suite)
        and asked.cost in (None, mutant.cost)
    )


def _wrong_choice(every: Sequence[Mutant], chosen: Sequence[Mutant], asked: argparse.Namespace) -> str:
    """The error for options that choose no mutant; empty if they do. Such a run would try less than it should, and pass."""
    ids, areas = {mutant.id for mutant in every}, {mutant.area for mutant in every}
    unknown = [*(key for key in asked.id if key not in ids), *(area for area in asked.area if area not in areas)]
    if unknown:
        return f"unknown: {', '.join(unknown)}; write an id with its area, such as {min(ids)}; --list prints all of them"
    return "" if chosen else "these options choose no mutant; --list prints all of them"


class _Trials:
    """The mutants that are still to be tried, shared by all workers."""

    def __init__(self, mutants: Sequence[Mutant], kept: Record, ends: float, *, narrow: bool) -> None:
        self._left: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
        for each in mutants:
            self._left.put(each)
        self._kept, self._ends, self._narrow = kept, ends, narrow
        self._count, self._total = itertools.count(1), len(mutants)
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Start no more trials; those that run end."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._left.get_nowait()

    def work(self, bench: Bench) -> None:
        """Try one after the other, until none is left or the time is over."""
        on_kept: list[tuple[Mutant, Outcome]] = []
        while not self._ends or time.monotonic() < self._ends:
            try:
                mutant = self._left.get_nowait()
            except queue.Empty:
                break
            if on_kept and (not mutant.keeps or mutant.suite != on_kept[0][0].suite or len(on_kept) == _AT_ONCE):
                self._settle(on_kept, bench)
            if mutant.keeps and not self._red_by_itself(mutant, mutant.suite, bench):
                on_kept.append((mutant, bench.tries(mutant, mutant.suite, kept=True)))
            else:
                self._add(mutant, self._tried(mutant, bench))
        self._settle(on_kept, bench)

    def _settle(self, on_kept: list[tuple[Mutant, Outcome]], bench: Bench) -> None:
        """A kept server's result counts if its suite is green there without a mutant; otherwise each mutant gets its own."""
        if not on_kept:
            return
        sound = bench.unchanged(on_kept[0][0].suite, on_kept[0][0].cost, kept=True).what == SURVIVED
        if not sound:
            bench.cool()
        for mutant, outcome in on_kept:
            self._add(mutant, outcome if sound and outcome.what == KILLED else self._tried(mutant, bench))
        on_kept.clear()

    def _add(self, mutant: Mutant, outcome: Outcome) -> None:
        with self._lock:
            self._kept.add(mutant, outcome)
            number = f"[{next(self._count):>3}/{self._total}]"
            _say(f"{number} {outcome.what:<9}{outcome.seconds:>6.1f} s  {mutant.id}  {outcome.by}")

    def _tried(self, mutant: Mutant, bench: Bench) -> Outcome:
        """What its suite says of a mutant, and where that stays green the wider one."""
        found = self._in_suite(mutant, mutant.suite, bench)
        if found.what == SURVIVED and mutant.wider and not self._narrow:
            return self._in_suite(mutant, mutant.wider, bench)
        return found

    def _in_suite(self, mutant: Mutant, suite: Sequence[str], bench: Bench) -> Outcome:
        return self._red_by_itself(mutant, suite, bench) or bench.tries(mutant, suite)

    def _red_by_itself(self, mutant: Mutant, suite: Sequence[str], bench: Bench) -> Outcome | None:
        """What to say of a mutant whose suite kills none, because it is red without any."""
        file = mutant.file if mutant.cost == "pure" else ""
        name = f"{named(suite)} {file}".rstrip()
        with self._lock:
            there = self._kept.unchanged.get(name)
        if there is None or there.what != SURVIVED:
            there = bench.unchanged(suite, mutant.cost, file)
            with self._lock:
                self._kept.add_unchanged(name, there)
        if there.what == SURVIVED:
            return None
        return Outcome(BROKEN, f"without any mutant: {there.what} {there.by}", name, there.seconds)


def _try_all(mutants: Sequence[Mutant], kept: Record, asked: argparse.Namespace) -> None:
    ends = time.monotonic() + asked.minutes * 60 if asked.minutes else 0.0
    trials = _Trials(mutants, kept, ends, narrow=asked.narrow)
    with ExitStack() as stack, concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        working = [pool.submit(trials.work, stack.enter_context(Bench())) for _ in range(min(asked.jobs, len(mutants)))]
        try:
            for each in working:
                each.result()
        except BaseException:
            trials.stop()
            raise


if __name__ == "__main__":
    # SIGTERM as Ctrl-C, so that copies and servers go too; and Ctrl-C itself, which a background job of a shell ignores.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
