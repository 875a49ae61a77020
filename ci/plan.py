"""Which suites to run, in which order, and which still fits: pure, over catalogue, changed files, record and a time.

changed files ──> wanted ──> in_order ──> following(time that is left) ──> one suite, or none that fits
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from ci.catalogue import Catalogue, Host, Suite
from ci.record import Past, Record, Result


def wanted(catalogue: Catalogue, changed: Iterable[str] | None) -> dict[str, list[str]]:
    """Names of the suites that a change touches, each with the folders that do; without a base (None) all that one may."""
    found: dict[str, list[str]] = {suite.name: [] for suite in catalogue.others if suite.for_changes}
    if changed is None:
        return _without_repeats(catalogue, found)
    for path in sorted(set(changed)):
        for name in catalogue.touched(path):
            if (folder := str(PurePosixPath(path).parent)) not in found[name]:
                found[name].append(folder)
    return _without_repeats(catalogue, {name: folders for name, folders in found.items() if folders})


def _without_repeats(catalogue: Catalogue, found: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """No part beside the suite that shows all of it, and that suite in place of all its parts."""
    left = dict(found)
    for suite in catalogue.others:
        parts = [part.name for part in catalogue.others if part.for_changes and part.part_of == suite.name]
        if not parts or not (suite.name in left or all(part in left for part in parts)):
            continue
        folders = [*left.get(suite.name, ()), *(folder for part in parts for folder in left.pop(part, ()))]
        left[suite.name] = sorted(set(folders))
    return left


def in_order(suites: Iterable[Suite], record: Record, commit: str) -> list[Suite]:
    """Longest not run first.

    Among those that never ran here another is first on each commit: on machines that remember nothing, all get their turn.
    """

    def key(suite: Suite) -> tuple[str, str]:
        past = record.get(suite.name)
        return past.finished if past is not None else "", hashlib.sha256(f"{commit} {suite.name}".encode()).hexdigest()

    return sorted(suites, key=key)


def expected(suite: Suite, record: Record) -> float:
    """Seconds that it will take: as long as when it last passed here, and no less than when it was stopped before its end."""
    past = record.get(suite.name)
    if past is None:
        return suite.minutes * 60
    stopped = past.last.seconds if past.last.result is Result.STOPPED else 0.0
    return max(stopped, past.passed.seconds if past.passed is not None else suite.minutes * 60)


def following(waiting: Sequence[Suite], record: Record, seconds: float) -> Suite | None:
    """The first suite that should finish within this time."""
    return next((suite for suite in waiting if expected(suite, record) <= seconds), None)


def needs_down(former: Host, suite: Suite) -> bool:
    """Whether the host has to go before this suite begins; `former` is what the last suite that had it wanted of it."""
    return suite.needs_root and Host.OWN in {former, suite.host}


def one_host(suites: Iterable[Suite]) -> list[Suite]:
    """An order for one machine: first what needs no host, then all that share one, then each that wants its own."""
    return sorted(suites, key=lambda suite: list(Host).index(suite.host))


def done(suites: Iterable[Suite], record: Record, commit: str, *, changed: bool) -> set[str]:
    """Names of those that passed on this very commit, with nothing uncommitted then or now, and have not failed since."""

    def counts(past: Past) -> bool:
        passed = past.passed is not None and past.passed.commit == commit and not past.passed.changed
        return passed and past.last.result is not Result.FAILED

    return set() if changed else {suite.name for suite in suites if suite.name in record and counts(record[suite.name])}
