"""Computes what each tenant holds of each line, may still take, borrows and has lent. Every change can be undone.

    QuotaAccount(tenants) ── add what runs ──> room(tenant, line): how much more it may use
                          ── reserve for the next workload ──> all other tenants have less room, no share is larger
                          └─ mark, undo

The formulas are in docs/decisions/0040-ledger.md. This module knows amounts. It does not know pods, nodes, times or order.
Tenants may hold more than their quota, because quotas are lowered while pods run. Their room is 0 then.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from bulkhead.ledger.model import Amounts, Line, Share, Standing, Tenant

Charge: TypeAlias = Mapping[Line, int]
# Why a charge does not fit. "never": it exceeds the tenant's ceiling even if nothing runs. "own": the tenant itself holds too
# much. "cohort": other tenants of the cohort hold the quota.
Lack: TypeAlias = Literal["never", "own", "cohort"]
_UNBOUNDED: Final = 1 << 80


class Pool:
    """One line of one cohort."""

    __slots__ = ("borrowed", "capacity", "members", "nominal", "taken")

    def __init__(self) -> None:
        self.nominal = 0
        # The most that can be lent, and how much its members hold beyond what each keeps to itself (`guaranteed`).
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
        # Reserved for a workload that waits for its own tenant's quota: it reduces the room of this tenant only.
        self.own = 0
        self.pool = pool
        # The most that the tenant may ever hold; computed once all members of the pool are known.
        self.ceiling = 0

    def change(self, used: int, reserved: int, own: int) -> None:
        """Add these amounts; negative amounts are given back."""
        if used or reserved:
            before = self.used + self.reserved
            self.pool.taken += _crossing(before, before + used + reserved, self.guaranteed)
        if used:
            self.pool.borrowed += _crossing(self.used, self.used + used, self.nominal)
        self.used += used
        self.reserved += reserved
        self.own += own

    def room(self) -> int:
        """How much more the tenant may use now."""
        held = self.used + self.reserved
        own = self.ceiling - held - self.own
        return max(0, min(own, max(0, self.guaranteed - held) + max(0, self.pool.capacity - self.pool.taken)))


class QuotaAccount:
    """The quota of all cohorts. Tenants and lines that it does not know are not limited here."""

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
        """The part of these amounts that counts against quota, by line; `flavors` has the flavor of resources that have any."""
        entries = self._entries.get(tenant)
        if not entries:
            return {}
        # This runs for each pod. It loops over lines because there are fewer lines than amounts.
        return {line: amount for line in entries
                if (amount := asks.get(line[1], 0)) > 0 and flavors.get(line[1], "") == line[0]}  # fmt: skip

    def add(self, tenant: str, charge: Charge, times: int = 1) -> None:
        """Count a charge as held by the tenant; with `times` of -1, as no longer held."""
        entries = self._entries.get(tenant, {})
        for line, amount in charge.items():
            self._change(entries[line], amount * times, 0, 0)

    def reserve(self, tenant: str, charge: Charge, times: int = 1, *, own: bool = False) -> None:
        """Reserve a charge for a waiting workload; with `own`, only other workloads of the same tenant lose that room."""
        entries = self._entries.get(tenant, {})
        for line, amount in charge.items():
            self._change(entries[line], 0, 0 if own else amount * times, amount * times if own else 0)

    def mark(self) -> int:
        """The present state, for `undo`."""
        return len(self._log)

    def undo(self, mark: int) -> None:
        """Restore the state at the mark."""
        while len(self._log) > mark:
            entry, used, reserved, own = self._log.pop()
            entry.change(-used, -reserved, -own)

    def lacks(self, tenant: str, charge: Charge) -> Lack | None:
        """The most serious reason why a charge does not fit the tenant's room; None if it fits."""
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
        """Whether the tenant could hold this charge if no tenant held anything."""
        return all(amount <= self._entries[tenant][line].ceiling for line, amount in charge.items())

    def within_nominal(self, tenant: str, charge: Charge) -> bool:
        """Whether the tenant would stay within its nominal quota of all these lines."""
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
        """How much of this charge, which was added last, is beyond nominal."""
        entries = self._entries.get(tenant, {})
        over = {line: min(amount, entries[line].used - entries[line].nominal) for line, amount in charge.items()}
        return {line: amount for line, amount in over.items() if amount > 0}

    def share(self, tenant: str, charge: Charge | None = None, *, reserved: bool = True) -> float:
        """The part of its cohort's nominal quota that the tenant borrows, divided by its weight; the largest of all lines.

        Includes `charge` and, if `reserved`, what is reserved for the tenant.
        """
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
        """The other tenants of the cohort that borrow quota of these lines."""
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
        """How much the tenant holds beyond its ceiling, for the lines of which it does."""
        entries = self._entries.get(tenant, {})
        return {line: entry.used - entry.ceiling for line, entry in entries.items() if entry.used > entry.ceiling}

    def entry(self, tenant: str, line: Line) -> TenantLine:
        """One line of one tenant, to read."""
        return self._entries[tenant][line]

    def lines(self, tenant: str) -> Iterator[tuple[Line, TenantLine]]:
        """All lines of one tenant, to read."""
        return iter(self._entries.get(tenant, {}).items())

    def standings(self) -> dict[str, dict[Line, Standing]]:
        """Each tenant's standing in each line."""
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
    """By how much the part beyond a mark grows from `before` to `after`; negative if it shrinks."""
    if after > mark:
        return after - max(before, mark)
    return mark - before if before > mark else 0


def _lent(pool: Pool) -> dict[TenantLine, int]:
    """How much each tenant lends: in proportion to its idle quota that it may lend. Remainders go to the first tenants."""
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
