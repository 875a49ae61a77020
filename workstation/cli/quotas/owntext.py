"""What a tenant's user reads of their own quota and pods: text for people, and documents for programs. Pure.

    OwnQuota, own pods ──> OwnView ──> lines | document

It knows nothing but what the plane shows, so nothing of other tenants is in it but amounts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Self

from bulkhead.api import podresources
from bulkhead.api.conditions import condition_of
from bulkhead.api.eventtimes import last_seen
from bulkhead.api.ledger import Place, line_name, moment, seconds
from bulkhead.api.names import SLURM_NAMESPACE
from bulkhead.api.objects import Obj
from bulkhead.api.ownquota import OwnLine, OwnQuota
from bulkhead.api.ownusage import OwnUsage
from bulkhead.api.podphase import has_ended, is_pending_deletion, placed_on
from bulkhead.api.quantity import base_units, unit_of, written
from bulkhead.api.untrusted import mapping, text
from bulkhead.ledger.verdict import clock
from workstation.cli.output import age, plain
from workstation.cli.quotas import owngpus, ownhours, ownjobs
from workstation.cli.quotas.containerstates import how_it_ended, what_keeps_it
from workstation.cli.quotas.owngpus import PodUse, Uses
from workstation.cli.quotas.ownjobs import Jobs

_SHOWN_PODS: Final = 30
_SHOWN_EVENTS: Final = 5
_COUNTS: Final = ("nominal", "used", "borrowed", "lent", "borrowable", "ceiling")
_HEADERS: Final = ("NOMINAL", "USED", "BORROWED", "LENT", "CAN BORROW", "AT MOST")
_LONGEST: Final = 2000


@dataclass(frozen=True, slots=True)
class OwnPod:
    """What is shown of a pod."""

    namespace: str
    name: str
    uid: str
    phase: str
    node: str
    created: str
    ending: bool
    # Why it has no node yet, if it says so.
    reason: str
    message: str
    # What it requests of the resources that have a quota, in base units.
    asks: Mapping[str, int]
    # How it ended, if it failed.
    ended: str = ""
    # What keeps a container of it from running.
    kept: str = ""

    @classmethod
    def of(cls, pod: Obj, resources: Iterable[str]) -> Self:
        """Read a pod of the plane."""
        meta, scheduled = mapping(pod.get("metadata")), condition_of(pod, "PodScheduled")
        asked = {name: base_units(name, podresources.requested(pod, name), "up") for name in resources}
        waits = not placed_on(pod) and not has_ended(pod) and scheduled.get("status") != "True"
        return cls(
            namespace=text(meta.get("namespace")),
            name=text(meta.get("name")),
            uid=text(meta.get("uid")),
            phase=text(mapping(pod.get("status")).get("phase")),
            node=placed_on(pod),
            created=text(meta.get("creationTimestamp")),
            ending=is_pending_deletion(pod),
            reason=text(scheduled.get("reason")) if waits else "",
            message=text(scheduled.get("message")) if waits else "",
            asks={name: number for name, number in asked.items() if number > 0},
            ended=how_it_ended(pod),
            kept=": ".join(part for part in what_keeps_it(pod) if part),
        )

    @property
    def waits(self) -> bool:
        """Whether it has no node and could get one."""
        return not self.node and not self.ending and self.phase not in {"Succeeded", "Failed"}


@dataclass(frozen=True, slots=True)
class OwnView:
    """What a plane shows of its tenant at one moment."""

    own: OwnQuota
    # When the figures changed last.
    at: str
    now: float
    # None if they were not read, or the user may not list them.
    pods: Sequence[OwnPod] | None = field(default=None)
    # None if they were not asked for, or there are none to ask for.
    uses: Uses | None = None
    jobs: Jobs | None = None
    # For how long the tenant held devices; None if its plane does not say it.
    usage: OwnUsage | None = None

    @property
    def devices(self) -> tuple[str, ...]:
        """The resources that have a line, devices first."""
        return tuple(dict.fromkeys(line.resource for line in self.own.lines))

    def with_pods(self, pods: Sequence[OwnPod] | None) -> "OwnView":
        """The same view with pods."""
        return replace(self, pods=pods)

    def place(self, pod: OwnPod) -> Place | None:
        """The place of a pod in the queue, if the ledger gave it one."""
        return self.own.queue.get(pod.uid)

    def use(self, pod: OwnPod) -> PodUse | None:
        """What the pod's devices do, if that was read."""
        return None if self.uses is None else self.uses.pods.get((pod.namespace, pod.name))

    def job_rows(self) -> list[dict[str, Any]]:
        """The Slurm jobs, those that wait first."""
        waiting = {
            pod.name: place
            for pod in self.pods or ()
            if pod.namespace == SLURM_NAMESPACE and pod.waits
            if (place := self.place(pod)) is not None
        }
        return [ownjobs.row(job, waiting, self.now) for job in (self.jobs.jobs if self.jobs is not None else ())]


# -- the quota


def quota_lines(view: OwnView) -> list[str]:
    """`quota show`."""
    lines = [*_quota(view.own.lines), "", *_limits(view)]
    return [*lines, *_waiting(view), f"as of {age(view.at, now=_now(view))} ago; it changes within seconds of a change"]


def quota_json(view: OwnView) -> dict[str, Any]:
    """The whole quota, in base units."""
    own = view.own
    return {
        "at": view.at,
        "cohort": own.in_cohort,
        "lines": [asdict(line) | {"unit": unit_of(line.resource)} for line in own.lines],
        "limits": [asdict(limit) for limit in own.limits],
        "waiting": dict(own.waiting),
        "queue": {uid: _place(place) for uid, place in own.queue.items()},
    }


def _quota(lines: Sequence[OwnLine]) -> Iterator[str]:
    if not lines:
        yield "your tenant has no quota of devices"
        return
    cells: list[tuple[str, ...]] = [("your quota", *_HEADERS)]
    cells += [
        (
            plain(line_name(line.flavor, line.resource), 100),
            *(written(line.resource, getattr(line, count)) for count in _COUNTS),
        )
        for line in lines
    ]
    yield from _columns(cells)


def _limits(view: OwnView) -> Iterator[str]:
    if view.own.limits:
        yield from _columns(
            [("other limits", "LIMIT", "USED")]
            + [(plain(limit.name, 100), plain(limit.hard, 40), plain(limit.used, 40)) for limit in view.own.limits]
        )
        yield ""


def _waiting(view: OwnView) -> Iterator[str]:
    waiting = view.own.waiting
    if not waiting:
        yield "no pod waits"
        return
    reasons = ", ".join(f"{number} {plain(reason) or 'not judged yet'}" for reason, number in waiting.items())
    yield f"{sum(waiting.values())} pods wait: {reasons}"


# -- pods


def top_lines(view: OwnView) -> list[str]:
    """`top` of a tenant."""
    lines = [*_quota(view.own.lines), ""]
    if view.pods is None:
        return [*lines, *_waiting(view), "you may not list pods of all namespaces: kubectl get pods -n NAMESPACE shows yours"]
    holding = [pod for pod in view.pods if pod.node and _devices(pod)]
    nodes = len({pod.node for pod in holding})
    lines.append(f"{len(holding)} pods hold devices, on {nodes} nodes" if holding else "no pod holds devices")
    if holding:
        holding.sort(key=lambda pod: (pod.node, pod.namespace, pod.name))
        cells: list[tuple[str, ...]] = [("POD", "DEVICES", "BUSY", "NODE", "AGE")]
        cells += [
            (_called(pod), _asked(pod), _busy(view.use(pod)), plain(pod.node), age(pod.created, now=_now(view)))
            for pod in holding[:_SHOWN_PODS]
        ]
        lines += [*_columns(cells, indent=2, left=True), *_more(holding)]
        if view.uses is not None and view.uses.missing:
            lines.append(f"  use not shown: {plain(view.uses.missing)}")
    waiting = sorted((pod for pod in view.pods if pod.waits), key=lambda pod: _order(view, pod))
    lines.append(f"{len(waiting)} pods wait" if waiting else "no pod waits")
    if waiting:
        cells = [("POD", "REQUESTS", "PLACE", "STARTS BY", "REASON", "AGE")]
        cells += [(*_row(view, pod), age(pod.created, now=_now(view))) for pod in waiting[:_SHOWN_PODS]]
        lines += [*_columns(cells, indent=2, left=True), *_more(waiting)]
    return [*lines, *_jobs(view), *_hours(view)]


def _busy(use: PodUse | None) -> str:
    if use is None or use.busy is None:
        return "-"
    errors = f" XID {','.join(map(str, use.xids))}" if use.xids else ""
    return f"{use.busy:.0f} %{errors}"


def _jobs(view: OwnView) -> Iterator[str]:
    if view.jobs is None:
        return
    if view.jobs.missing:
        yield f"Slurm jobs not shown: {plain(view.jobs.missing)}"
        return
    rows = view.job_rows()
    waiting = sum(row["waits"] for row in rows)
    yield f"{len(rows)} Slurm jobs, {waiting} of which wait" if rows else "no Slurm jobs"
    if not rows:
        return
    cells: list[tuple[str, ...]] = [("JOB", "NAME", "USER", "PARTITION", "GPUS", "STATE", "PLACE", "STARTS BY", "REASON")]
    for row in rows[:_SHOWN_PODS]:
        starts = seconds(row["starts"])
        by = "-" if starts is None else clock(starts) + (" (Slurm)" if row["forecast"] == "Slurm" else "")
        words = [plain(row[part], 40) or "-" for part in ("job", "name", "user", "partition")]
        reason = plain(row["text"] or row["reason"], 80) or "-"
        cells.append((*words, str(row["gpus"]), plain(row["state"], 20), str(row["place"] or "-"), by, reason))
    yield from _columns(cells, indent=2, left=True)
    if len(rows) > _SHOWN_PODS:
        yield f"  and {len(rows) - _SHOWN_PODS} more: -o json has them all"


def _hours(view: OwnView) -> Iterator[str]:
    if view.usage is None or not view.usage.rows:
        return
    for name, total in ownhours.totals(view.usage.rows).items():
        held, _, idle, *_ = ownhours.cells(total)
        busy = f", {100 * total.busy / total.measured:.0f} % busy while measured" if total.measured else ""
        yield f"{held} hours of {plain(name, 100)} in two weeks, {idle} of them idle{busy}: bulkhead usage"


def top_json(view: OwnView) -> dict[str, Any]:
    """The quota with the pods that hold devices or wait."""
    pods = None if view.pods is None else [_pod(view, pod) for pod in view.pods if pod.waits or (pod.node and _devices(pod))]
    jobs = None if view.jobs is None else {"missing": view.jobs.missing, "items": view.job_rows()}
    usage = None if view.usage is None else ownhours.as_json(view.usage)
    missing = "" if view.uses is None else view.uses.missing
    return quota_json(view) | {"pods": pods, "useMissing": missing, "slurmJobs": jobs, "usage": usage}


def _row(view: OwnView, pod: OwnPod) -> tuple[str, ...]:
    place = view.place(pod)
    starts = "-" if place is None or place.starts_by is None else clock(place.starts_by)
    return _called(pod), _asked(pod) or "-", "-" if place is None else str(place.number), starts, plain(pod.reason, 40) or "-"


def _order(view: OwnView, pod: OwnPod) -> tuple[Any, ...]:
    place = view.place(pod)
    return (place is None, place.number if place is not None else 0, pod.created, pod.namespace, pod.name)


def _more(pods: Sequence[OwnPod]) -> list[str]:
    return [f"  and {len(pods) - _SHOWN_PODS} more: -o json has them all"] if len(pods) > _SHOWN_PODS else []


# -- one pod


def pod_lines(view: OwnView, pod: OwnPod, events: Iterable[Obj]) -> list[str]:
    """`why POD`."""
    lines = [f"pod {_called(pod)} requests {_asked(pod) or 'nothing that has a quota'}", *_state(view, pod)]
    asked = [line for line in view.own.lines if line.resource in pod.asks]
    if asked:
        lines += ["", *_quota(asked)]
    told = _told(events)
    if told:
        lines += [
            "",
            "last warnings",
            *(f"  {plain(event.get('reason'), 64)}: {plain(event.get('message'), _LONGEST)}" for event in told),
        ]
    return lines


def pod_json(view: OwnView, pod: OwnPod, events: Iterable[Obj]) -> dict[str, Any]:
    """A pod with the lines of the quota that it counts in."""
    return _pod(view, pod) | {
        "message": pod.message[:_LONGEST],
        "ended": pod.ended[:_LONGEST],
        "kept": pod.kept[:_LONGEST],
        "quota": [asdict(line) | {"unit": unit_of(line.resource)} for line in view.own.lines if line.resource in pod.asks],
        "events": [
            {part: text(event.get(part))[:_LONGEST] for part in ("reason", "message")} | {"lastTimestamp": last_seen(event)}
            for event in _told(events)
        ],
    }


def _state(view: OwnView, pod: OwnPod) -> Iterator[str]:
    if pod.phase in {"Succeeded", "Failed"}:
        yield f"  it has ended: {pod.phase}" + (f": {plain(pod.ended, _LONGEST)}" if pod.ended else "")
        return
    if pod.ending:
        yield "  it is being deleted: what it holds is free once its containers have ended"
        return
    if pod.node:
        yield f"  it is on {plain(pod.node)}, {plain(pod.phase)}"
        if pod.kept:
            yield f"  it does not run: {plain(pod.kept, _LONGEST)}"
        return
    if not pod.reason:
        yield "  nothing has judged it yet; if that lasts for a minute, tell your admin"
        return
    yield f"  {plain(pod.reason, 64)}: {plain(pod.message, _LONGEST)}"
    place = view.place(pod)
    if place is None:
        yield "  queue: it has no place among the first, or waits for something else"
        return
    yield f"  queue: place {place.number}"
    if place.starts_by is None:
        yield "  forecast: none, because it is unknown when the workloads in its place end"
    else:
        yield f"  forecast: it starts by {clock(place.starts_by)} at the latest"


def _told(events: Iterable[Obj]) -> list[Obj]:
    """The newest warnings, the newest last."""
    warnings = [event for event in events if event.get("type") == "Warning"]
    return sorted(warnings, key=last_seen)[-_SHOWN_EVENTS:]


def _pod(view: OwnView, pod: OwnPod) -> dict[str, Any]:
    place = view.place(pod)
    return {
        "namespace": pod.namespace,
        "pod": pod.name,
        "phase": pod.phase,
        "node": pod.node,
        "created": pod.created,
        "asks": dict(pod.asks),
        "waits": pod.waits,
        "reason": pod.reason,
        "place": None if place is None else place.number,
        "startsBy": None if place is None or place.starts_by is None else moment(place.starts_by),
    } | ({} if (use := view.use(pod)) is None else {"use": owngpus.as_json(use)})


def _place(place: Place) -> dict[str, Any]:
    return {"place": place.number, "startsBy": None if place.starts_by is None else moment(place.starts_by)}


def _devices(pod: OwnPod) -> dict[str, int]:
    return {name: number for name, number in pod.asks.items() if "/" in name}


def _asked(pod: OwnPod) -> str:
    named = _devices(pod) or pod.asks
    return ", ".join(f"{written(name, number)} {plain(name, 100)}" for name, number in named.items())


def _called(pod: OwnPod) -> str:
    return plain(f"{pod.namespace}/{pod.name}", 320)


def _now(view: OwnView) -> datetime:
    return datetime.fromtimestamp(view.now, UTC)


def _columns(cells: Sequence[Sequence[str]], *, indent: int = 0, left: bool = False) -> Iterator[str]:
    """Rows in columns; numbers to the right, unless all are texts."""
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    for row in cells:
        rest = [cell.ljust(width) if left else cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        yield f"{' ' * indent}{'   '.join([row[0].ljust(widths[0]), *rest])}".rstrip()
