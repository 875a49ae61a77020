"""The figures of the benchmark of planes that survive: from readings to what is judged. Pure.

A figure is there only if something was observed: no request, no figure, and judgement fails what is missing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# A member's pod deleted, by the name of its figures.
DELETED, FORCED, LOST, ROLLOUT, CONTROL = "deleted", "forced", "lost", "rollout", "control"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of a client that works on a plane: when it began, and why it failed; empty if it did not.

    at_once: why the same request failed when it was sent again at once, later: a second later. Empty if it did not, or if the
    first one succeeded.
    """

    at: float
    error: str = ""
    at_once: str = ""
    later: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot: the size that was asked for and that of the store in MiB, and what it took.

    before_mib, peak_mib: resident memory of the controller before it and at most while it was taken.
    """

    wanted: int
    mib: float
    seconds: float
    before_mib: float
    peak_mib: float
    asked: tuple[Asked, ...]


@dataclass(frozen=True, slots=True)
class Restore:
    """One restore in place, in seconds from the start of the command.

    command: until it ended. ready: until the Tenant was Ready and its API had what the snapshot has. filling, starting: of the
    controller's part, until the volume was filled and from then on.
    """

    wanted: int
    mib: float
    command: float
    ready: float
    filling: float
    starting: float
    asked: tuple[Asked, ...]


@dataclass(frozen=True, slots=True)
class Everything:
    """`restore --all` of this many tenants, in seconds from the start of the command.

    changed: what differs from before, one text for each tenant. unnamed: tenants of which the command did not say what they
    wait for.
    """

    tenants: int
    command: float
    ready: float
    changed: tuple[str, ...]
    unnamed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens to a plane of members: seconds until all of them served again, and what a client noticed."""

    name: str
    seconds: float
    asked: tuple[Asked, ...]


@dataclass(frozen=True, slots=True)
class Started:
    """A plane of three, in seconds from its creation: until it was Ready, and until all three members served."""

    ready: float
    whole: float


@dataclass(frozen=True, slots=True)
class Full:
    """A store that was filled, in seconds: until the Tenant reported it, and from the last deletion until a write was taken."""

    noticed: float
    opened: float


@dataclass
class Readings:
    """Everything that a run has measured so far, and which of its parts ended early, with the error."""

    snapshots: list[Snapshot] = field(default_factory=list)
    restores: list[Restore] = field(default_factory=list)
    everything: Everything | None = None
    started: Started | None = None
    events: list[Event] = field(default_factory=list)
    full: Full | None = None
    broken: dict[str, str] = field(default_factory=dict)


def noticed(asked: Iterable[Asked]) -> dict[str, float]:
    """What a client noticed: requests, those that failed, and those that failed again with one retry. Empty without any."""
    listed = sorted(asked, key=lambda one: one.at)
    if not listed:
        return {}
    return {
        "requests": len(listed),
        "failed": sum(bool(one.error) for one in listed),
        "failed_at_once": sum(bool(one.at_once) for one in listed),
        "failed_retry": sum(bool(one.later) for one in listed),
        "longest_s": round(_longest(listed), 1),
    }


def summarise(readings: Readings) -> dict[str, Any]:
    """The figures by part; a part that was not measured is not there."""
    found: dict[str, Any] = {}
    if readings.snapshots:
        found["snapshot"] = {str(one.wanted): _snapshot(one) for one in readings.snapshots}
    if readings.restores:
        found["restore"] = {str(one.wanted): _restore(one) for one in readings.restores}
    if readings.everything is not None:
        found["all"] = _everything(readings.everything)
    if readings.started is not None:
        found["members"] = {"ready_s": round(readings.started.ready, 1), "whole_s": round(readings.started.whole, 1)}
    for name, events in _by_name(readings.events).items():
        found[name] = _event(events)
    if readings.full is not None:
        found["full"] = {"noticed_s": round(readings.full.noticed, 1), "opened_s": round(readings.full.opened, 1)}
    return found | ({"broken": dict(readings.broken)} if readings.broken else {})


def _snapshot(one: Snapshot) -> dict[str, float]:
    return {
        "mib": round(one.mib, 1),
        "seconds": round(one.seconds, 1),
        "grown_mib": round(max(0.0, one.peak_mib - one.before_mib), 1),
        "peak_mib": round(one.peak_mib, 1),
        **noticed(one.asked),
    }


def _restore(one: Restore) -> dict[str, float]:
    return {
        "mib": round(one.mib, 1),
        "command_s": round(one.command, 1),
        "ready_s": round(one.ready, 1),
        "filling_s": round(one.filling, 1),
        "starting_s": round(one.starting, 1),
        **noticed(one.asked),
    }


def _everything(one: Everything) -> dict[str, Any]:
    found: dict[str, Any] = {
        "tenants": one.tenants,
        "command_s": round(one.command, 1),
        "ready_s": round(one.ready, 1),
        "each_s": round(one.ready / one.tenants, 1),
        "changed": len(one.changed),
        "unnamed": len(one.unnamed),
        "what_changed": [*one.changed],
    }
    return found | ({"forty_min": round(one.ready / 60, 1)} if one.tenants >= 40 else {})


def _event(events: Sequence[Event]) -> dict[str, Any]:
    """Several events of one name together: the slowest, and all requests; none if a client asked nothing during one of them."""
    seconds = [round(event.seconds, 1) for event in events]
    heard = [noticed(event.asked) for event in events]
    together: dict[str, Any] = {"seconds": max(seconds), "each_s": seconds}
    if all(heard):
        names = ("requests", "failed", "failed_at_once", "failed_retry")
        together |= {name: sum(one[name] for one in heard) for name in names}
        together["longest_s"] = max(one["longest_s"] for one in heard)
    errors = dict.fromkeys(text for event in events for one in event.asked if (text := one.later))
    return together | ({"errors": list(errors)[:5]} if errors else {})


def _by_name(events: Iterable[Event]) -> Mapping[str, list[Event]]:
    found: dict[str, list[Event]] = {}
    for event in events:
        found.setdefault(event.name, []).append(event)
    return found


def _longest(listed: Sequence[Asked]) -> float:
    """The longest time from the first of a row of failed requests until the next that did not fail, or the last that did."""
    longest, since = 0.0, None
    for one in listed:
        if one.error and since is None:
            since = one.at
        if since is not None:
            longest = max(longest, one.at - since)
        if not one.error:
            since = None
    return longest
