"""Folds the facets' reports into the whole status of a Tenant. Pure; time is passed in.

    Report of each facet, in their order ──> conditions, fields, Ready ──> one status, when to come again

`Ready` repeats the first needed condition that is not true, so that one line shows the reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from bulkhead.api.conditions import MESSAGE_LIMIT, ConditionType, Reason, is_true, set_condition
from bulkhead.api.objects import Obj
from controller.decide import accepted, held
from controller.refusal import Refusal
from controller.verdict import Verdict

READY: Final = "the tenant's API server, syncer and DNS are ready"


@dataclass(frozen=True, slots=True)
class Report:
    """What one facet reports about a tenant, whether it acted or not.

    A condition with the verdict None does not apply to this tenant and is removed. A condition that is not listed stays
    unchanged.
    """

    conditions: Mapping[ConditionType, Verdict | None] = field(default_factory=dict)
    needed: tuple[ConditionType, ...] = ()  # those of its conditions without which the tenant is not Ready
    fields: Obj = field(default_factory=dict)  # of the status, in addition to the conditions; None deletes a field
    in_full: Obj = field(default_factory=dict)  # the same, as applied in full: a held tenant keeps its previous ones
    alarm: Verdict | None = None  # what Ready shows before anything else
    stuck: Verdict | None = None  # what Ready shows before any needed condition
    remarks: tuple[str, ...] = ()  # what Ready adds if the tenant is ready
    again: float | None = None  # seconds until the next look, if that must be sooner than usual


@dataclass(frozen=True, slots=True)
class Ended:
    """How a reconcile ended, in addition to the reports: what was refused, and the failure that stopped it."""

    edit: Refusal | None = None  # why the tenant is built from its last accepted spec, and not from the present one
    held: Refusal | None = None  # why it is held to its class, and not built as requested
    failure: Refusal | None = None
    unapplied: bool = False  # whether the present spec is refused and was never accepted


def fold(tenant: Obj, reports: Sequence[Report], ended: Ended, now: datetime) -> Obj:
    """The whole status after a reconcile."""
    reported = {condition: verdict for report in reports for condition, verdict in report.conditions.items()}
    verdicts = {condition: verdict for condition, verdict in reported.items() if verdict is not None}
    verdicts[ConditionType.READY] = _ready(reports, verdicts, ended)
    made = _with(tenant, verdicts, now, unapplied=ended.unapplied)
    gone = reported.keys() - verdicts.keys()
    made["conditions"] = [condition for condition in made["conditions"] if condition["type"] not in gone]
    for report in reports:
        made |= report.fields | report.in_full
    if ended.held is not None:
        # A held tenant keeps these fields: they describe the class and the versions that were last applied in full.
        kept = {key for report in reports for key in report.in_full}
        made |= {key: value for key, value in (tenant.get("status") or {}).items() if key in kept}
    return made


def again(reports: Sequence[Report]) -> float | None:
    """Seconds until the first facet wants another look; None if no facet does sooner than usual."""
    return min((report.again for report in reports if report.again is not None), default=None)


def refused(tenant: Obj, refusal: Refusal, now: datetime, *, unapplied: bool) -> Obj:
    """The status of a refused tenant. Only Ready changes; what runs goes on, and its conditions stay."""
    verdict = Verdict("False", refusal.reason, refusal.message)
    return _with(tenant, {ConditionType.READY: verdict}, now, unapplied=unapplied)


def terminating(tenant: Obj, message: str, *, blocked: bool, now: datetime) -> Obj:
    """The status of a tenant that is being torn down."""
    reason = Reason.TEARDOWN_BLOCKED if blocked else Reason.TERMINATING
    return _with(tenant, {ConditionType.READY: Verdict("False", reason, message)}, now)


def changed(tenant: Obj, status: Obj) -> bool:
    """Whether a status differs from the one that the Tenant has."""
    before = tenant.get("status") or {}
    return any(before.get(key) != value for key, value in status.items())


def patch(tenant: Obj, status: Obj) -> Obj:
    """The merge patch that gives the Tenant this status: what is gone within a field is deleted by name."""
    before = tenant.get("status") or {}
    # An empty field says nothing, and what stands there stays.
    return {key: _as_whole(before.get(key), value) if value else value for key, value in status.items()}


def was_true(tenant: Obj, condition: ConditionType) -> bool:
    """Whether a condition was reported as true before."""
    return is_true((tenant.get("status") or {}).get("conditions") or [], condition)


def _as_whole(before: Any, value: Any) -> Any:
    if not isinstance(before, dict) or not isinstance(value, dict):
        return value
    gone: Obj = dict.fromkeys(before.keys() - value.keys())
    return {key: _as_whole(before.get(key), inner) for key, inner in value.items()} | gone


def _ready(reports: Sequence[Report], verdicts: Mapping[ConditionType, Verdict], ended: Ended) -> Verdict:
    """The first thing that keeps the tenant from working as requested; else Ready, with remarks."""
    needed = [verdicts[condition] for report in reports for condition in report.needed]
    # The remark of the latest facet comes first: objects that the host refused before members that are down.
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
    """The Ready condition of a tenant that is not built as requested; None if it is."""
    failure = ended.failure
    if ended.edit is not None:
        return accepted.verdict(ended.edit, failure)
    if ended.held is not None:
        return _held(ended.held, failure)
    return Verdict("False", failure.reason, failure.message) if failure is not None else None


def _held(refusal: Refusal, failure: Refusal | None) -> Verdict:
    # The list of refused fields may be long, and the end of a message is cut off.
    long = len(refusal.message) > MESSAGE_LIMIT // 2
    message = f"{held.NOTE}: {refusal.message}" if long else f"{refusal.message}; {held.NOTE}"
    return Verdict("False", refusal.reason, f"{failure.message}; {message}" if failure is not None else message)


def _with(tenant: Obj, verdicts: Mapping[ConditionType, Verdict], now: datetime, *, unapplied: bool = False) -> Obj:
    generation = int(tenant["metadata"].get("generation") or 0)
    conditions = list((tenant.get("status") or {}).get("conditions") or [])
    for type_, verdict in verdicts.items():
        conditions = set_condition(
            conditions, type_, verdict.status, verdict.reason, verdict.message, now=now, observed_generation=generation
        )
    # The definition's rules compare the two (`bulkhead.api.tenantedits`), so they are written together.
    refused = generation if unapplied else None
    return {"conditions": conditions, "observedGeneration": generation, "refusedGeneration": refused}
