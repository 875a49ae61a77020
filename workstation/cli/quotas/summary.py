"""What each tenant of a cohort has of each line, and how much of it waits. Pure; for `top`, `cohort` and `why`."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from bulkhead.api.ledger import line_name
from bulkhead.api.quantity import unit_of, written
from bulkhead.ledger.books import Books
from bulkhead.ledger.model import GATED, Claim, Line, Pod, Snapshot, Standing


@dataclass(frozen=True, slots=True)
class Row:
    """One tenant's numbers for one line."""

    tenant: str
    line: Line
    standing: Standing
    # What its pods request that wait on the host.
    waiting: int
    # The part of `used` that claims for devices hold, counted as soon as the claims exist.
    claims: int


@dataclass(frozen=True, slots=True)
class Members:
    """One cohort; with an empty name, the tenants without a cohort."""

    name: str
    tenants: tuple[str, ...]
    rows: tuple[Row, ...]

    def lines(self) -> list[Line]:
        """Its lines, devices first."""
        return sorted({row.line for row in self.rows}, key=lambda line: ("/" not in line[1], line[1], line[0]))

    def total(self, line: Line) -> Row:
        """All tenants together."""
        rows = [row for row in self.rows if row.line == line]
        sums = {field: sum(getattr(row.standing, field) for row in rows) for field in Standing.__slots__}
        return Row("", line, Standing(**sums), sum(row.waiting for row in rows), sum(row.claims for row in rows))


def cohorts(snapshot: Snapshot) -> list[Members]:
    """Every cohort with its tenants' lines; tenants without a cohort come last."""
    books = Books(snapshot)
    standings = books.now.account.standings()
    waiting, claims = _charged(waiting_pods(snapshot.pods), books), claimed(snapshot, books)
    found = []
    for name in sorted({tenant.cohort for tenant in snapshot.tenants.values()}, key=lambda name: (not name, name)):
        tenants = tuple(sorted(tenant.name for tenant in snapshot.tenants.values() if tenant.cohort == name))
        rows = tuple(
            Row(tenant, line, standing, waiting[tenant, line], claims[tenant, line])
            for tenant in tenants
            for line, standing in sorted(standings.get(tenant, {}).items(), key=lambda item: (item[0][1], item[0][0]))
        )
        found.append(Members(name, tenants, rows))
    return found


def claimed(snapshot: Snapshot, books: Books) -> Counter[tuple[str, Line]]:
    """What claims for devices hold of each line of each tenant."""
    return _charged(snapshot.claims, books)


def _charged(asking: Iterable[Pod | Claim], books: Books) -> Counter[tuple[str, Line]]:
    """What pods or claims count in each line of each tenant, with the flavors that the tenant prefers."""
    found: Counter[tuple[str, Line]] = Counter()
    for each in asking:
        charge = books.now.account.charge(each.tenant, each.asks, books.flavors.best(each.tenant, each.asks))
        found.update({(each.tenant, line): number for line, number in charge.items()})
    return found


def waiting_pods(pods: Iterable[Pod]) -> list[Pod]:
    """Pods of tenants that wait for the ledger."""
    return [pod for pod in pods if pod.tenant and pod.stage in GATED and not pod.ending]


def is_device(line: Line) -> bool:
    """Whether a line is about devices, and not about resources that every pod requests."""
    return "/" in line[1]


def number(line: Line, count: int) -> str:
    """An amount of a line, written for people."""
    return written(line[1], count)


def as_json(row: Row) -> dict[str, Any]:
    """A row in base units: millicores of cpu, bytes, devices. Sums have no borrowable amount, because it does not add up."""
    flavor, resource = row.line
    row_json = {"resource": resource, "flavor": flavor, "name": line_name(*row.line), "unit": unit_of(resource)}
    row_json |= asdict(row.standing)
    if not row.tenant:
        del row_json["ceiling"], row_json["borrowable"]
    return row_json | {"waiting": row.waiting, "claims": row.claims}
