"""`python -m e2e.chaos [EXPERIMENT…]`: run the chaos experiments on the embedded host and report.

Exit codes: 0 all held, 1 something did not, 2 a wrong argument, 3 the run could not be made or judged, 130 interrupted.
"""

import argparse
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Callable

from e2e import install
from e2e.api import ApiError, UnreachableError
from e2e.chaos import population, results, schedule
from e2e.chaos.experiments import ALL, EXPERIMENTS, selected
from e2e.chaos.judgement import NoRunError
from e2e.chaos.pace import SHORT_PACE, Pace
from e2e.chaos.runner import Plan, Runner
from e2e.commands import CommandError
from e2e.machine import HostDownError, Standing, host_api, stand
from e2e.poll import WaitTimeoutError
from e2e.progress import stopwatch

HELD, BROKEN, FAILED, INTERRUPTED = 0, 1, 3, 130  # a wrong argument ends argparse with 2
_NOT_MADE = (HostDownError, NoRunError, WaitTimeoutError, CommandError, ApiError, UnreachableError)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="e2e.chaos", description="Break one tenant on purpose and see what the others notice.")
    made.add_argument(
        "experiments", nargs="*", metavar="EXPERIMENT", help=", ".join([ALL, *(item.name for item in EXPERIMENTS)])
    )
    made.add_argument("--short", action="store_true", help="every experiment with its proof, in less time, on three tenants")
    made.add_argument("--tenants", type=int, help=f"how many tenants; {population.WHOLE}, {population.SHORT} with --short")
    made.add_argument("--mix", metavar="TIME", help="draw experiments at random for so long, such as 20m or 1h")
    made.add_argument("--seed", type=int, help="the order; with --mix, what is drawn, by default from the time of day")
    return made


def plan_of(chosen: argparse.Namespace, command: str, note: Callable[[str], None]) -> Plan:
    """The plan that the arguments ask for. Raises ValueError for arguments that make none."""
    asked = chosen.tenants if chosen.tenants is not None else population.SHORT if chosen.short else population.WHOLE
    members = population.members(asked)
    if chosen.mix:
        # Each in its short form: more of them in the same time.
        experiments = selected(chosen.experiments or [ALL], short=True)
        seconds = schedule.duration(chosen.mix)
        seed = chosen.seed if chosen.seed is not None else int(time.time())
        note(f"drawing experiments for {chosen.mix}; to repeat them: SEED={seed}")
        schedule.check(experiments, members)
        return Plan(members, schedule.draws(experiments, members, seed), seed, seconds, command)
    experiments = selected(chosen.experiments, short=chosen.short)
    if chosen.experiments in ([], [ALL]):
        misfits = [item.name for item in experiments if not schedule.fitting(item, members)]
        experiments = tuple(item for item in experiments if item.name not in misfits)
        if misfits:
            note(f"left out, since none of {len(members)} tenants fits: {', '.join(misfits)}")
    turns = schedule.ordered(experiments, members, chosen.seed)
    return Plan(members, turns, chosen.seed or 0, None, command)


def main() -> int:
    arguments = parser()
    chosen = arguments.parse_args()
    note = stopwatch()
    try:
        plan = plan_of(chosen, shlex.join(["python", "-m", "e2e.chaos", *sys.argv[1:]]), note)
    except ValueError as exc:
        arguments.error(str(exc))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # both end the run in the same order
    try:
        flags = ["--slurm"] if any(member.kind == "slurm" for member in plan.members) else []
        install.ensure_installed(note, *flags)
        # The load and the floods represent clients on other machines: their CPU time must not take cores from the neighbours.
        # This is set only after the host is up, because the host's processes would inherit it. Prober and observer have CPU
        # shares of their own.
        stand(Standing.LOAD)
        runner = Runner(host_api(), note, SHORT_PACE if chosen.short else Pace())
        try:
            judged = results.write(runner.run(plan), note)
        finally:
            if not runner.interrupted:
                runner.take_down(plan.members)
    except _NOT_MADE as exc:
        print(f"the run could not be made or judged: {type(exc).__name__}: {exc}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception:  # noqa: BLE001 -- a mistake here is not a verdict: Python's own exit code would say "something did not hold"
        traceback.print_exc()
        return FAILED
    if runner.interrupted:
        return INTERRUPTED
    if runner.failed:
        print(f"the run could not be judged: {runner.failed}", file=sys.stderr)
        return FAILED
    return HELD if judged.passed else BROKEN


if __name__ == "__main__":
    sys.exit(main())
