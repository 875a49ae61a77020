"""Keeps the reservations of one turn, and which workload is the first to wait for a quota or for room.

    waits for its tenant's own ceiling, a cohort's quota, or room ──> no other waits for it yet ──> first: it is reserved
                                                                └──> another one does ──> behind

Reservations are counted in the books, so later workloads cannot use them unless they are known to finish first. This module
judges no workload and writes no messages.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bulkhead.ledger.account import Charge, Lack
from bulkhead.ledger.books import Books, Done
from bulkhead.ledger.flavors import Choice
from bulkhead.ledger.model import Line, Snapshot
from bulkhead.ledger.order import Workload
from bulkhead.ledger.reserved import Reservation


@dataclass(frozen=True, slots=True)
class Option:
    """One way to charge a workload, and what is missing now: the lack of quota; None if only room is missing."""

    choice: Choice
    charge: Charge
    lack: Lack | None


class Heads:
    """The reservations of one turn."""

    def __init__(self, snapshot: Snapshot, books: Books) -> None:
        self._tenants, self._books = snapshot.tenants, books
        # Each reservation, and the time before which it is not needed; None if it may be needed at any moment.
        self._kept: list[tuple[Reservation, float | None]] = []
        # The quota and the room that a first workload waits for.
        self._quota: set[tuple[str, Line]] = set()
        self._own: set[tuple[str, Line]] = set()
        self._room: set[tuple[str, Line]] = set()
        self._led: set[tuple[str, str]] = set()
        # Lines that a tenant's workload waits for without a reservation: workloads behind it reclaim nothing.
        self._stalled: set[tuple[str, Line]] = set()

    def keep(self, workload: Workload, option: Option, nodes: Sequence[str], until: float | None) -> Done:
        """Reserve quota, and these nodes, for a workload."""
        done = Done(workload, option.charge, nodes, reserved=True, own=option.lack == "own")
        self._books.do(done)
        self._kept.append((Reservation(done, option.choice.of), until))
        return done

    def kept_for(self, workload: Workload) -> Done | None:
        """What is reserved for a workload; None for nothing."""
        return next((kept.done for kept, _ in self._kept if kept.done.workload is workload), None)

    def reservations(self) -> list[Reservation]:
        """All reservations, in the order in which they were made."""
        return [kept for kept, _ in self._kept]

    def not_needed_before(self, ends: float) -> list[Done]:
        """The reservations of workloads that cannot start before `ends`."""
        return [kept.done for kept, until in self._kept if until is not None and ends <= until]

    def is_first(self, workload: Workload, option: Option, missing: Line | None) -> bool:
        """Whether it is the first that waits for this quota or room; afterwards it counts as the first."""
        waits: set[tuple[str, Line]]
        if option.lack == "own" and missing is not None:
            waits, heads = {(workload.tenant, missing)}, self._own
        elif option.lack == "cohort":
            waits, heads = set(self._pools(workload, option.charge)), self._quota
        else:
            waits, heads = set(self._pools(workload, option.charge or {("", ""): 0})), self._room
        if waits & heads:
            return False
        heads |= waits
        return True

    def leads(self, workload: Workload, option: Option) -> bool:
        """Whether it is the first of its tenant with this lack; afterwards it counts as the first."""
        led = (workload.tenant, str(option.lack))
        if led in self._led:
            return False
        self._led.add(led)
        return True

    def is_behind(self, workload: Workload, charge: Charge) -> bool:
        """Whether a workload of the cohort waits for quota of these lines already."""
        return any(pool in self._quota for pool in self._pools(workload, charge))

    def stall(self, tenant: str, charge: Charge) -> None:
        """Note that a workload of the tenant waits for these lines without a reservation."""
        self._stalled.update((tenant, line) for line in charge)

    def is_stalled(self, tenant: str, charge: Charge) -> bool:
        """Whether a workload of the tenant waits for one of these lines without a reservation."""
        return any((tenant, line) in self._stalled for line in charge)

    def _pools(self, workload: Workload, charge: Charge) -> list[tuple[str, Line]]:
        tenant = self._tenants.get(workload.tenant)
        cohort = tenant.cohort if tenant is not None else ""
        return [(cohort or f"/{workload.tenant}", line) for line in charge]
