"""Whether the observer saw what a check judges: a history without sightings never proves that all is well. Pure.

The observer sees everything that it watches again and again. It lists pods every 5 s, parts of the platform and the leader
every second, both at least every 20 s if the lists are long, and probes APIs ten times a second. So 30 s without a sighting
mean that the observer was blind, unless the tenant was the target just then.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from e2e.chaos.history import History, LeaderSeen, PartSeen, PodSeen, Side, Use, hits, time_of

LONGEST_GAP = 30.0
LEAST_PROBES_A_SECOND = 1.0


def unseen_pods(history: History) -> Iterator[str]:
    """Tenants whose pods were not watched all the time, in their planes or on the host."""
    sides: tuple[tuple[Side, str], ...] = (("virtual", "pod in its plane"), ("host", "pod of it on the host"))
    for tenant in history.tenants:
        for side, what in sides:
            seen = [look.at for look in history.all(PodSeen) if (look.side, look.tenant) == (side, tenant)]
            yield from _gap(history, tenant, f"tenant {tenant}: no {what}", seen)


def unseen_parts(history: History, platform: str) -> Iterator[str]:
    """Tenants' planes, and the platform's own parts and leader, that were not watched all the time."""
    for tenant in (*history.tenants, ""):
        seen = [look.at for look in history.all(PartSeen) if look.tenant == tenant]
        yield from _gap(history, tenant or platform, f"{f'tenant {tenant}' if tenant else 'platform'}: no container", seen)
    led = [look.at for look in history.all(LeaderSeen) if look.holder]
    yield from _gap(history, platform, "platform: no leader", led)


def unused(history: History) -> Iterator[str]:
    """Tenants whose use of their quota was not counted all the time; and a host on which no GPU in use was seen at all."""
    uses = history.all(Use)
    for tenant in history.tenants:
        seen = [use.at for use in uses if (use.scope, use.name) == ("tenant", tenant)]
        yield from _gap(history, "", f"tenant {tenant}: no use of its quota", seen)
    for scope, what in (("node", "no node's GPUs in use"), ("device", "no pod with a device")):
        if not any(use.scope == scope and use.used for use in uses):
            yield f"platform: {what} was observed"


def _gap(history: History, owner: str, what: str, seen: Sequence[float]) -> Iterator[str]:
    """The first time that was too long without a sighting; a target may be away until 30 s after its experiment."""
    if not seen:
        yield f"{what} was observed"
        return
    first = min((span.begin for span in history.spans), default=time_of(history.records[0]))
    moments = [first, *(at for at in seen if at > first), history.end]
    for begin, end in pairwise(moments):
        if end - begin <= LONGEST_GAP:
            continue
        away = any(hits(item, owner) and time_of(item) < end and begin < item.end + LONGEST_GAP for item in history.disturbed)
        if not away:
            yield f"{what} was observed from {begin:.1f} to {end:.1f}"
            return
