"""`python -m e2e.performance.durable`: what it costs that planes survive -> build/results/durable.json and .svg.

On the embedded host with a real object store: snapshots and restores of a plane of several sizes while a client works on it,
every tenant brought back on an empty host, what a client notices of members that go, and a store that is full.
limits-durable.yaml says what is judged.
"""

import argparse
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e import commands
from e2e.api import ApiError, UnreachableError
from e2e.machine import RESULTS
from e2e.performance import (
    durable_everything,
    durable_full,
    durable_members,
    durable_place,
    durable_sizes,
    judgement,
    report,
)
from e2e.performance.durable_figures import CONTROL, DELETED, FORCED, LOST, ROLLOUT, Readings, summarise
from e2e.performance.durable_place import Place
from e2e.performance.durable_plot import plot
from e2e.progress import stopwatch

LIMITS: Final = Path(__file__).with_name("limits-durable.yaml")
PARTS: Final = ("snapshot", "restore", "pods", "volume", "rollout", "full", "all")
# The largest store that is restored, in MiB: the aim is given for it.
MOST_RESTORED: Final = 100
_FEW, _MANY = 4, 40
# The parts that give the figures of a name.
_GIVEN_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "snapshot": ("snapshot",),
    "restore": ("restore",),
    "all": ("all",),
    "members": ("pods", "volume", "rollout"),
    DELETED: ("pods",),
    FORCED: ("pods",),
    CONTROL: ("pods",),
    LOST: ("volume",),
    ROLLOUT: ("rollout",),
    "full": ("full",),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run measures."""

    parts: tuple[str, ...] = PARTS
    sizes: tuple[int, ...] = (1, 10, 100, 500)
    tenants: int = _FEW

    @property
    def snapshots(self) -> tuple[int, ...]:
        """The sizes of which snapshots are taken; for a restore alone, those that are restored."""
        return self.sizes if "snapshot" in self.parts else self.restores

    @property
    def restores(self) -> tuple[int, ...]:
        return tuple(size for size in self.sizes if size <= MOST_RESTORED) if "restore" in self.parts else ()


def main() -> int:
    plan, installs = _chosen()
    note = stopwatch()
    limits = judgement.load(LIMITS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    readings = Readings()
    try:
        with durable_place.prepared(note, installs=installs) as place:
            for name, measure in _measures(place, plan, readings).items():
                _tried(name, measure, readings, note)
    finally:
        found = {"parts": plan.parts, **summarise(readings)}
        RESULTS.mkdir(parents=True, exist_ok=True)
        picture = RESULTS / "durable.svg"
        picture.write_text(plot(readings))
        print(f"picture: {picture}")
        code = report.conclude("durable", found, limits, left_out=left_out(plan, limits))
    return 1 if readings.broken else code


def left_out(plan: Plan, limits: Mapping[str, judgement.Limit]) -> tuple[str, ...]:
    """The figures of parts, sizes and numbers of tenants that the user told this run to leave out."""
    names = []
    for name in limits:
        part, *rest = name.split(".")
        wanted = any(one in plan.parts for one in _GIVEN_BY[part])
        if part in {"snapshot", "restore"}:
            wanted = wanted and int(rest[0]) in (plan.snapshots if part == "snapshot" else plan.restores)
        if name == "all.forty_min":
            wanted = wanted and plan.tenants >= _MANY
        if not wanted:
            names.append(name)
    return tuple(names)


def _measures(place: Place, plan: Plan, readings: Readings) -> dict[str, Callable[[], None]]:
    """What is measured, in this order; `all` removes the tenants of the parts before it."""
    found: dict[str, Callable[[], None]] = {}
    if plan.snapshots:
        found["sizes"] = lambda: durable_sizes.measure(place, plan.snapshots, plan.restores, readings)
    alone: dict[str, Callable[[], None]] = {
        "pods": lambda: durable_members.pods(place, readings),
        "volume": lambda: durable_members.volume(place, readings),
        "rollout": lambda: durable_members.rollout(place, readings),
        "all": lambda: durable_everything.measure(place, plan.tenants, readings),
        "full": lambda: durable_full.measure(place, readings),
    }
    return found | {name: measure for name, measure in alone.items() if name in plan.parts}


def _tried(name: str, measure: Callable[[], None], readings: Readings, note: Callable[[str], None]) -> None:
    """Measure one part. If it fails, its figures are missing, which fails the run; the other parts are measured."""
    note(f"-- {name}")
    try:
        measure()
    except (AssertionError, ApiError, UnreachableError, commands.CommandError, OSError, RuntimeError) as error:
        readings.broken[name] = str(error)[:2000]
        note(f"{name} ended early: {error}")


def _chosen() -> tuple[Plan, bool]:
    parser = argparse.ArgumentParser(prog="e2e.performance.durable", description="What it costs that planes survive.")
    parser.add_argument("--only", action="append", choices=PARTS, help="only this part; may be repeated")
    parser.add_argument("--sizes", default="1,10,100,500", help="MiB of the stores, comma-separated; up to 100 are restored")
    parser.add_argument("--tenants", type=int, default=_FEW, help=f"that `restore --all` brings back; default {_FEW}")
    parser.add_argument("--forty", action="store_true", help=f"--tenants {_MANY}, for which the aim is given: half an hour")
    parser.add_argument("--skip-install", action="store_true", help="do not bring the host and its images up to date first")
    chosen = parser.parse_args()
    try:
        sizes = tuple(sorted({int(size) for size in chosen.sizes.split(",")}))
    except ValueError:
        parser.error(f"--sizes must be numbers of MiB such as 1,100, not {chosen.sizes!r}")
    if not sizes or not 1 <= sizes[0] <= sizes[-1] <= 900:
        parser.error(f"--sizes must be from 1 to 900, not {chosen.sizes!r}")
    count = _MANY if chosen.forty else chosen.tenants
    if not 1 <= count <= 60:
        parser.error(f"--tenants must be from 1 to 60, not {count}")
    return Plan(tuple(chosen.only or PARTS), sizes, count), not chosen.skip_install


if __name__ == "__main__":
    sys.exit(main())
