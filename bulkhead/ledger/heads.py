"""What is kept for those who wait, and who is the first to wait for what.

    waits for its tenant's own ceiling, a cohort's quota, or room ──> nobody waits for that yet ──> the first: it is kept for it
                                                                └──> somebody does ──> behind

What is kept is reserved in the books: nobody behind gets it, unless he is known to end before it is needed. Nothing is judged
here, and nothing said.
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
    """One way to charge a workload, and what is missing now: a lack of quota, or room."""

    choice: Choice
    charge: Charge
    lack: Lack | None


class Heads:
    """Of one turn."""

    def __init__(self, snapshot: Snapshot, books: Books) -> None:
        self._tenants, self._books = snapshot.tenants, books
        # What is kept, and until when at least: None where it may be needed at any moment.
        self._kept: list[tuple[Reservation, float | None]] = []
        # Which quota and which room somebody waits for who came first.
        self._quota: set[tuple[str, Line]] = set()
        self._own: set[tuple[str, Line]] = set()
        self._room: set[tuple[str, Line]] = set()
        self._led: set[tuple[str, str]] = set()
        # Lines for which a tenant has somebody waiting for whom they are not kept: who is behind him takes nothing back.
        self._stalled: set[tuple[str, Line]] = set()

    def keep(self, workload: Workload, option: Option, nodes: Sequence[str], until: float | None) -> Done:
        """Keep quota, and these nodes, for a workload."""
        done = Done(workload, option.charge, nodes, reserved=True, own=option.lack == "own")
        self._books.do(done)
        self._kept.append((Reservation(done, option.choice.of), until))
        return done

    def kept_for(self, workload: Workload) -> Done | None:
        """What is kept for a workload."""
        return next((kept.done for kept, _ in self._kept if kept.done.workload is workload), None)

    def reservations(self) -> list[Reservation]:
        """Everything that is reserved, in the order in which it was."""
        return [kept for kept, _ in self._kept]

    def not_needed_before(self, ends: float) -> list[Done]:
        """What is kept for those who cannot start any sooner."""
        return [kept.done for kept, until in self._kept if until is not None and ends <= until]

    def is_first(self, workload: Workload, option: Option, missing: Line | None) -> bool:
        """Whether nobody waits for this quota or room yet; from now on somebody does."""
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
        """Whether it is the first of its tenant that lacks this; from now on one is."""
        led = (workload.tenant, str(option.lack))
        if led in self._led:
            return False
        self._led.add(led)
        return True

    def is_behind(self, workload: Workload, charge: Charge) -> bool:
        """Whether somebody of the cohort waits for quota of these lines already."""
        return any(pool in self._quota for pool in self._pools(workload, charge))

    def stall(self, tenant: str, charge: Charge) -> None:
        """One of the tenant waits for these lines, and they are not kept for it."""
        self._stalled.update((tenant, line) for line in charge)

    def is_stalled(self, tenant: str, charge: Charge) -> bool:
        """Whether one does."""
        return any((tenant, line) in self._stalled for line in charge)

    def _pools(self, workload: Workload, charge: Charge) -> list[tuple[str, Line]]:
        tenant = self._tenants.get(workload.tenant)
        cohort = tenant.cohort if tenant is not None else ""
        return [(cohort or f"/{workload.tenant}", line) for line in charge]
