"""Computes what each tenant holds of each line, may still take, borrows and has lent. Every change can be undone.

    QuotaAccount(tenants) ── add what runs ──> room(tenant, line): what it may take more
                          ── reserve for the next workload ──> all other tenants have less room, no share is larger
                          └─ mark, undo

The formulas stand in docs/decisions/0040-ledger.md. This module knows amounts, and no pods, nodes, times
or order. Tenants may hold more than there is quota for, because quotas are lowered while pods run. Their room is 0 then.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from bulkhead.ledger.model import Amounts, Line, Share, Standing, Tenant

Charge: TypeAlias = Mapping[Line, int]
# What a charge fails on: its tenant's own ceiling even if nothing ran, what its tenant holds, what others of the cohort hold.
Lack: TypeAlias = Literal["never", "own", "cohort"]
_UNBOUNDED: Final = 1 << 80


class Pool:
    """One line of one cohort."""

    __slots__ = ("borrowed", "capacity", "members", "nominal", "taken")

    def __init__(self) -> None:
        self.nominal = 0
        # What can be lent at most, and how much more than they keep to themselves its members hold.
        self.capacity = 0
        self.taken = 0
        self.borrowed = 0
        self.members: list[TenantLine] = []


class TenantLine:
    """One line of one tenant."""

    __slots__ = ("borrowing", "ceiling", "guaranteed", "nominal", "own", "pool", "reserved", "tenant", "used")

    def __init__(self, tenant: str, share: Share, pool: Pool) -> None:
        self.tenant = tenant
        self.nominal = max(0, share.nominal)
        lending = self.nominal if share.lending is None else max(0, share.lending)
        self.guaranteed = self.nominal - min(self.nominal, lending)
        self.borrowing = _UNBOUNDED if share.borrowing is None else max(0, share.borrowing)
        self.used = 0
        self.reserved = 0
        # Reserved for a workload that waits for its own tenant: it narrows this tenant's room and no other's.
        self.own = 0
        self.pool = pool
        # The most that the tenant may ever hold; known once all members of the pool are.
        self.ceiling = 0

    def change(self, used: int, reserved: int, own: int) -> None:
        """Count what is taken (or given back, where it is negative)."""
        if used or reserved:
            before = self.used + self.reserved
            self.pool.taken += _crossing(before, before + used + reserved, self.guaranteed)
        if used:
            self.pool.borrowed += _crossing(self.used, self.used + used, self.nominal)
        self.used += used
        self.reserved += reserved
        self.own += own

    def room(self) -> int:
        """What the tenant may take more now."""
        held = self.used + self.reserved
        own = self.ceiling - held - self.own
        return max(0, min(own, max(0, self.guaranteed - held) + max(0, self.pool.capacity - self.pool.taken)))


class QuotaAccount:
    """All cohorts. Tenants and lines that it does not know are not limited here."""

    def __init__(self, tenants: Mapping[str, Tenant]) -> None:
        self._entries: dict[str, dict[Line, TenantLine]] = {}
        self._weights = {name: max(1, tenant.weight) for name, tenant in tenants.items()}
        self._log: list[tuple[TenantLine, int, int, int]] = []
        pools: dict[tuple[str, str], dict[Line, Pool]] = {}
        for name, tenant in sorted(tenants.items()):
            mine = pools.setdefault((tenant.cohort, "" if tenant.cohort else name), {})
            entries = self._entries[name] = {}
            for line, share in sorted(tenant.shares.items()):
                pool = mine.setdefault(line, Pool())
                entry = entries[line] = TenantLine(name, share, pool)
                pool.nominal += entry.nominal
                pool.capacity += entry.nominal - entry.guaranteed
                pool.members.append(entry)
        for entry in (entry for entries in self._entries.values() for entry in entries.values()):
            others = entry.pool.capacity - (entry.nominal - entry.guaranteed)
            entry.ceiling = entry.nominal + min(entry.borrowing, others)

    def charge(self, tenant: str, asks: Amounts, flavors: Mapping[str, str]) -> dict[Line, int]:
        """What of these amounts counts, by line; `flavors` by resource, for those that have flavors."""
        entries = self._entries.get(tenant)
        if not entries:
            return {}
        # By lines, of which there are fewer than amounts: this runs for each pod.
        return {line: amount for line in entries
                if (amount := asks.get(line[1], 0)) > 0 and flavors.get(line[1], "") == line[0]}  # fmt: skip

    def add(self, tenant: str, charge: Charge, times: int = 1) -> None:
        """The tenant holds that, from now on; with `times` of -1 no more."""
        entries = self._entries.get(tenant, {})
        for line, amount in charge.items():
            self._change(entries[line], amount * times, 0, 0)

    def reserve(self, tenant: str, charge: Charge, times: int = 1, *, own: bool = False) -> None:
        """Keep that for what the tenant has waiting; with `own` from its own other workloads alone."""
        entries = self._entries.get(tenant, {})
        for line, amount in charge.items():
            self._change(entries[line], 0, 0 if own else amount * times, amount * times if own else 0)

    def mark(self) -> int:
        """The state as it is, for `undo`."""
        return len(self._log)

    def undo(self, mark: int) -> None:
        """Everything is again as it was at the mark."""
        while len(self._log) > mark:
            entry, used, reserved, own = self._log.pop()
            entry.change(-used, -reserved, -own)

    def lacks(self, tenant: str, charge: Charge) -> Lack | None:
        """What the tenant's room is too small for first of all; None where it fits."""
        worst: Lack | None = None
        for line, amount in charge.items():
            entry = self._entries[tenant][line]
            if amount <= entry.room():
                continue
            ceiling = entry.ceiling
            if amount > ceiling:
                return "never"
            if entry.used + entry.reserved + entry.own + amount > ceiling:
                worst = "own"
            elif worst is None:
                worst = "cohort"
        return worst

    def could_ever(self, tenant: str, charge: Charge) -> bool:
        """Whether the tenant could hold that if no tenant held anything."""
        return all(amount <= self._entries[tenant][line].ceiling for line, amount in charge.items())

    def within_nominal(self, tenant: str, charge: Charge) -> bool:
        """Whether the tenant would borrow of none of these lines."""
        entries = self._entries.get(tenant, {})
        return all(
            entries[line].used + entries[line].reserved + amount <= entries[line].nominal for line, amount in charge.items()
        )

    def beyond(self, tenant: str, charge: Charge) -> dict[Line, int]:
        """How much more than nominal the tenant would hold of these lines with one more charge."""
        entries = self._entries.get(tenant, {})
        over = {line: entries[line].used + amount - entries[line].nominal for line, amount in charge.items()}
        return {line: amount for line, amount in over.items() if amount > 0}

    def borrowed(self, tenant: str, charge: Charge) -> dict[Line, int]:
        """How much of this charge, added last, lies beyond nominal."""
        entries = self._entries.get(tenant, {})
        over = {line: min(amount, entries[line].used - entries[line].nominal) for line, amount in charge.items()}
        return {line: amount for line, amount in over.items() if amount > 0}

    def share(self, tenant: str, charge: Charge | None = None, *, reserved: bool = True) -> float:
        """What the tenant borrows of its cohort, by weight: with what is reserved for it, and with one more charge."""
        most = 0.0
        more = charge or {}
        for line, entry in self._entries.get(tenant, {}).items():
            over = entry.used + (entry.reserved if reserved else 0) + more.get(line, 0) - entry.nominal
            if over > 0:
                # One division, so that equal fractions are equal numbers.
                total = entry.pool.nominal * self._weights[tenant]
                most = max(most, over / total if total else float("inf"))
        return most

    def borrowers(self, tenant: str, lines: Iterable[Line]) -> set[str]:
        """Who else borrows of these lines of the tenant's cohort."""
        pools = (self._entries[tenant][line].pool for line in lines)
        return {member.tenant for pool in pools if pool.borrowed > 0 for member in pool.members
                if member.used > member.nominal and member.tenant != tenant}  # fmt: skip

    def borrows(self, tenant: str, line: Line) -> bool:
        """Whether the tenant holds more than nominal of a line."""
        entry = self._entries.get(tenant, {}).get(line)
        return entry is not None and entry.used > entry.nominal

    def is_below_nominal(self, tenant: str, lines: Iterable[Line]) -> bool:
        """Whether the tenant holds less than nominal of one of these lines."""
        return any(self._entries[tenant][line].used < self._entries[tenant][line].nominal for line in lines)

    def over(self, tenant: str) -> dict[Line, int]:
        """Of which lines the tenant holds more than it may ever hold, and how much more."""
        entries = self._entries.get(tenant, {})
        return {line: entry.used - entry.ceiling for line, entry in entries.items() if entry.used > entry.ceiling}

    def entry(self, tenant: str, line: Line) -> TenantLine:
        """One line of one tenant, to read."""
        return self._entries[tenant][line]

    def lines(self, tenant: str) -> Iterator[tuple[Line, TenantLine]]:
        """All lines of one tenant, to read."""
        return iter(self._entries.get(tenant, {}).items())

    def standings(self) -> dict[str, dict[Line, Standing]]:
        """What each tenant has of each line."""
        lent = self._lent()
        return {tenant: {line: _standing(entry, lent.get(entry, 0)) for line, entry in entries.items()}
                for tenant, entries in self._entries.items()}  # fmt: skip

    def _lent(self) -> dict[TenantLine, int]:
        pools = {id(entry.pool): entry.pool for entries in self._entries.values() for entry in entries.values()}
        return {entry: amount for pool in pools.values() for entry, amount in _lent(pool).items()}

    def _change(self, entry: TenantLine, used: int, reserved: int, own: int) -> None:
        entry.change(used, reserved, own)
        self._log.append((entry, used, reserved, own))


def _crossing(before: int, after: int, mark: int) -> int:
    """How much more lies beyond a mark than before."""
    if after > mark:
        return after - max(before, mark)
    return mark - before if before > mark else 0


def _lent(pool: Pool) -> dict[TenantLine, int]:
    """Who has lent what others borrow: in proportion to what each could lend and does not use; the rest goes to the first."""
    idle = [(entry, min(entry.nominal - entry.guaranteed, entry.nominal - entry.used)) for entry in pool.members]
    idle = [(entry, amount) for entry, amount in idle if amount > 0]
    total = sum(amount for _, amount in idle)
    lent = min(pool.borrowed, total)
    if not lent:
        return {}
    parts = {entry: lent * amount // total for entry, amount in idle}
    rest = lent - sum(parts.values())
    for entry, amount in idle:
        more = min(rest, amount - parts[entry])
        parts[entry] += more
        rest -= more
    return parts


def _standing(entry: TenantLine, lent: int) -> Standing:
    mine = max(0, entry.nominal - entry.used)
    free = max(0, entry.guaranteed - entry.used) + max(0, entry.pool.capacity - entry.pool.taken)
    return Standing(
        nominal=entry.nominal,
        ceiling=entry.ceiling,
        used=entry.used,
        borrowed=max(0, entry.used - entry.nominal),
        lent=lent,
        borrowable=max(0, min(entry.ceiling - max(entry.used, entry.nominal), free - mine)),
    )
