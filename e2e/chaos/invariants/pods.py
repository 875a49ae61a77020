"""I1 and I8: pods of both sides, one to one, and no host pod deleted whose virtual pod lives. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from e2e.chaos.history import History, PodGone, PodSeen, Side, hits, time_of
from e2e.chaos.invariants.violation import QUIET_SECONDS, SLACK_SECONDS, Violation, experiment_at
from e2e.chaos.sightings import unseen_pods


@dataclass(frozen=True, slots=True)
class _Life:
    uid: str
    virtual_uid: str
    tenant: str
    name: str
    begin: float
    end: float
    leaving: float  # when its deletion had begun; at the latest when the pod was gone
    refused: tuple[tuple[float, float], ...] = ()  # while its status refused it, and until its host pod is due


def one_to_one(history: History) -> list[Violation]:
    """I1: never two host pods for one virtual UID; after 30 s of quiet every virtual pod has one, and no others exist."""
    virtual, host = _lives(history, "virtual"), _lives(history, "host")
    found = [Violation("I1", "observer", text) for text in unseen_pods(history)]
    found += _twins(history, host)
    mirrors, originals = _by_virtual_uid(host), _by_virtual_uid(virtual)
    for life in virtual:
        for moment in _uncovered(history, life, mirrors.get(life.virtual_uid, [])):
            text = f"tenant {life.tenant}: virtual pod {life.name} had no host pod at {moment:.1f}, after 30 s of quiet"
            found.append(Violation("I1", experiment_at(history, moment), text))
    for life in host:
        # A host pod that is being deleted is not live; how long it takes to end depends on the kubelet.
        for moment in _uncovered(history, replace(life, end=life.leaving), originals.get(life.virtual_uid, [])):
            text = f"tenant {life.tenant}: host pod {life.name} had no virtual pod at {moment:.1f}, after 30 s of quiet"
            found.append(Violation("I1", experiment_at(history, moment), text))
    return found


def only_wanted_deletions(history: History) -> list[Violation]:
    """I8: no host pod is deleted while its virtual pod lives.

    Each side is seen late. The host pod's deletion came before it was seen; that its virtual pod lived after that shows only a
    list that was asked for later, or that its end was never seen. A virtual pod that had ended before and is there once more
    came back with an older copy of its plane's data: its deletion was wanted.
    """
    ended: dict[str, tuple[float, PodSeen]] = {}
    seen: dict[str, PodSeen] = {}
    alive: dict[str, float] = {}
    virtual_ended: dict[str, float] = {}
    for record in history.records:
        if isinstance(record, PodSeen) and record.side == "host":
            seen[record.uid] = record
            if record.deleting:
                ended.setdefault(record.uid, (record.at, record))
        elif isinstance(record, PodGone) and record.side == "host" and record.uid in seen:
            ended.setdefault(record.uid, (record.at, seen[record.uid]))
        elif isinstance(record, PodSeen) and record.side == "virtual":
            if record.deleting:
                virtual_ended.setdefault(record.virtual_uid, record.at)
            else:
                alive[record.virtual_uid] = max(record.asked, alive.get(record.virtual_uid, 0.0))
        elif isinstance(record, PodGone) and record.side == "virtual":
            virtual_ended.setdefault(record.uid, record.at)
    found = [Violation("I8", "observer", text) for text in unseen_pods(history)]
    for at, pod in ended.values():
        latest, virtual_end = at + SLACK_SECONDS, virtual_ended.get(pod.virtual_uid, math.inf)
        still = virtual_end > latest and alive.get(pod.virtual_uid, 0.0) > latest
        never_deleted = pod.virtual_uid in alive and virtual_end == math.inf
        if still or never_deleted:
            text = f"tenant {pod.tenant}: host pod {pod.name} was deleted at {at:.1f} while its virtual pod lived"
            found.append(Violation("I8", experiment_at(history, at), text))
    return found


def _by_virtual_uid(lives: Sequence[_Life]) -> dict[str, list[_Life]]:
    found: dict[str, list[_Life]] = {}
    for life in lives:
        found.setdefault(life.virtual_uid, []).append(life)
    return found


def _lives(history: History, side: Side) -> list[_Life]:
    first: dict[str, PodSeen] = {}
    gone: dict[str, float] = {}
    leaving: dict[str, float] = {}
    seen: dict[str, list[PodSeen]] = {}
    for record in history.records:
        if isinstance(record, PodSeen) and record.side == side:
            first.setdefault(record.uid, record)
            seen.setdefault(record.uid, []).append(record)
            if record.deleting:
                leaving.setdefault(record.uid, record.at)
        elif isinstance(record, PodGone) and record.side == side:
            gone.setdefault(record.uid, record.at)
    return [
        _Life(
            uid, pod.virtual_uid, pod.tenant, pod.name, pod.at, end, min(end, leaving.get(uid, end)), _refusals(seen[uid], end)
        )
        for uid, pod in first.items()
        for end in (gone.get(uid, history.end),)
    ]


def _refusals(seen: Sequence[PodSeen], end: float) -> tuple[tuple[float, float], ...]:
    """The time in which a pod's status was PodScheduled=False, and 30 s more; its host pod is due after that."""
    found: list[tuple[float, float]] = []
    since: float | None = None
    for look in seen:
        if look.refused and since is None:
            since = look.at
        elif not look.refused and since is not None:
            found.append((since, look.at + QUIET_SECONDS))
            since = None
    return (*found, (since, end)) if since is not None else tuple(found)


def _twins(history: History, host: Sequence[_Life]) -> list[Violation]:
    found = []
    by_virtual: dict[str, list[_Life]] = {}
    for life in sorted(host, key=lambda item: item.begin):
        for other in by_virtual.setdefault(life.virtual_uid, []):
            if other.end > life.begin:
                text = f"tenant {life.tenant}: two host pods, {other.name} and {life.name}, for one virtual pod"
                found.append(Violation("I1", experiment_at(history, life.begin), text))
        by_virtual[life.virtual_uid].append(life)
    return found


def _uncovered(history: History, life: _Life, others: Sequence[_Life]) -> list[float]:
    """Moments in a pod's life at which it had no counterpart, long after every disturbance; at most one is returned.

    A counterpart may be first seen up to 30 s late, and its end may be seen up to 30 s early.
    """
    disturbed = [(time_of(item), item.end + QUIET_SECONDS) for item in history.disturbed if hits(item, life.tenant)]
    disturbed += life.refused
    edges = [life.begin + QUIET_SECONDS, life.end]
    edges += [edge for begin, end in disturbed for edge in (begin, end)] + [item.end + QUIET_SECONDS for item in others]
    for moment in sorted(edges):
        if not life.begin + QUIET_SECONDS <= moment < life.end:
            continue
        if any(begin <= moment < end for begin, end in disturbed):
            continue
        if not any(item.begin <= moment <= item.end + QUIET_SECONDS - 0.001 for item in others):
            return [moment]
    return []
