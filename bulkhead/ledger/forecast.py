"""Forecasts when a waiting workload can start, if that can be known, and chooses the nodes that it waits for.

    pods that hold something ──> those that end by a known time, in that order ──> the first moment when quota and room suffice

Known ends are those of activeDeadlineSeconds and the deadlines of reclaims, unless a deadline has passed without effect. All
other ends are unknown. If the start depends on those, there is no forecast, but a workload that waits for room still has nodes
reserved: those with the least in use. Otherwise small workloads would take whatever becomes free, forever.

It works on `Books.later` and leaves it unchanged. It tries a number of placements that is logarithmic in the number of pods.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bulkhead.ledger.account import Charge
from bulkhead.ledger.books import Books, Held, is_of_the_host
from bulkhead.ledger.flavors import Choice
from bulkhead.ledger.model import Node
from bulkhead.ledger.order import Workload


@dataclass(frozen=True, slots=True)
class Start:
    """When and where a workload can start."""

    at: float
    nodes: tuple[str, ...]


def by_known_ends(books: Books, workload: Workload, choice: Choice, charge: Charge) -> Start | None:
    """The first moment at which it fits if only pods with a known end end; None if there is none."""
    sure = ((uid, held.pod) for uid, held in books.held.items() if not books.is_coming(held.pod))
    known = ((pod.ends_by, uid) for uid, pod in sure if not books.is_overdue(pod))
    ends = sorted((at, uid) for at, uid in known if at is not None)
    side = books.later
    start, low = side.mark(), 0
    found: tuple[str, ...] | None = None
    # Doubling steps find a moment at which it fits; bisecting the last step finds the first one.
    step, high = 1, 0
    while high < len(ends) and found is None:
        before = side.mark()
        low, high = high, min(len(ends), high + step)
        for _, uid in ends[low:high]:
            side.free(books.held[uid])
        found = _fit(books, workload, choice, charge)
        step *= 2
        if found is not None:
            side.undo(before)
    while found is not None and high - low > 1:
        middle, before = (low + high) // 2, side.mark()
        for _, uid in ends[low:middle]:
            side.free(books.held[uid])
        fits = _fit(books, workload, choice, charge)
        if fits is None:
            low = middle
        else:
            side.undo(before)
            high, found = middle, fits
    side.undo(start)
    return None if found is None else Start(ends[high - 1][0], found)


def nodes_to_wait_for(books: Books, workload: Workload, choice: Choice, nodes: Mapping[str, Node]) -> tuple[str, ...]:
    """The nodes on which it starts at an unknown time: those (or a domain) where the fewest devices must become free."""
    side = books.later
    units = _units(books, workload, nodes)
    start = side.mark()
    found: tuple[str, ...] | None = None
    step, at = 1, 0
    while at < len(units) and found is None:
        for unit in units[at : at + step]:
            for held in unit:
                side.free(held)
        at, step = at + step, step * 2
        found = side.place(workload, choice)
    side.undo(start)
    return found or ()


def _fit(books: Books, workload: Workload, choice: Choice, charge: Charge) -> tuple[str, ...] | None:
    if books.later.account.lacks(workload.tenant, charge) is not None:
        return None
    return books.later.place(workload, choice)


def _units(books: Books, workload: Workload, nodes: Mapping[str, Node]) -> Sequence[Sequence[Held]]:
    """The pods that hold something, by node or domain: first the nodes or domains with the fewest devices in use."""
    topology = workload.topology if workload.topology is not None and workload.topology.required else None
    units: dict[str, list[Held]] = {}
    for _, held in sorted(books.held.items()):
        node = nodes.get(held.node)
        if node is None or books.is_coming(held.pod) or is_of_the_host(held.pod):
            continue
        unit = node.name if topology is None else node.labels.get(topology.key)
        if unit is not None:
            units.setdefault(unit, []).append(held)
    devices = [name for name in workload.asks if "/" in name] or list(workload.asks)

    def load(unit: str) -> tuple[int, str]:
        return sum(held.pod.asks.get(name, 0) for held in units[unit] for name in devices), unit

    return [units[unit] for unit in sorted(units, key=load)]
