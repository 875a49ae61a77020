"""What a tenant's user sees: own quota, own pods, why each waits. From what the plane shows and nothing else. Pure.

    ConfigMap kube-public/bulkhead-quota ──> lines with nominal, used, borrowed, lent; places in the queue; device-hours
    pods of the plane ──> which wait, why, and where the others hold devices; what was measured of these
    jobs of the plane's Slurm cluster ──> why each waits, and when it may start

A user of the plane may have written any of it, so a field of the wrong shape reads as absent.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api import ownquota, ownusage, podresources
from bulkhead.api.conditions import condition_of
from bulkhead.api.ledger import Place, line_name, moment, seconds
from bulkhead.api.names import SLURM_NAMESPACE
from bulkhead.api.objects import Obj
from bulkhead.api.ownquota import OwnQuota
from bulkhead.api.podphase import has_ended, is_pending_deletion, placed_on
from bulkhead.api.quantity import base_units, unit_of
from bulkhead.api.untrusted import mapping, mappings, text
from workstation.cli.quotas import owngpus, ownhours, ownjobs
from workstation.cli.quotas.containerstates import what_keeps_it
from workstation.cli.quotas.owngpus import PodUse, Uses
from workstation.cli.quotas.ownjobs import Jobs
from workstation.console.picture import MAX_NAME_CHARS, MAX_TEXT_CHARS

_MAX_ROWS: Final = 500
_COUNTS: Final = ("nominal", "ceiling", "used", "borrowed", "lent")
_LARGEST: Final = 1 << 53


@dataclass(frozen=True, slots=True)
class OwnPod:
    """A pod of the user's plane."""

    namespace: str
    name: str
    uid: str
    phase: str
    node: str
    created: str
    # Why it has no node yet, if it says so; that it is being evicted; or what keeps a container of it from running.
    reason: str
    text: str
    asks: Mapping[str, int]

    @property
    def waits(self) -> bool:
        """Whether it has no node and could get one."""
        return not self.node and self.phase not in {"Succeeded", "Failed", "Ending"}


def pod_of(pod: Obj) -> OwnPod | None:
    """A pod that has not ended."""
    meta = mapping(pod.get("metadata"))
    if has_ended(pod):
        return None
    names = {
        name for part in mappings(mapping(pod.get("spec")).get("containers"), 256) for name in _requests(part) if "/" in name
    }
    asks = {name: base_units(name, podresources.requested(pod, name), "up") for name in sorted(names)[:16]}
    told = _told(pod)
    return OwnPod(
        namespace=text(meta.get("namespace"))[:MAX_NAME_CHARS],
        name=text(meta.get("name"))[:MAX_NAME_CHARS],
        uid=text(meta.get("uid")),
        phase="Ending" if is_pending_deletion(pod) else text(mapping(pod.get("status")).get("phase"))[:64],
        node=placed_on(pod)[:MAX_NAME_CHARS],
        created=text(meta.get("creationTimestamp")),
        reason=text(told.get("reason"))[:200],
        text=text(told.get("message"))[:MAX_TEXT_CHARS],
        asks={name: amount for name, amount in asks.items() if amount > 0},
    )


def _requests(container: Mapping[str, Any]) -> list[str]:
    resources = mapping(container.get("resources"))
    return [*mapping(resources.get("requests")), *mapping(resources.get("limits"))]


def _told(pod: Obj) -> Mapping[str, Any]:
    disrupted, scheduled = condition_of(pod, "DisruptionTarget"), condition_of(pod, "PodScheduled")
    if disrupted.get("status") == "True":
        return disrupted
    if scheduled.get("status") == "False":
        return scheduled
    reason, message = what_keeps_it(pod)
    return {"reason": reason, "message": message}


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for every few seconds, as it is not watched. None: it was not asked yet, or there is nothing to ask."""

    uses: Uses | None = None
    jobs: Jobs | None = None


def picture_of(
    quota: Obj | None, pods: Sequence[OwnPod], source: str, at: str, unread: Sequence[str], *, asked: Asked = Asked()
) -> dict[str, Any]:
    """What the page of a tenant's user shows."""
    found = ownquota.read(quota or {})
    own = found[0] if found is not None else OwnQuota()
    places = own.queue
    measured = asked.uses.pods if asked.uses is not None else {}
    waiting = sorted(
        (pod for pod in pods if pod.waits), key=lambda pod: (_place(places, pod) or _LARGEST, pod.created, pod.name)
    )
    holding = sorted((pod for pod in pods if pod.node and pod.asks), key=lambda pod: (pod.node, pod.namespace, pod.name))
    return {
        "at": at,
        "source": source,
        "told": found is not None,
        "lines": list(_lines(own, waiting)),
        "limits": [[part[:MAX_NAME_CHARS] for part in (limit.name, limit.used, limit.hard)] for limit in own.limits],
        "phases": dict(Counter(pod.phase for pod in pods)),
        "waiting": [_row(pod, places) for pod in waiting[:_MAX_ROWS]],
        "waitingLeft": max(0, len(waiting) - _MAX_ROWS),
        "holding": [_row(pod, {}) | _use(pod, measured) for pod in holding[:_MAX_ROWS]],
        "holdingLeft": max(0, len(holding) - _MAX_ROWS),
        "use": _all_uses(holding, asked.uses),
        "jobs": _jobs(asked.jobs, pods, places, seconds(at) or 0.0),
        "hours": ownhours.chart(ownusage.of_config_map(quota or {}), seconds(at) or 0.0),
        "unread": list(unread),
    }


def _use(pod: OwnPod, measured: Mapping[owngpus.PodName, PodUse]) -> dict[str, Any]:
    use = measured.get((pod.namespace, pod.name))
    return {} if use is None else {"use": owngpus.as_json(use)}


def _all_uses(holding: Sequence[OwnPod], uses: Uses | None) -> dict[str, Any] | None:
    """The devices of all pods together; None if nothing was asked, because no pod holds any."""
    if uses is None or not holding:
        return None
    found = [use for pod in holding if (use := uses.pods.get((pod.namespace, pod.name))) is not None]
    busy = [(use.busy, use.devices) for use in found if use.busy is not None]
    measured = sum(devices for _, devices in busy)
    return {
        "devices": measured,
        "busyPercent": round(sum(percent * devices for percent, devices in busy) / measured, 1) if measured else None,
        "idleDevices": sum(use.idle_devices for use in found),
        "watts": round(sum(use.watts or 0.0 for use in found), 1),
        "simulated": any(use.simulated for use in found),
        "missing": uses.missing,
    }


def _jobs(jobs: Jobs | None, pods: Iterable[OwnPod], places: Mapping[str, Place], now: float) -> dict[str, Any] | None:
    """The jobs that wait, and the others; None without a Slurm cluster."""
    if jobs is None:
        return None
    workers = {
        pod.name: places[pod.uid] for pod in pods if pod.namespace == SLURM_NAMESPACE and pod.waits and pod.uid in places
    }
    rows = {waits: [job for job in jobs.jobs if job.waits is waits] for waits in (True, False)}
    return {
        "missing": jobs.missing,
        "waiting": [ownjobs.row(job, workers, now) for job in rows[True][:_MAX_ROWS]],
        "waitingLeft": max(0, len(rows[True]) - _MAX_ROWS),
        "running": [ownjobs.row(job, workers, now) for job in rows[False][:_MAX_ROWS]],
        "runningLeft": max(0, len(rows[False]) - _MAX_ROWS),
    }


def _row(pod: OwnPod, places: Mapping[str, Place]) -> dict[str, Any]:
    return {
        "name": f"{pod.namespace}/{pod.name}",
        "phase": pod.phase,
        "node": pod.node,
        "since": pod.created,
        "reason": pod.reason,
        "text": pod.text,
        "asks": ", ".join(f"{amount} {name}" for name, amount in pod.asks.items()),
        "place": _place(places, pod),
        "starts": _starts(places, pod),
    }


def _place(places: Mapping[str, Place], pod: OwnPod) -> int | None:
    place = places.get(pod.uid)
    return place.number if place is not None else None


def _starts(places: Mapping[str, Place], pod: OwnPod) -> str:
    place = places.get(pod.uid)
    return moment(place.starts_by) if place is not None and place.starts_by is not None else ""


def _lines(own: OwnQuota, waiting: Iterable[OwnPod]) -> Iterable[dict[str, Any]]:
    asked: Counter[str] = Counter()
    for pod in waiting:
        asked.update(pod.asks)
    flavors = Counter(line.resource for line in own.lines)
    for line in own.lines:
        # Which flavor a pod will get is not known before it is admitted.
        waits = asked[line.resource] if flavors[line.resource] == 1 else 0
        unit = "devices" if "/" in line.resource else unit_of(line.resource)
        counts = {name: getattr(line, name) for name in _COUNTS}
        name = line_name(line.flavor[:MAX_NAME_CHARS], line.resource[:MAX_NAME_CHARS])
        yield {"name": name, "unit": unit, "rows": [{"tenant": "", "waiting": waits, **counts}]}
