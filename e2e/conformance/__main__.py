"""`python -m e2e.conformance`: the upstream suite on the host and inside a tenant -> build/results/conformance.json.

It needs the embedded host. Without options all parallel `[Conformance]` specs run on both sides, half an hour each on two
cores. `--focus` runs a slice, and the results of slices add up over runs until `--fresh` discards them. The exit status is 1 if
a whole run does not meet the expectations.

    programs, images (built here) -> tenant -> ginkgo on the host -> ginkgo in the tenant -> comparison
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from e2e import install, machine, tenants
from e2e.conformance import comparison, environment, images, suite
from e2e.conformance.suite import Spec
from workstation.hostcluster import binaries

REPORT = machine.RESULTS / "conformance.json"
CONFORMANCE = r"\[Conformance\]"
SERIAL = r"\[Serial\]|\[Disruptive\]"

Note = Callable[[str], None]


def kept(side: str) -> Path:
    """The file that keeps the results of one side from slice to slice."""
    return machine.RESULTS / f"conformance-{side}.specs.json"


def read(side: str) -> list[Spec]:
    path = kept(side)
    return [Spec(**entry) for entry in json.loads(path.read_text())] if path.exists() else []


def run_side(side: str, kubeconfig: Path, programs: dict[str, Path], chosen: argparse.Namespace, note: Note) -> list[Spec]:
    """Run the chosen specs on one side, and add them to that side's kept results."""
    report = machine.RESULTS / f"conformance-{side}.json"
    note(f"running on the {side}: log {report.with_suffix('.log')}")
    focus, skip = chosen.focus, chosen.skip if chosen.serial else "|".join(part for part in (SERIAL, chosen.skip) if part)
    specs = suite.run(
        programs, kubeconfig, focus=focus, skip=skip, report=report, seconds=chosen.seconds, processes=chosen.processes
    )
    everything = comparison.merged([] if chosen.fresh else read(side), specs)
    kept(side).write_text(json.dumps([asdict(spec) for spec in everything], indent=1) + "\n")
    note(f"{side}: {len(comparison.passed(specs))} of {len(specs)} passed; {len(everything)} known in all")
    return everything


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e.conformance", description="The upstream suite on the host and in a tenant.")
    parser.add_argument("--focus", default=CONFORMANCE, help="which specs, as a regular expression")
    parser.add_argument("--skip", default="", help="which of them not")
    parser.add_argument("--serial", action="store_true", help="the serial specs too (give --processes 1)")
    parser.add_argument("--side", choices=("both", "host", "tenant"), default="both")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=7200, help="time for each side")
    parser.add_argument("--tenant", default="conformance", help="the tenant's name")
    parser.add_argument("--keep", action="store_true", help="leave the tenant for another slice")
    parser.add_argument("--fresh", action="store_true", help="discard the results of earlier slices")
    parser.add_argument("--skip-install", action="store_true", help="use the installed Bulkhead as it is")
    chosen = parser.parse_args()
    begin = time.monotonic()
    # If the run is terminated from outside, its tenant is removed all the same.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))

    def note(text: str) -> None:
        print(f"[{time.monotonic() - begin:6.0f} s] {text}", flush=True)

    programs = dict(suite.programs(binaries.cache_dir()))
    host = machine.host_api() if chosen.skip_install else install.ensure_installed(note)
    stood_in = images.import_all(binaries.cache_dir(), programs, suite.listed_images(programs["e2e.test"]), note)
    machine.RESULTS.mkdir(parents=True, exist_ok=True)
    if chosen.side != "tenant":
        run_side("host", machine.KUBECONFIG, programs, chosen, note)
    if chosen.side != "host":
        with environment.prepared(host, chosen.tenant, keep=chosen.keep) as tenant:
            run_side("tenant", tenants.renewing_kubeconfig(tenant.name), programs, chosen, note)
    return _report(stood_in, whole=chosen.focus == CONFORMANCE and chosen.side == "both")


def _report(stood_in: dict[str, str], *, whole: bool) -> int:
    result = comparison.summary(read("host"), read("tenant"), comparison.load())
    REPORT.write_text(json.dumps({**result, "images": stood_in}, indent=1) + "\n")
    for one in result["differences"]:
        print(f"host {one['host']:9} tenant {one['tenant']:9} {one['spec']}\n    {one['reason']}")
    print(
        f"host {result['host_passed']} of {result['host_ran']}, tenant {result['tenant_passed']} of {result['tenant_ran']}; "
        f"{result['share']:.1%} of the {result['ran_on_both']} that ran on both and passed on the host; {REPORT}"
    )
    complaints = comparison.complaints(result) if whole else []
    for text in complaints:
        print(f"FAILED: {text}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
