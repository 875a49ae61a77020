"""Every suite, in an order that fits one host, and one table at the end: `make all`. Takes a day's quiet hours.

What passed on this very commit is not run again, so what was interrupted goes on where it was; AGAIN=1 runs all.
"""

import os
from pathlib import Path

from ci import change, plan, record, stage, table
from ci.catalogue import Catalogue
from ci.record import Result
from ci.runner import Runner


def main(catalogue: Catalogue, root: Path, *, again: bool) -> int:
    """Run all suites; returns 1 if one failed."""
    seen = change.look(root)
    path = record.default_path()
    suites = plan.one_host(catalogue.whole)
    notes = dict.fromkeys(
        plan.done(suites, {} if again else record.load(path), seen.commit, changed=seen.dirty), "not run again"
    )
    if os.geteuid() != 0:
        notes |= {suite.name: "not run: needs root" for suite in suites if suite.needs_root}
    runner = Runner(seen.commit, seen.dirty, path)
    status = 0
    with stage.signals_end():
        try:
            for suite in suites:
                if suite.name not in notes:
                    runner.run(suite)
        except stage.Signalled as told:
            status = 128 + told.number
        finally:
            down = os.geteuid() != 0 or runner.down()
            print(f"\n{table.summary(suites, record.load(path), notes)}", flush=True)
    if status == 0 and (not down or Result.FAILED in runner.results.values()):
        status = 1
    return status
