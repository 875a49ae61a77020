"""`python -m e2e.performance.cotenancy`: what tenants notice of one that storms -> build/results/cotenancy.json and .svg.

Tenants 2 to N do the same all the time: ten requests a second each, and a new pod every two seconds, or as much less as leaves
40 % of the CPU idle. Tenant 1 is quiet, and then storms, in one way after another. The same is done with N planes, and with N
namespaces of the host, by the same generator. limits-cotenancy.yaml says what is judged.
"""

import argparse
import asyncio
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bulkhead.kube.errors import KubeError
from e2e import install
from e2e.machine import RESULTS, Standing, stand
from e2e.performance import judgement, report
from e2e.performance.cotenancy_bench import Bench, Plan, Steady, TooSmallError
from e2e.performance.cotenancy_figures import summarise
from e2e.performance.cotenancy_plot import plot
from e2e.performance.cotenancy_storm import STORMS
from e2e.performance.sync_setup import Setup
from e2e.progress import stopwatch

LIMITS = Path(__file__).with_name("limits-cotenancy.yaml")
WAYS = ("planes", "namespaces")
# Pods of one neighbour at a time, and of the storm.
_MOST_PODS = 400


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e.performance.cotenancy", description="What tenants notice of one that storms.")
    parser.add_argument("--tenants", type=int, default=10, help="how many, the storming one included; at least 2")
    parser.add_argument("--quiet-seconds", type=float, default=30.0, help="before each storm")
    parser.add_argument("--storm-seconds", type=float, default=30.0, help="of each storm")
    parser.add_argument("--rate", type=float, default=10.0, help="requests a second of each neighbour, at the most")
    parser.add_argument("--pod-every", type=float, default=2.0, help="seconds between two pods of a neighbour, at the least")
    parser.add_argument(
        "--most-busy", type=float, default=0.6, help="the share of the CPU before a storm; rates are halved until it is kept"
    )
    parser.add_argument(
        "--plane-share", type=float, default=0.5, help="the share of the CPU that one plane may use, by its limits"
    )
    parser.add_argument("--storm", action="append", choices=sorted(STORMS), help="only this one; may be repeated")
    parser.add_argument("--way", action="append", choices=WAYS, help="only planes, or only namespaces")
    parser.add_argument("--skip-install", action="store_true", help="measure the installed Bulkhead as it is")
    chosen = parser.parse_args()
    if chosen.tenants < 2:
        parser.error(f"--tenants must be at least 2, not {chosen.tenants}")
    for option, value in (("--rate", chosen.rate), ("--pod-every", chosen.pod_every)):
        if not 0 < value <= 1000:
            parser.error(f"{option} must be more than 0 and at most 1000, not {value:g}")
    if not 0.05 <= chosen.plane_share <= 1:
        parser.error(f"--plane-share must be from 0.05 to 1, not {chosen.plane_share:g}")
    if not 0.05 <= chosen.most_busy <= 1:
        parser.error(f"--most-busy must be from 0.05 to 1, not {chosen.most_busy:g}")
    note = stopwatch()
    limits = judgement.load(LIMITS)
    plan = Plan(
        tenants=chosen.tenants,
        quiet_seconds=chosen.quiet_seconds,
        storm_seconds=chosen.storm_seconds,
        storms=tuple(chosen.storm or STORMS),
        ways=tuple(chosen.way or WAYS),
        steady=Steady(chosen.rate, chosen.pod_every),
        most_busy=chosen.most_busy,
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    if not chosen.skip_install:
        install.ensure_installed(note)
    stand(Standing.PROBE)
    size = control_plane(chosen.plane_share, os.cpu_count() or 1)
    with Setup.prepared("cotenancy", plan.tenants, _MOST_PODS, note, keep=False, control_plane=size) as setup:
        readings, steady = asyncio.run(Bench(setup, plan, note).run())
    about = {"tenants": plan.tenants, "plane_share": chosen.plane_share, **asdict(steady)}
    found: dict[str, Any] = {**about, **summarise(readings)}
    RESULTS.mkdir(parents=True, exist_ok=True)
    picture = RESULTS / "cotenancy.svg"
    picture.write_text(plot(readings, plan.tenants))
    print(f"picture: {picture}")
    return report.conclude("cotenancy", found, limits, left_out=left_out(plan, limits))


def control_plane(share: float, cores: int) -> dict[str, Any]:
    """Of a Tenant whose plane may use at most this share of so many cores: half of it for the API server."""
    milli = int(share * cores * 1000)
    parts = {"apiServer": milli // 2, "etcd": milli // 4, "syncer": milli // 4}
    return {"resources": {name: {"limits": {"cpu": f"{part}m"}} for name, part in parts.items()}}


def left_out(plan: Plan, limits: dict[str, judgement.Limit]) -> tuple[str, ...]:
    """The figures of storms and ways that the user told this run to leave out."""
    names = []
    for name in limits:
        way, storm, *_ = name.split(".")
        ways = set(WAYS) if way == "times" else {way}
        if storm not in {*plan.storms, "all"} or not ways <= set(plan.ways):
            names.append(name)
    return tuple(names)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TooSmallError as error:
        sys.exit(f"the machine is too small for this benchmark: {error}; take fewer --tenants")
    except KubeError as error:
        sys.exit(f"the benchmark lost an API server: {error}; is the embedded host up (`bulkhead host status`)?")
