"""Metered usage as FOCUS 1.0, the FinOps Open Cost and Usage Specification: a row for each day and account. Pure.

What is billed is what was held: used and idle device-hours alike, since others could not use the devices. Borrowed, reserved,
measured and busy hours stand in columns of our own (`x_…`), and cost nothing. Without a price an account costs 0, and its unit
prices are empty. Two tenants that had a name one after the other have rows of their own, with the UID of each in `x_TenantUid`;
it is empty for what an older release counted.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final, TypeAlias

from bulkhead.metering.meter import HOUR, UsageKey
from bulkhead.metering.prices import Prices
from bulkhead.metering.usagebook import Sums

COLUMNS: Final = (
    "AvailabilityZone", "BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd",
    "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd",
    "ChargePeriodStart", "CommitmentDiscountCategory", "CommitmentDiscountId", "CommitmentDiscountName",
    "CommitmentDiscountStatus", "CommitmentDiscountType", "ConsumedQuantity", "ConsumedUnit", "ContractedCost",
    "ContractedUnitPrice", "EffectiveCost", "InvoiceIssuer", "ListCost", "ListUnitPrice", "PricingCategory", "PricingQuantity",
    "PricingUnit", "Provider", "Publisher", "RegionId", "RegionName", "ResourceId", "ResourceName", "ResourceType",
    "ServiceCategory", "ServiceName", "SkuId", "SkuPriceId", "SubAccountId", "SubAccountName", "Tags",
    "x_UsedHours", "x_IdleHours", "x_BorrowedHours", "x_ReservedHours", "x_MeasuredHours", "x_BusyHours", "x_TenantUid",
)  # fmt: skip
_DAY: Final = 24
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PLACES: Final = Decimal("0.000001")
_UNIT: Final = "Hours"
_ISSUER: Final = "Bulkhead"
# Hour, account, sums, and the UID of the tenant that had the name.
Billed: TypeAlias = tuple[int, UsageKey, Sums, str]


def rows(usage: Iterable[Billed], *, since: int, until: int, prices: Prices, account: str) -> Iterator[Mapping[str, str]]:
    """The rows of usage from `since` to `until` (milliseconds since 1970). `account` is the billing account's id."""
    found: dict[tuple[int, UsageKey, str], Sums] = {}
    for hour, key, sums, uid in usage:
        if hour >= since // HOUR:
            line = hour // _DAY, key, uid
            found[line] = found.get(line, Sums()).plus(sums)
    for (day, key, uid), sums in sorted(found.items()):
        begin, end = max(day * _DAY * HOUR, since), min((day + 1) * _DAY * HOUR, until)
        yield _row(key, sums, (begin, max(end, begin)), prices, account) | {"x_TenantUid": _plain(uid)}


def _row(key: UsageKey, sums: Sums, period: tuple[int, int], prices: Prices, account: str) -> dict[str, str]:
    held, price = _hours(sums.used + sums.idle), prices.of(key.resource, key.flavor)
    cost = _text((price or Decimal(0)) * held)
    unit = "" if price is None else _text(price)
    sku = f"{key.resource}:{key.flavor}" if key.flavor else key.resource
    start, end = (_EPOCH + timedelta(milliseconds=at) for at in period)
    month = start.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    row = dict.fromkeys(COLUMNS, "")
    row |= dict.fromkeys(("BilledCost", "ContractedCost", "EffectiveCost", "ListCost"), cost)
    row |= dict.fromkeys(("ContractedUnitPrice", "ListUnitPrice"), unit)
    row |= dict.fromkeys(("ConsumedQuantity", "PricingQuantity"), _text(held))
    row |= dict.fromkeys(("ConsumedUnit", "PricingUnit"), _UNIT)
    row |= dict.fromkeys(("BillingAccountId", "BillingAccountName"), account)
    row |= dict.fromkeys(("InvoiceIssuer", "Provider", "Publisher"), _ISSUER)
    return row | {
        "BillingCurrency": prices.currency,
        "BillingPeriodStart": _moment(month),
        "BillingPeriodEnd": _moment((month + timedelta(days=32)).replace(day=1)),
        "ChargeCategory": "Usage",
        "ChargeDescription": f"{sku} held by {key.tenant}",
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodStart": _moment(start),
        "ChargePeriodEnd": _moment(end),
        "PricingCategory": "Standard",
        "ResourceId": f"{key.tenant}/{key.namespace}/{key.owner}",
        "ResourceName": _plain(key.owner),
        "ResourceType": key.resource,
        "ServiceCategory": "Compute",
        "ServiceName": "Accelerators",
        "SkuId": sku,
        "SkuPriceId": sku,
        "SubAccountId": key.tenant,
        "SubAccountName": key.tenant,
        "Tags": json.dumps({"namespace": key.namespace, "owner": key.owner, "flavor": key.flavor}, sort_keys=True),
        **{f"x_{name.capitalize()}Hours": _text(_hours(amount)) for name, amount in sums._asdict().items()},
    }


def _hours(milliseconds: int) -> Decimal:
    return Decimal(milliseconds) / HOUR


def _text(value: Decimal) -> str:
    return f"{value.quantize(_PLACES):f}"


def _moment(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _plain(text: str) -> str:
    # A tenant names its objects, and a cell that begins like a formula would be one in a spreadsheet.
    return f"'{text}" if text[:1] in {"=", "+", "-", "@"} else text
