"""Reads what each tenant was given, from its ResourceQuota on the host, and the rules of its cohort.

    Tenant + class ──> controller ──> tenant-quota: hard (the ceilings), annotation GIVEN ──> tenant_of ──> model.Tenant
    Cohort ──> rules_of ──> model.Rules

Only the controller writes the annotation, together with the quota. So the ledger, the ceilings of other tenants and the command
line use what is applied, not what is requested: a tenant that is held, paused or refused keeps what it had, and a tenant that
is being removed lends nothing once its annotation is gone. A tenant whose annotation cannot be read neither lends nor borrows.
Pure.
"""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from bulkhead.api import durations, labels
from bulkhead.api.ledger import GIVEN, OVER_SINCE, line_name, line_named, read_object, read_over_since
from bulkhead.api.quantity import base_units, readable
from bulkhead.api.untrusted import mapping, mappings, sequence, text
from bulkhead.ledger.model import Flavor, Line, Rules, Share, Tenant

_COUNTED: Final = "requests."
_MOST_LINES: Final = 256
_LARGEST_WEIGHT: Final = 1000
_MOST_FLAVORS: Final = 64
_DEFAULT_MOVES: Final = 4
_MOST_MOVES: Final = 32


def write(tenant: Tenant) -> str:
    """The annotation that records what a tenant was given."""
    noted: dict[str, Any] = {
        "cohort": tenant.cohort,
        "weight": tenant.weight,
        "lines": {line_name(*line): _share(tenant.shares[line]) for line in sorted(tenant.shares, key=lambda line: line[::-1])},
    }
    if tenant.prefers:
        noted["prefers"] = {resource: list(flavors) for resource, flavors in sorted(tenant.prefers.items())}
    if tenant.devices:
        noted["devices"] = dict(sorted(tenant.devices.items()))
    return json.dumps(noted, separators=(",", ":"))


def tenant_of(quota: Mapping[str, Any]) -> Tenant | None:
    """The tenant of a ResourceQuota `tenant-quota`; None if it names none.

    A tenant without the annotation lends nothing. Its nominal quota is what the ResourceQuota enforces.
    """
    meta = mapping(quota.get("metadata"))
    annotations = mapping(meta.get("annotations"))
    name = text(mapping(meta.get("labels")).get(labels.TENANT))
    if not name:
        return None
    over = annotations.get(OVER_SINCE)
    noted = read_object(annotations.get(GIVEN))
    if not noted:
        counted = _counted(quota)
        return Tenant(name, shares=counted, over_since=read_over_since(over, counted))
    lines = list(mapping(noted.get("lines")).items())[:_MOST_LINES]
    shares = {line_named(line): _read_share(mapping(share)) for line, share in lines}
    weight = noted.get("weight")
    return Tenant(
        name,
        cohort=text(noted.get("cohort")),
        weight=weight if type(weight) is int and 1 <= weight <= _LARGEST_WEIGHT else 1,
        shares=shares,
        prefers={
            resource: tuple(flavor for flavor in sequence(flavors) if isinstance(flavor, str))
            for resource, flavors in mapping(noted.get("prefers")).items()
        },
        over_since=read_over_since(over, shares),
        devices={name: resource for name, resource in mapping(noted.get("devices")).items() if isinstance(resource, str)},
    )


def rules_of(cohort: Mapping[str, Any]) -> Rules:
    """The rules of a Cohort; fields that it leaves out have the defaults of `Rules`."""
    spec, usual = mapping(cohort.get("spec")), Rules()
    reclaim, over = mapping(spec.get("reclaim")), mapping(spec.get("overQuota"))
    return Rules(
        min_runtime=_duration(reclaim.get("minRuntime"), usual.min_runtime),
        reclaim_within=_duration(reclaim.get("within"), usual.reclaim_within),
        fair_preemption=spec.get("preemption") != "Nominal",
        over_quota="Reclaim" if over.get("policy") == "Reclaim" else "Keep",
        over_quota_grace=_duration(over.get("grace"), usual.over_quota_grace),
        bind_within=_duration(mapping(spec.get("gangs")).get("bindWithin"), usual.bind_within),
        max_moves=_moves(mapping(spec.get("consolidation"))),
        flavors=tuple(_flavor(flavor) for flavor in mappings(spec.get("flavors"), _MOST_FLAVORS)),
    )


def _moves(consolidation: Mapping[str, Any]) -> int:
    most = consolidation.get("maxMoves", _DEFAULT_MOVES)
    known = type(most) is int and 1 <= most <= _MOST_MOVES
    return most if consolidation.get("policy") == "WhenBroken" and known else 0


def _share(share: Share) -> dict[str, int | None]:
    noted: dict[str, int | None] = {"nominal": share.nominal, "borrowing": share.borrowing}
    return noted if share.lending is None else noted | {"lending": share.lending}


def _read_share(noted: Mapping[str, Any]) -> Share:
    nominal, borrowing, lending = (noted.get(field) for field in ("nominal", "borrowing", "lending"))
    return Share(
        nominal=_number(nominal),
        borrowing=None if "borrowing" in noted and borrowing is None else _number(borrowing),
        lending=None if "lending" not in noted else _number(lending),
    )


def _number(value: Any) -> int:
    return value if type(value) is int and value >= 0 else 0


def _counted(quota: Mapping[str, Any]) -> dict[Line, Share]:
    """The shares of devices that the host's ResourceQuota limits; without the annotation its ceilings count as nominal."""
    hard = mapping(mapping(quota.get("spec")).get("hard"))
    names = [name for name in hard if name.startswith(f"{_COUNTED}hugepages-") or (name.startswith(_COUNTED) and "/" in name)]
    resources = {name.removeprefix(_COUNTED): readable(hard[name]) or Decimal(0) for name in names[:_MOST_LINES]}
    return {("", resource): Share(base_units(resource, number, "down"), lending=0) for resource, number in resources.items()}


def _flavor(listed: Mapping[str, Any]) -> Flavor:
    node_labels = {key: value for key, value in mapping(listed.get("nodeLabels")).items() if isinstance(value, str)}
    return Flavor(text(listed.get("name")), text(listed.get("resource")), node_labels)


def _duration(value: Any, otherwise: float) -> float:
    found = durations.seconds(value)
    return otherwise if found is None else float(found)
