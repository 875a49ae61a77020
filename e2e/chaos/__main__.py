"""`python -m e2e.chaos [EXPERIMENT…]`: run the chaos experiments on the embedded host and report."""

import argparse
import sys

from e2e import install
from e2e.chaos.experiments import EXPERIMENTS, named, shortened
from e2e.chaos.runner import SHORT_PACE, Pace, Runner
from e2e.machine import RESULTS, Standing, host_api, stand
from e2e.progress import stopwatch


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="e2e.chaos", description="Break one tenant on purpose and see what the others notice."
    )
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help=", ".join(item.name for item in EXPERIMENTS))
    parser.add_argument("--short", action="store_true", help="every experiment with its proof, in half the time")
    chosen = parser.parse_args()
    note = stopwatch()
    experiments = named(chosen.experiments)
    if chosen.short:
        experiments = shortened(experiments)
    install.ensure_installed(note)
    # The load and the floods represent clients on other machines: their CPU time must not take cores from the neighbours. This
    # is set only after the host is up, because the host's processes would inherit it. Prober and observer have CPU shares of
    # their own.
    stand(Standing.LOAD)
    passed = Runner(host_api(), note, SHORT_PACE if chosen.short else Pace()).run(experiments)
    print(f"{'passed' if passed else 'FAILED'}; {RESULTS / 'chaos.json'}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
