"""The suite on the host compared with the suite in a tenant: both counts, each difference with its reason. Pure but for files.

expected.yaml lists what a tenant cannot do by design, with a pattern and a reason each. A difference that no pattern explains
counts as a fault of Bulkhead until it is explained. Results of slices add up: the later result of a spec counts.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.conformance.suite import Spec

EXPECTED = Path(__file__).with_name("expected.yaml")
SHARE_WANTED = 0.98
HOST_WANTED = 395
UNEXPLAINED = "not explained"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why specs whose name matches differ."""

    pattern: re.Pattern[str]
    text: str


@dataclass(frozen=True, slots=True)
class Difference:
    """A spec that passes on the host and not in the tenant, or the other way round."""

    spec: str
    host: str
    tenant: str
    reason: str
    failure: str


def load(path: Path = EXPECTED) -> tuple[Reason, ...]:
    """The reviewed reasons."""
    found = []
    for entry in yaml.safe_load(path.read_text()):
        if set(entry) != {"specs", "reason"} or not entry["specs"] or not entry["reason"]:
            raise ValueError(f"{path}: an entry needs `specs`, a regular expression, and `reason`, has {entry}")
        found.append(Reason(re.compile(entry["specs"]), entry["reason"]))
    return tuple(found)


def merged(before: Iterable[Spec], after: Iterable[Spec]) -> list[Spec]:
    """All specs of both, each once with its latest result, sorted by name."""
    found = {spec.name: spec for spec in (*before, *after)}
    return [found[name] for name in sorted(found)]


def passed(specs: Iterable[Spec]) -> set[str]:
    return {spec.name for spec in specs if spec.state == "passed"}


def differences(host: Sequence[Spec], tenant: Sequence[Spec], reasons: Sequence[Reason]) -> list[Difference]:
    """Every spec that ran on both sides and passed on only one."""
    theirs = {spec.name: spec for spec in host}
    found = []
    for ours in tenant:
        other = theirs.get(ours.name)
        if other is None or (other.state == "passed") == (ours.state == "passed"):
            continue
        text = next((one.text for one in reasons if one.pattern.search(ours.name)), UNEXPLAINED)
        failed = ours if ours.state != "passed" else other
        found.append(Difference(ours.name, other.state, ours.state, text, failed.failure[:500]))
    return found


def summary(host: Sequence[Spec], tenant: Sequence[Spec], reasons: Sequence[Reason]) -> dict[str, Any]:
    """The content of conformance.json; `share` counts the specs that ran on both sides and passed on the host."""
    both = {spec.name for spec in host} & {spec.name for spec in tenant}
    host_passed, tenant_passed = passed(host), passed(tenant)
    wanted = host_passed & both
    found = differences(host, tenant, reasons)
    return {
        "host_ran": len(host),
        "host_passed": len(host_passed),
        "tenant_ran": len(tenant),
        "tenant_passed": len(tenant_passed),
        "ran_on_both": len(both),
        "share": round(len(wanted & tenant_passed) / len(wanted), 4) if wanted else 0.0,
        "unexplained": sum(one.reason == UNEXPLAINED for one in found),
        "differences": [
            {"spec": one.spec, "host": one.host, "tenant": one.tenant, "reason": one.reason, "failure": one.failure}
            for one in found
        ],
        "failed_on_both": sorted(name for name in both if name not in host_passed | tenant_passed),
    }


def complaints(result: Mapping[str, Any]) -> list[str]:
    """The expectations that a whole run does not meet, as sentences; empty if it meets all."""
    found = []
    if result["host_passed"] < HOST_WANTED:
        found.append(f"{result['host_passed']} specs passed on the host, {HOST_WANTED} are wanted")
    if result["share"] < SHARE_WANTED:
        found.append(f"{result['share']:.1%} of what passes on the host passes in the tenant, {SHARE_WANTED:.0%} are wanted")
    if result["unexplained"]:
        found.append(f"{result['unexplained']} differences are not explained in {EXPECTED.name}")
    return found
