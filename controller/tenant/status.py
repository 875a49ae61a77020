"""What a Tenant's status says: one fold of the facets' reports into the whole status. Pure; time is passed in.

    Report of each facet, in their order ──> conditions, fields, Ready ──> one status, when to come again

`Ready` repeats the first condition that is not true of those that a tenant needs: one line is enough to read the reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from bulkhead.api.conditions import MESSAGE_LIMIT, ConditionType, Reason, is_true, set_condition
from bulkhead.api.objects import Obj
from controller.decide import accepted, held
from controller.refusal import Refusal
from controller.verdict import Verdict

READY: Final = "the tenant's API server, syncer and DNS are ready"


@dataclass(frozen=True, slots=True)
class Report:
    """What one facet says of a tenant, whether it came to act or not.

    A condition without a verdict is not about this tenant, and goes; one that is not named stays as it was reported.
    """

    conditions: Mapping[ConditionType, Verdict | None] = field(default_factory=dict)
    needed: tuple[ConditionType, ...] = ()  # of its conditions, those without which the tenant is not Ready
    fields: Obj = field(default_factory=dict)  # of the status, beside the conditions; None deletes one
    in_full: Obj = field(default_factory=dict)  # the same, as they were applied: a held tenant keeps those of before
    alarm: Verdict | None = None  # what Ready says before all else
    stuck: Verdict | None = None  # what Ready says before any condition that is needed
    remarks: tuple[str, ...] = ()  # what Ready says beside that the tenant is ready
    again: float | None = None  # seconds until the next look, where it is to be sooner than usual


@dataclass(frozen=True, slots=True)
class Ended:
    """How a reconcile ended beside what the facets report: what it was kept from, and what it failed with."""

    edit: Refusal | None = None  # why the tenant is not built as it asks, but as it did when it was accepted last
    held: Refusal | None = None  # why it is not built as it asks, but held to its class
    failure: Refusal | None = None


def fold(tenant: Obj, reports: Sequence[Report], ended: Ended, now: datetime) -> Obj:
    """The whole status after a reconcile."""
    said = {condition: verdict for report in reports for condition, verdict in report.conditions.items()}
    verdicts = {condition: verdict for condition, verdict in said.items() if verdict is not None}
    verdicts[ConditionType.READY] = _ready(reports, verdicts, ended)
    made = _with(tenant, verdicts, now)
    gone = said.keys() - verdicts.keys()
    made["conditions"] = [condition for condition in made["conditions"] if condition["type"] not in gone]
    for report in reports:
        made |= report.fields | report.in_full
    if ended.held is not None:
        # What was applied in full was this class, and what the plane runs are these versions.
        kept = {key for report in reports for key in report.in_full}
        made |= {key: value for key, value in (tenant.get("status") or {}).items() if key in kept}
    return made


def again(reports: Sequence[Report]) -> float | None:
    """In how many seconds the first facet wants another look; None where none does sooner than usual."""
    return min((report.again for report in reports if report.again is not None), default=None)


def refused(tenant: Obj, refusal: Refusal, now: datetime) -> Obj:
    """The status of a tenant that is not built as asked: only Ready changes, what runs goes on and says so itself."""
    return _with(tenant, {ConditionType.READY: Verdict("False", refusal.reason, refusal.message)}, now)


def terminating(tenant: Obj, message: str, *, blocked: bool, now: datetime) -> Obj:
    """The status of a tenant that is being taken down."""
    reason = Reason.TEARDOWN_BLOCKED if blocked else Reason.TERMINATING
    return _with(tenant, {ConditionType.READY: Verdict("False", reason, message)}, now)


def changed(tenant: Obj, status: Obj) -> bool:
    """Whether a status would say anything new."""
    before = tenant.get("status") or {}
    return any(before.get(key) != value for key, value in status.items())


def was_true(tenant: Obj, condition: ConditionType) -> bool:
    """Whether a condition was reported as true before."""
    return is_true((tenant.get("status") or {}).get("conditions") or [], condition)


def _ready(reports: Sequence[Report], verdicts: Mapping[ConditionType, Verdict], ended: Ended) -> Verdict:
    """The first thing that keeps the tenant from being used as it asks; else that it can be used, and what goes on beside."""
    needed = [verdicts[condition] for report in reports for condition in report.needed]
    # Of what goes on beside, the latest comes first: what the host refused stands before members that are down.
    remarks = [remark for report in reversed(reports) for remark in report.remarks]
    found = (
        *(report.alarm for report in reports),
        _not_as_asked(ended),
        *(report.stuck for report in reports),
        *(verdict for verdict in needed if verdict.status != "True"),
        Verdict("True", Reason.READY, "; ".join((READY, *remarks))),
    )
    return next(verdict for verdict in found if verdict is not None)


def _not_as_asked(ended: Ended) -> Verdict | None:
    """What Ready says of a tenant that is not built as it asks; None where it is."""
    failure = ended.failure
    if ended.edit is not None:
        return accepted.verdict(ended.edit, failure)
    if ended.held is not None:
        return _held(ended.held, failure)
    return Verdict("False", failure.reason, failure.message) if failure is not None else None


def _held(refusal: Refusal, failure: Refusal | None) -> Verdict:
    # The list of what is refused may be long, and the end of a message is cut off.
    long = len(refusal.message) > MESSAGE_LIMIT // 2
    said = f"{held.NOTE}: {refusal.message}" if long else f"{refusal.message}; {held.NOTE}"
    return Verdict("False", refusal.reason, f"{failure.message}; {said}" if failure is not None else said)


def _with(tenant: Obj, verdicts: Mapping[ConditionType, Verdict], now: datetime) -> Obj:
    generation = int(tenant["metadata"].get("generation") or 0)
    conditions = list((tenant.get("status") or {}).get("conditions") or [])
    for type_, verdict in verdicts.items():
        conditions = set_condition(
            conditions, type_, verdict.status, verdict.reason, verdict.message, now=now, observed_generation=generation
        )
    return {"conditions": conditions, "observedGeneration": generation}
