"""The upstream NetworkPolicy specs against the embedded host: `python -m e2e.conformance.network_policy`.

Writes build/results/network-policy.json, and ends with status 1 unless every spec that ran has passed.
"""

import argparse
import json
import sys
from dataclasses import asdict

from e2e import machine
from e2e.conformance import images, suite
from workstation.hostcluster import binaries

REPORT = machine.RESULTS / "network-policy.json"
FOCUS = r"\[sig-network\] Netpol|NetworkPolicyLegacy|NetworkPolicy API"
# SCTP needs a kernel module and is a feature of its own upstream; this host does not have dual stack.
SKIP = r"SCTP|IPv6|DualStack"


def main() -> int:
    """Build, import, run, report."""
    parser = argparse.ArgumentParser(description="upstream NetworkPolicy specs against the embedded host")
    parser.add_argument("--focus", default=FOCUS, help="which specs, as a regular expression")
    parser.add_argument("--skip", default=SKIP)
    parser.add_argument("--seconds", type=int, default=7200, help="time for all specs together")
    options = parser.parse_args()
    if not machine.KUBECONFIG.exists():
        sys.exit("no embedded host: start one with `bulkhead host up`")
    files = suite.programs(binaries.cache_dir())
    wanted = [one for one in suite.listed_images(files["e2e.test"]) if "e2e-test-images/agnhost:" in one]
    images.import_all(binaries.cache_dir(), files, wanted, lambda text: print(text, file=sys.stderr, flush=True))
    print(f"running, log: {REPORT.with_suffix('.log')}", file=sys.stderr, flush=True)
    specs = suite.run(files, machine.KUBECONFIG, focus=options.focus, skip=options.skip, report=REPORT, seconds=options.seconds)
    failed = [spec for spec in specs if spec.state != "passed"]
    summary = {"ran": len(specs), "passed": len(specs) - len(failed), "focus": options.focus, "skip": options.skip}
    REPORT.write_text(json.dumps(summary | {"specs": [asdict(spec) for spec in specs]}, indent=1) + "\n")
    for spec in specs:
        print(f"{spec.state:12} {spec.seconds:6.1f} s  {spec.name}")
    print(f"{summary['passed']} of {summary['ran']} passed; {REPORT}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
