"""Whether the observer saw what a check judges: a history without sightings never proves that all is well. Pure.

The observer sees everything that it watches again and again. It lists pods every 5 s, parts of the platform and the leader
every second, and probes APIs ten times a second. So 30 s without a sighting mean that the observer was blind, unless the tenant
was the target just then.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from e2e.chaos.history import History, LeaderSeen, PartSeen, PodSeen, Side, time_of

LONGEST_GAP = 30.0
LEAST_PROBES_A_SECOND = 1.0


def unseen_pods(history: History) -> Iterator[str]:
    """Tenants whose pods were not watched all the time, in their planes or on the host."""
    sides: tuple[tuple[Side, str], ...] = (("virtual", "pod in its plane"), ("host", "pod of it on the host"))
    for tenant in history.tenants:
        for side, what in sides:
            seen = [at.at for at in history.records if isinstance(at, PodSeen) and (at.side, at.tenant) == (side, tenant)]
            yield from _gap(history, tenant, f"tenant {tenant}: no {what}", seen)


def unseen_parts(history: History, platform: str) -> Iterator[str]:
    """Tenants' planes, and the platform's own parts and leader, that were not watched all the time."""
    for tenant in (*history.tenants, ""):
        seen = [at.at for at in history.records if isinstance(at, PartSeen) and at.tenant == tenant]
        yield from _gap(history, tenant or platform, f"{f'tenant {tenant}' if tenant else 'platform'}: no container", seen)
    led = [at.at for at in history.records if isinstance(at, LeaderSeen) and at.holder]
    yield from _gap(history, platform, "platform: no leader", led)


def _gap(history: History, owner: str, what: str, seen: Sequence[float]) -> Iterator[str]:
    """The first time that was too long without a sighting; a target may be away until 30 s after its experiment."""
    if not seen:
        yield f"{what} was observed"
        return
    spans = history.spans
    first = min((span.begin for span in spans), default=time_of(history.records[0]))
    moments = [first, *(at for at in seen if at > first), history.end]
    for begin, end in pairwise(moments):
        away = any(span.target == owner and span.begin < end and begin < span.end + LONGEST_GAP for span in spans)
        if end - begin > LONGEST_GAP and not away:
            yield f"{what} was observed from {begin:.1f} to {end:.1f}"
            return
