"""`python -m e2e.demo`, which is what `make demo` runs."""

import json
import os
import sys
import time

from e2e.demo import lending, slurm, table
from e2e.demo.context import Context, StepError, run_steps
from e2e.demo.steps import READY, STEPS
from e2e.machine import RESULTS


def main() -> int:
    if os.geteuid() != 0:
        print("demo: the embedded host needs root; next: sudo make demo", file=sys.stderr)
        return 1
    context = Context()
    more = (lending.ENDS, *slurm.STEPS) if slurm.wanted() else ()
    try:
        run_steps((*STEPS, *lending.STEPS, *more, READY), context)
    except StepError as exc:
        print(f"\ndemo failed\n  step:  {exc.step}\n  cause: {exc.cause}\n  next:  {exc.hint}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    seconds = time.monotonic() - context.begin
    rows, pods = table.planes(context), table.places(context)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "demo.json").write_text(json.dumps(table.result(context, rows, pods, seconds), indent=2) + "\n")
    table.show(context, rows, pods, seconds)
    wrong = table.complaints(rows, pods)
    for text in wrong:
        print(f"demo failed: {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
