"""Sums up a cohort for its status: what its tenants have together, what waits, and which of its rules cannot work.

    Snapshot, Decisions ──> Summary by cohort: tenants, sums by line, workloads that wait, faults of the rules ──> status

The numbers are those of the decision, so they agree with `bulkhead top`. Every list is bounded. Pure; time is passed in.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
from typing import Any, Final

from bulkhead.api.conditions import CohortCondition, CohortReason, set_condition
from bulkhead.api.ledger import MOST_LINES_SHOWN, MOST_TENANTS_SHOWN, line_name
from bulkhead.api.quantity import shown
from bulkhead.api.untrusted import mappings
from bulkhead.api.workloads import WorkloadKey
from bulkhead.ledger.flavors import Flavors
from bulkhead.ledger.model import GATED, Decisions, Flavor, Line, Node, Rules, Snapshot, Tenant
from bulkhead.ledger.verdict import listed

_SUMS: Final = ("nominal", "used", "borrowed", "lent")
_MOST_COUNTED: Final = 1_000_000
_MOST_FAULTS_NAMED: Final = 4  # faults of one kind in a message
_WORK: Final = "its tenants lend each other what is idle by these rules"


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers and faults of one cohort."""

    tenants: tuple[str, ...] = ()
    # By line: the sums that `_SUMS` names, and the number of workloads that wait for the line.
    lines: Mapping[Line, Mapping[str, int]] | None = None
    waiting_for: Mapping[Line, int] | None = None
    waiting: int = 0
    faults: tuple[tuple[CohortReason, str], ...] = ((CohortReason.NO_TENANTS, "no tenant is in it"),)


# The summary of a cohort without tenants.
EMPTY: Final = Summary()


def summaries(snapshot: Snapshot, decisions: Decisions, cohorts: Collection[str]) -> dict[str, Summary]:
    """The summaries of these cohorts, as they are once the decisions are carried out."""
    members: dict[str, list[Tenant]] = {name: [] for name in cohorts}
    for tenant in snapshot.tenants.values():
        if tenant.cohort in members:
            members[tenant.cohort].append(tenant)
    waiting = _waiting(snapshot, decisions, {tenant.name: name for name, here in members.items() for tenant in here})
    return {
        name: _summary(here, decisions, waiting.get(name, {}), snapshot.rules.get(name, Rules()), snapshot.nodes)
        for name, here in members.items()
    }


def status(summary: Summary, before: Mapping[str, Any], generation: int, now: datetime) -> dict[str, Any]:
    """The whole status of a Cohort; `before` is its present status."""
    lines = summary.lines or {}
    devices = [sums for (_, resource), sums in lines.items() if "/" in resource]
    reason, text = summary.faults[0][0] if summary.faults else CohortReason.WORK, _told(summary.faults)
    return {
        "observedGeneration": generation,
        "conditions": set_condition(
            [
                condition
                for condition in mappings(before.get("conditions"))
                if condition.get("type") == CohortCondition.RULES_WORK
            ],
            CohortCondition.RULES_WORK,
            "False" if summary.faults else "True",
            reason,
            text,
            now=now,
            observed_generation=generation,
        ),
        "tenants": len(summary.tenants),
        "tenantNames": list(summary.tenants[:MOST_TENANTS_SHOWN]),
        "waiting": min(summary.waiting, _MOST_COUNTED),
        "devices": f"{sum(line['used'] for line in devices)}/{sum(line['nominal'] for line in devices)}"[:64],
        "borrowed": min(sum(line["borrowed"] for line in devices), _MOST_COUNTED),
        "resources": [
            {
                "name": line_name(*line),
                **{field: shown(line[1], sums[field]) for field in _SUMS},
                "waiting": min((summary.waiting_for or {}).get(line, 0), _MOST_COUNTED),
            }
            for line, sums in sorted(lines.items(), key=_devices_first)[:MOST_LINES_SHOWN]
        ],
    }


def _devices_first(item: tuple[Line, Any]) -> tuple[bool, str, str]:
    flavor, resource = item[0]
    return "/" not in resource, resource, flavor


def _summary(
    members: Sequence[Tenant], decisions: Decisions, waiting: Mapping[Line | None, int], rules: Rules, nodes: Iterable[Node]
) -> Summary:
    lines: dict[Line, Counter[str]] = {}
    for tenant in members:
        for line, standing in decisions.standings.get(tenant.name, {}).items():
            lines.setdefault(line, Counter()).update({field: getattr(standing, field) for field in _SUMS})
    return Summary(
        tuple(sorted(tenant.name for tenant in members)),
        lines,
        {line: number for line, number in waiting.items() if line is not None},
        waiting.get(None, 0),
        tuple(_faults(members, rules, nodes)),
    )


def _waiting(snapshot: Snapshot, decisions: Decisions, cohort_of: Mapping[str, str]) -> dict[str, Counter[Line | None]]:
    """By cohort, how many workloads wait for each line, and in all (key None). Each waits for its tenant's preferred flavor."""
    admitted = {admission.pod.uid for admission in decisions.admit}
    wanted: dict[WorkloadKey, set[Line]] = {}
    flavors, chosen = Flavors(snapshot), dict[tuple[str, frozenset[str]], frozenset[Line]]()
    for pod in snapshot.pods:
        if pod.tenant not in cohort_of or pod.stage not in GATED or pod.ending or pod.uid in admitted:
            continue
        asked = pod.tenant, frozenset(pod.asks)
        if asked not in chosen:
            of = flavors.best(*asked)
            lines = {(of.get(name, ""), name) for name in pod.asks}
            chosen[asked] = frozenset(lines & snapshot.tenants[pod.tenant].shares.keys())
        wanted.setdefault(pod.workload, set()).update(chosen[asked])
    found: dict[str, Counter[Line | None]] = {}
    for workload, lines in wanted.items():
        found.setdefault(cohort_of[workload.tenant], Counter()).update([None, *lines])
    return found


def _faults(members: Sequence[Tenant], rules: Rules, nodes: Iterable[Node]) -> Iterator[tuple[CohortReason, str]]:
    """The rules that cannot work, the most serious first."""
    if not members:
        yield from EMPTY.faults
    known = {(flavor.name, flavor.resource) for flavor in rules.flavors}
    named: dict[Line, list[str]] = {}
    for tenant in sorted(members, key=lambda flavor: flavor.name):
        for line in tenant.shares:
            if line[0] and line not in known:
                named.setdefault(line, []).append(tenant.name)
    for line, tenants in sorted(named.items()):
        yield CohortReason.UNKNOWN_FLAVOR, f"it lists no flavor {_called(line)}, which is in the quota of {listed(tenants)}"
    carrying = _carrying(rules.flavors, nodes)
    for flavor in rules.flavors:
        if not carrying[flavor.name, flavor.resource]:
            yield CohortReason.NO_NODES, f"no node carries the labels of flavor {_called((flavor.name, flavor.resource))}"
    for one, other in combinations(rules.flavors, 2):
        if one.resource == other.resource:
            both = carrying[one.name, one.resource] & carrying[other.name, other.resource]
            if both:
                count = both.bit_count()
                text = f"flavors {one.name} and {other.name} of {one.resource} both fit {count} node{'s' if count > 1 else ''}"
                yield CohortReason.FLAVORS_OVERLAP, text


def _carrying(flavors: Iterable[Flavor], nodes: Iterable[Node]) -> dict[Line, int]:
    """By flavor the set of nodes that carry its labels, bit N for node N."""
    wanted = {label for flavor in flavors for label in flavor.node_labels.items()}
    having: Counter[tuple[str, str]] = Counter()
    every = 0
    for number, node in enumerate(nodes):
        every |= 1 << number
        for key in {key for key, _ in wanted}:
            label = key, node.labels.get(key, "")
            if key in node.labels and label in wanted:
                having[label] |= 1 << number
    found: dict[Line, int] = {}
    for flavor in flavors:
        fits = every
        for label in flavor.node_labels.items():
            fits &= having[label]
        found[flavor.name, flavor.resource] = fits
    return found


def _called(line: Line) -> str:
    return f"{line[0]} of {line[1]}"


def _told(faults: Sequence[tuple[CohortReason, str]]) -> str:
    """All faults in one message; of each kind only the first ones, and how many more there are."""
    if not faults:
        return _WORK
    sentences: list[str] = []
    for reason in dict.fromkeys(reason for reason, _ in faults):
        texts = [text for fault, text in faults if fault is reason]
        sentences += texts[:_MOST_FAULTS_NAMED]
        sentences += [f"and {len(texts) - _MOST_FAULTS_NAMED} more like this"] if len(texts) > _MOST_FAULTS_NAMED else []
    return "; ".join(sentences)
