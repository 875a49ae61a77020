"""What `bulkhead why` prints for a host pod: text for people, and a document for programs. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from bulkhead.api import ledger
from bulkhead.api.conditions import condition_of
from bulkhead.api.ledger import line_name, moment
from bulkhead.api.quantity import unit_of
from bulkhead.api.untrusted import mapping, mappings
from bulkhead.api.untrusted import text as text_of
from bulkhead.ledger.model import GATED, Pod, Stage
from bulkhead.ledger.verdict import clock, duration
from workstation.cli.output import age, plain
from workstation.cli.quotas import queued
from workstation.cli.quotas.containerstates import what_keeps_it
from workstation.cli.quotas.explained import FITS, Company, Explanation, Placement, Quota, ahead
from workstation.cli.quotas.summary import number

_STATES: Final = {
    Stage.WAITING: "Waiting",
    Stage.BLOCKED: "Blocked",
    Stage.ADMITTED: "Admitted",
    Stage.BOUND: "Bound",
}
_SHOWN_ITEMS: Final = 8  # pods of a gang, workloads ahead, reasons


def state(pod: Pod) -> str:
    """The stage of a pod, in one word."""
    return "Ending" if pod.ending else "BeingTakenBack" if pod.reclaim_by is not None else _STATES[pod.stage]


def text(found: Explanation, noted: Mapping[str, Any], now: float) -> list[str]:
    """Lines for people."""
    pod = found.pod
    title = f"pod {pod.virtual_namespace}/{pod.virtual_name} of tenant {pod.tenant} requests {queued.devices(pod.asks)}"
    lines = [
        plain(title, 1000),
        *(_waits(found, noted) if pod.stage in GATED else _has(found, noted, now)),
    ]
    lines += _quota(found.quota, found.cohort)
    lines += _gang(found.gang) if found.gang is not None else []
    lines += _nodes(found.placement) if found.placement is not None else []
    lines += _queue(found, now) if found.waits is not None else []
    return lines


def _waits(found: Explanation, noted: Mapping[str, Any]) -> Iterator[str]:
    waits, reported = found.waits, ledger.read_verdict(noted)
    if found.next_node:
        yield f"  Admitted next: quota and room suffice, on node {plain(found.next_node)}"
        if reported is not None:
            yield f"  previous verdict: {reported[0]}: {plain(reported[1], 2000)}"
        else:
            yield "  the ledger has not judged it yet; if that lasts, no controller leads: kubectl -n bulkhead-system get lease"
        return
    if waits is not None:
        yield f"  {waits.verdict.why}: {plain(waits.verdict.message, 2000)}"
        if reported is None:
            yield "  its tenant does not see that yet: the ledger has not written it"
        elif reported != (str(waits.verdict.why), waits.verdict.message):
            yield f"  its tenant sees: {reported[0]}: {plain(reported[1], 2000)}"
    starts = waits.verdict.starts_by if waits is not None else None
    if starts is not None:
        yield f"  forecast: it starts by {clock(starts)} at the latest"
    elif waits is not None and waits.place is not None:
        yield "  forecast: none, because it is unknown when the workloads in its place end"


def _has(found: Explanation, noted: Mapping[str, Any], now: float) -> Iterator[str]:
    pod, admitted = found.pod, ledger.read_admitted(noted)
    where = pod.node or pod.pinned
    verb = "is on" if pod.node else "is admitted and goes to" if where else "is admitted and has no node yet"
    yield f"  {verb} {plain(where)}".rstrip() + (f", admitted {clock(admitted.at)}" if admitted is not None else "")
    if pod.ending:
        yield "  it is being deleted: its devices are free once its containers have ended"
    borrowed = dict(admitted.borrowed or {}) if admitted is not None else {}
    if borrowed:
        yield f"  borrowed when it was admitted: {queued.devices(borrowed)}"
    reclaimed = ledger.read_reclaim(noted)
    if reclaimed is not None:
        yield f"  it is evicted by {clock(reclaimed.by)} at the latest: {reclaimed.cause}: {plain(reclaimed.message, 1000)}"
    elif found.reclaim is not None:
        yield f"  it is evicted next, by {clock(found.reclaim.deadline)}: {found.reclaim.cause}: {found.reclaim.message}"
    else:
        yield from (f"  {line}" for line in _may_go(found, now))


def _may_go(found: Explanation, now: float) -> Iterator[str]:
    """Whether and when the pod could be evicted."""
    if any(quota.standing.used > quota.standing.ceiling for quota in found.quota):
        keeps, after = found.rules.over_quota == "Keep", duration(found.rules.over_quota_grace)
        how = "and keeps that until its pods end" if keeps else f"and pods over it are evicted {after} after that began"
        yield f"its tenant holds more than it may, {how}"
        if not found.cohort:
            return
    if any(quota.standing.borrowed for quota in found.quota):
        spared = found.spared_until
        not_before = f", and not before {clock(spared)}" if spared is not None and spared > now else ""
        within = duration(found.rules.reclaim_within)
        yield f"its tenant borrows: if another tenant needs that quota, pods of it end within {within}{not_before}"
    else:
        yield "its tenant borrows nothing of that, so nothing is reclaimed from it"
    pod = found.pod
    if found.rules.max_moves and pod.maker and pod.plain and pod.gang is None and not pod.slurm_worker:
        yield "it may be moved to another node that it fits on, if a larger workload finds no node"


def _quota(quota: Iterable[Quota], cohort: str) -> Iterator[str]:
    lines = list(quota)
    yield f"quota{f' in cohort {cohort}' if cohort else ''}" + ("" if lines else ": nothing that it requests is limited")
    for quota_line in lines:
        standing, line = quota_line.standing, quota_line.line
        numbers = ", ".join(
            f"{field} {number(line, getattr(standing, field))}"
            for field in ("nominal", "used", "borrowed", "lent", "borrowable")
        )
        asks, ceiling = number(line, quota_line.asks), number(line, standing.ceiling)
        yield f"  {line_name(*line)}: requests {asks}; {numbers}; at most {ceiling} ever"
        if quota_line.claims:
            yield f"    of that use, claims for devices hold {number(line, quota_line.claims)} for as long as they exist"


def _gang(gang: Company) -> Iterator[str]:
    yield plain(f"gang {gang.name}: {len(gang.pods)} of {gang.size} pods exist", 500)
    if gang.topology:
        yield f"  {plain(gang.topology)}"
    for pod in gang.pods[:_SHOWN_ITEMS]:
        yield f"  {plain(pod.virtual_name)}: {state(pod)}{f' on {plain(pod.node)}' if pod.node else ''}"
    if len(gang.pods) > _SHOWN_ITEMS:
        yield f"  and {len(gang.pods) - _SHOWN_ITEMS} more"
    if gang.missing:
        yield f"  missing: {gang.missing}; its tenant has not created them, or its own API has the reason"


def _nodes(placement: Placement) -> Iterator[str]:
    fits = placement.nodes_by_reason.get(FITS, 0)
    yield (
        f"nodes: {placement.nodes}, {fits} have room for it now; on nodes that it may use, "
        f"{placement.free} {placement.resource} "
        f"are free, at most {placement.largest} on one"
    )
    kept = [(reason, count) for reason, count in placement.nodes_by_reason.items() if reason != FITS]
    for reason, count in kept[:_SHOWN_ITEMS]:
        yield f"  {count} nodes: {plain(reason)}"
    if len(kept) > _SHOWN_ITEMS:
        yield f"  {sum(count for _, count in kept[_SHOWN_ITEMS:])} nodes: other reasons"


def _queue(found: Explanation, now: float) -> Iterator[str]:
    assert found.waits is not None  # noqa: S101 - called only if it waits
    queue = [waiting for waiting in found.queue if waiting.place is not None]
    if found.waits.place is None:
        yield f"queue: it is not in the queue, because no room would help; {len(queue)} workloads wait there"
        return
    before = ahead(found)
    yield f"queue: place {found.waits.place} of {len(queue)}"
    for earlier in before[:_SHOWN_ITEMS]:
        since = age(moment(earlier.since), now=datetime.fromtimestamp(now, UTC))
        requested = queued.devices(earlier.asks)
        yield f"  before it: {earlier.first.tenant} {plain(earlier.name)} requests {requested}, waits {since}"
    if len(before) > _SHOWN_ITEMS:
        yield f"  and {len(before) - _SHOWN_ITEMS} more before it"


def claims_of(pod: Mapping[str, Any]) -> list[str]:
    """The claims for devices of a host pod, by the pod's names for them."""
    return [text_of(claim.get("name")) for claim in mappings(mapping(pod.get("spec")).get("resourceClaims"))]


def of_claims(pod: Mapping[str, Any]) -> Iterator[str]:
    """The claims that only the host's scheduler allocates."""
    claims = claims_of(pod)
    if not claims:
        return
    more = f" and {len(claims) - _SHOWN_ITEMS} more" if len(claims) > _SHOWN_ITEMS else ""
    yield plain(
        f"claims for devices: {', '.join(claims[:_SHOWN_ITEMS])}{more}; the host's scheduler allocates these, not the ledger",
        1000,
    )


def unscheduled(pod: Mapping[str, Any]) -> tuple[str, str]:
    """Why the host's scheduler has given a host pod no node yet: reason and message.

    Empty while the ledger keeps the pod, and once it has a node.
    """
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled.get("status") != "False" or scheduled.get("reason") == "SchedulingGated":
        return "", ""
    return text_of(scheduled.get("reason")), text_of(scheduled.get("message"))


def of_scheduler(pod: Mapping[str, Any]) -> Iterator[str]:
    """What the host's scheduler reports about a host pod that it has given no node yet."""
    reason, message = unscheduled(pod)
    if reason:
        yield f"the host's scheduler reports {plain(reason)}: {plain(message, 2000)}"


def of_containers(pod: Mapping[str, Any]) -> Iterator[str]:
    """What keeps a container of a host pod from running: devices are held, and nothing runs on them."""
    reason, message = what_keeps_it(pod)
    if reason:
        yield f"it does not run: {plain(reason)}: {plain(message, 1000)}"


def as_json(found: Explanation, noted: Mapping[str, Any]) -> dict[str, Any]:
    """The whole explanation, in base units."""
    pod, waits = found.pod, found.waits
    admitted, reclaimed, reported = ledger.read_admitted(noted), ledger.read_reclaim(noted), ledger.read_verdict(noted)
    return {
        "tenant": pod.tenant,
        "namespace": pod.virtual_namespace,
        "pod": pod.virtual_name,
        "hostPod": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        "state": state(pod),
        "asks": dict(pod.asks),
        "node": pod.node or pod.pinned or found.next_node,
        "cohort": found.cohort,
        "reason": str(waits.verdict.why) if waits else "",
        "message": waits.verdict.message if waits else "",
        "startsBy": moment(waits.verdict.starts_by) if waits and waits.verdict.starts_by is not None else None,
        "noted": {"reason": reported[0], "message": reported[1]} if reported else None,
        "admitted": None
        if admitted is None
        else {"at": moment(admitted.at), "flavor": admitted.flavor, "borrowed": dict(admitted.borrowed or {})},
        "reclaim": _reclaim(found, reclaimed),
        "sparedUntil": None if found.spared_until is None else moment(found.spared_until),
        "quota": [
            {
                "resource": line.line[1],
                "flavor": line.line[0],
                "unit": unit_of(line.line[1]),
                "asks": line.asks,
                "claims": line.claims,
            }
            | asdict(line.standing)
            for line in found.quota
        ],
        "gang": None if found.gang is None else _gang_json(found.gang),
        "placement": None if found.placement is None else _placement(found.placement),
        "queue": {
            "place": waits.place if waits else None,
            "length": sum(waiting.place is not None for waiting in found.queue),
            "ahead": [queued.as_json(waiting) for waiting in ahead(found)],
        },
    }


def _reclaim(found: Explanation, reclaimed: ledger.Reclaimed | None) -> dict[str, Any] | None:
    if reclaimed is not None:
        return {"by": moment(reclaimed.by), "cause": reclaimed.cause, "message": reclaimed.message, "noted": True}
    if found.reclaim is None:
        return None
    to_come = found.reclaim
    return {"by": moment(to_come.deadline), "cause": str(to_come.cause), "message": to_come.message, "noted": False}


def _placement(found: Placement) -> dict[str, Any]:
    return {
        "nodes": found.nodes,
        "nodesByReason": dict(found.nodes_by_reason),
        "resource": found.resource,
        "asks": found.asks,
        "free": found.free,
        "largest": found.largest,
    }


def _gang_json(gang: Company) -> dict[str, Any]:
    pods = [{"pod": pod.virtual_name, "state": state(pod), "node": pod.node} for pod in gang.pods]
    return {"name": gang.name, "size": gang.size, "missing": gang.missing, "topology": gang.topology, "pods": pods}
