"""`python -m e2e.conformance.report`: the kept results of both sides -> docs/conformance.md. Runs nothing.

conformance-{host,tenant}.specs.json ──> comparison ──> Markdown: counts, each difference with its reason, what failed on both
"""

import sys
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from e2e.conformance import comparison, suite
from e2e.conformance.__main__ import read

DOCUMENT = Path("docs/conformance.md")


def as_markdown(result: Mapping[str, Any], parallel: float, version: str) -> str:
    """The report of one whole run; `result` is what `comparison.summary` returns, `parallel` its share without serial specs."""
    lines = [
        "# Upstream conformance, on the host and inside a tenant",
        "",
        "For a tenant's users, and for those who compare.",
        "Written by `python -m e2e.conformance.report` from what `make conformance` found; do not edit. The suite is",
        f"built from Kubernetes {version}, its `[Conformance]` specs run against the host and inside a tenant whose class",
        "is as strict as the example's (Pod Security baseline); the serial ones by `make conformance SPECS=serial`. Stand-ins",
        "for upstream's images: `e2e/conformance/images.py`.",
        "",
        "| | ran | passed |",
        "| --- | --- | --- |",
        f"| host | {result['host_ran']} | {result['host_passed']} |",
        f"| tenant | {result['tenant_ran']} | {result['tenant_passed']} |",
        "",
        f"Of what passes on the host {result['share']:.1%} passes in the tenant; of the parallel specs alone {parallel:.1%}.",
        "",
        "## What differs, and why",
    ]
    differences = sorted(result["differences"], key=lambda one: (one["reason"], one["spec"]))
    for reason, specs in groupby(differences, key=lambda one: str(one["reason"])):
        lines += ["", reason, "", *(f"- {one['spec']} (host {one['host']}, tenant {one['tenant']})" for one in specs)]
    lines += ["", "## What fails on both sides", "", *(f"- {name}" for name in result["failed_on_both"])]
    lines += ["", "Next: [what a tenant may expect](syncer-behaviours.md) · [decisions](decisions/README.md)"]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the document. Returns 1 if there are no kept results."""
    host, tenant = read("host"), read("tenant")
    if not host or not tenant:
        print("no results of both sides in build/results; run `make conformance` first", file=sys.stderr)
        return 1
    reasons = comparison.load()
    in_tenant, on_host = ([one for one in side if "[Serial]" not in one.name] for side in (tenant, host))
    parallel = comparison.summary(on_host, in_tenant, reasons)["share"]
    DOCUMENT.write_text(as_markdown(comparison.summary(host, tenant, reasons), parallel, suite.VERSION))
    print(f"wrote {DOCUMENT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
