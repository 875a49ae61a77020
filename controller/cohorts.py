"""What a tenant lends to its cohort and borrows from it, and which of its pods wait at the ledger's gate. Pure.

    Tenant + class ──> given ──> note on its ResourceQuota ──> others' `ceilings`
                         └─────> gated: facts of the host's policies, settings of its syncer

Devices that a class counts are lent and borrowed without limit, unless the Tenant or the class sets one. CPU, memory and
storage of nodes are lent and borrowed only if the Tenant or the class sets an amount: every pod requests them, so all pods of
the cohort would wait at the gate. The sums are computed from annotations on the ResourceQuotas of all tenants
(`bulkhead.ledger.given`); other Tenant objects are never read.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from bulkhead.api.podresources import AMOUNTS
from bulkhead.api.quantity import Amount, base_units, canonical, of_base_units, readable
from bulkhead.api.untrusted import mapping, mappings
from bulkhead.ledger.model import Line, Share, Tenant
from controller import allotment
from controller.sections import section_of, text_or_none

# What a pod requests in addition to devices and huge pages.
_OF_EVERY_POD: Final = frozenset(AMOUNTS) - {"requests.storage"}


def gangs(bounds: Mapping[str, Any]) -> bool:
    """Whether the pods of a gang wait for each other."""
    return section_of(bounds, "scheduling").get("gangs") is True


def gated_resources(spec: Mapping[str, Any], bounds: Mapping[str, Any]) -> tuple[str, ...]:
    """The resources whose pods wait at the gate: those that the class of a cohort's tenant counts, and those it trades."""
    if not cohort_of(spec):
        return ()
    asked, offered = allotment.resources_of(spec), allotment.resources_of(bounds)
    traded = (
        name
        for name in sorted(_OF_EVERY_POD & allotment.limits(spec, bounds).keys())
        if any(readable(section_of(asked, name).get(field)) for field in ("borrowingLimit", "lendingLimit"))
        or readable(section_of(offered, name).get("maxBorrowing"))
    )
    return (*allotment.counted_resources(bounds), *traded)


def cohort_of(spec: Mapping[str, Any]) -> str:
    """The cohort of a Tenant; empty if it has none."""
    return text_or_none(section_of(spec, "quota"), "cohort") or ""


def given(
    name: str, spec: Mapping[str, Any], bounds: Mapping[str, Any], limits: Mapping[str, Amount] | None = None
) -> Tenant | None:
    """The ledger's record of a tenant's quota; None for a tenant that has neither a cohort nor gangs."""
    cohort = cohort_of(spec)
    if not cohort and not gangs(bounds):
        return None
    nominal = allotment.limits(spec, bounds) if limits is None else limits
    resources = gated_resources(spec, bounds) if cohort else allotment.counted_resources(bounds)
    asked = allotment.resources_of(spec)
    return Tenant(
        name,
        cohort=cohort,
        weight=int(section_of(spec, "quota").get("weight") or 1),
        shares={
            line: share
            for resource in resources
            for line, share in _shares(resource, section_of(asked, resource), nominal, bounds, lends=bool(cohort))
        },
        prefers={
            resource: tuple(str(flavor.get("name")) for flavor in flavors)
            for resource in resources
            if (flavors := mappings(section_of(asked, resource).get("flavors"))) and cohort
        },
        devices={
            name: against
            for name, against in allotment.device_classes(bounds).items()
            if isinstance(against, str) and against in resources
        },
    )


def ceilings(
    tenant: Tenant, others: Iterable[Tenant], bounds: Mapping[str, Any], limits: Mapping[str, Amount]
) -> dict[str, Amount]:
    """The ceiling of each resource of which the tenant may hold more than its nominal quota.

    A ceiling is the tenant's limit plus what it may borrow. `others` are the records of all tenants; other cohorts do not
    count.
    """
    if not tenant.cohort:
        return {}
    mates = [other for other in others if other.cohort == tenant.cohort and other.name != tenant.name]
    found: dict[str, Amount] = {}
    for resource in dict.fromkeys(resource for _, resource in tenant.shares):
        more = sum(_borrowable(line, share, mates) for line, share in tenant.shares.items() if line[1] == resource)
        most = _most_borrowing(resource, bounds)
        nominal = limits.get(resource, Amount.of(0))
        if more := more if most is None else min(more, most):
            found[resource] = Amount(nominal.number + of_base_units(resource, more), nominal.notation)
    return found


@dataclass(frozen=True, slots=True)
class Overdrawn:
    """A borrowing limit beyond the class: its field, its value, the class's bound, and the flavors cut down to the bound."""

    resource: str
    field: str
    asked: str
    most: str
    instead: Any


def overdrawn(spec: Mapping[str, Any], bounds: Mapping[str, Any]) -> Iterator[Overdrawn]:
    """The borrowing limits of a Tenant that exceed its class, summed over all flavors of a resource."""
    for resource, asked in sorted(allotment.resources_of(spec).items()):
        most = readable(section_of(allotment.resources_of(bounds), resource).get("maxBorrowing"))
        if most is None:
            continue
        flavors = mappings(mapping(asked).get("flavors"))
        together = sum((readable(flavor.get("borrowingLimit")) or Decimal(0) for flavor in flavors), Decimal(0))
        limit = readable(mapping(asked).get("borrowingLimit"))
        if limit is not None and limit > most:
            yield Overdrawn(resource, "borrowingLimit", canonical(limit), canonical(most), canonical(most))
        if together > most:
            yield Overdrawn(resource, "flavors", canonical(together), canonical(most), _narrowed(flavors, most))


def _narrowed(flavors: list[Mapping[str, Any]], most: Decimal) -> list[Mapping[str, Any]]:
    """The flavors with their borrowing limits cut so that the sum is at most `most`; the first flavors keep theirs."""
    found, left = [], most
    for flavor in flavors:
        limit = readable(flavor.get("borrowingLimit"))
        found.append(flavor if limit is None else {**flavor, "borrowingLimit": canonical(min(limit, left))})
        left -= min(limit or Decimal(0), left)
    return found


def _borrowable(line: Line, share: Share, mates: Iterable[Tenant]) -> int:
    lent = sum(_lendable(mate.shares[line]) for mate in mates if line in mate.shares)
    return lent if share.borrowing is None else min(lent, share.borrowing)


def _lendable(share: Share) -> int:
    return share.nominal if share.lending is None else min(share.nominal, share.lending)


def _shares(
    resource: str, asked: Mapping[str, Any], nominal: Mapping[str, Amount], bounds: Mapping[str, Any], *, lends: bool
) -> Iterator[tuple[Line, Share]]:
    if not lends:
        yield ("", resource), Share(_units(resource, nominal.get(resource)), borrowing=0, lending=0)
        return
    flavors = mappings(asked.get("flavors"))
    most = _most_borrowing(resource, bounds)
    for flavor in flavors:
        yield (str(flavor.get("name")), resource), _share(resource, flavor, _units_in(resource, flavor, "nominal") or 0, most)
    if not flavors:
        yield ("", resource), _share(resource, asked, _units(resource, nominal.get(resource)), most)


def _share(resource: str, asked: Mapping[str, Any], nominal: int, most: int | None) -> Share:
    usual = 0 if resource in _OF_EVERY_POD else None
    borrowing, lending = (_units_in(resource, asked, field) for field in ("borrowingLimit", "lendingLimit"))
    # If the Tenant sets no limit, the class's value applies.
    borrowing = (most if most is not None else usual) if borrowing is None else borrowing
    if most is not None and borrowing is not None:
        borrowing = min(borrowing, most)
    return Share(nominal, borrowing, usual if lending is None else min(lending, nominal))


def _most_borrowing(resource: str, bounds: Mapping[str, Any]) -> int | None:
    return _units_in(resource, section_of(allotment.resources_of(bounds), resource), "maxBorrowing")


def _units_in(resource: str, section: Mapping[str, Any], field: str) -> int | None:
    number = readable(mapping(section).get(field))
    return None if number is None else base_units(resource, number, "down")


def _units(resource: str, amount: Amount | None) -> int:
    return 0 if amount is None else base_units(resource, amount.number, "down")
