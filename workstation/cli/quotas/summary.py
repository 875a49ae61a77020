"""What each tenant of a cohort has of each line, and how much of it waits. Pure; for `top`, `cohort`, `why` and the console."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from bulkhead.api.ledger import line_name, read_standing
from bulkhead.api.objects import Obj
from bulkhead.api.quantity import base_units, readable, unit_of, written
from bulkhead.api.untrusted import mapping
from bulkhead.ledger.books import Books
from bulkhead.ledger.model import GATED, Claim, Line, Pod, Snapshot, Standing, Tenant


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
    return _members(snapshot.tenants, standings, waiting, claims)


def noted_cohorts(tenants: Mapping[str, Tenant], noted: Mapping[str, Mapping[Line, Standing]]) -> list[Members]:
    """The same from what the ledger noted on the quotas, before nodes and pods are known. What waits is not in it."""
    return _members(tenants, noted, Counter(), Counter())


def noted_standings(quota: Obj, tenant: Tenant) -> dict[Line, Standing]:
    """The ledger's numbers on a tenant's quota; where it noted none, what the host's API server counts there."""
    meta, status = mapping(quota.get("metadata")), mapping(quota.get("status"))
    found = {line: Standing(**counts) for line, counts in read_standing(mapping(meta.get("annotations"))).items()}
    used = mapping(status.get("used"))
    for (flavor, resource), share in tenant.shares.items():
        if (flavor, resource) not in found:
            # The API server counts a resource, and no flavors.
            held = base_units(resource, readable(used.get(f"requests.{resource}")) or Decimal(0), "up") if not flavor else 0
            over = max(0, held - share.nominal)
            found[flavor, resource] = Standing(share.nominal, max(share.nominal, held), held, over, 0, 0)
    return found


def _members(
    known: Mapping[str, Tenant],
    standings: Mapping[str, Mapping[Line, Standing]],
    waiting: Counter[tuple[str, Line]],
    claims: Counter[tuple[str, Line]],
) -> list[Members]:
    found = []
    for name in sorted({tenant.cohort for tenant in known.values()}, key=lambda name: (not name, name)):
        tenants = tuple(sorted(tenant.name for tenant in known.values() if tenant.cohort == name))
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
