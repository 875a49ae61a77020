"""Prices of devices by resource and flavor, as an admin writes them into ConfigMap `bulkhead-prices`. Pure.

    data:
      currency: EUR
      prices: |
        - {resource: nvidia.com/gpu, flavor: h100, perHour: "2.50"}
        - {resource: nvidia.com/gpu, perHour: "1.80"}          # of every other flavor

A price is for a device and an hour. Each entry of the list is checked, and one that does not fit makes the whole list unusable:
a bill with half of its prices would look like a bill.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import yaml

from bulkhead.api.untrusted import mapping, text

CONFIG_MAP: Final = "bulkhead-prices"
MAX_BYTES: Final = 64 * 1024
MAX_PRICES: Final = 256
MAX_PER_HOUR: Final = Decimal(1_000_000)
_MAX_DECIMALS: Final = 6
_FIELDS: Final = frozenset({"resource", "flavor", "perHour"})
_CURRENCY: Final = re.compile(r"[A-Z]{3}")
_NUMBER: Final = re.compile(r"[0-9]{1,7}(\.[0-9]{1,6})?")
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9._/]{0,315}[A-Za-z0-9])?")


class PricesError(ValueError):
    """The prices cannot be used; the text names the entry and its value."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices per device and hour by resource and flavor; an empty flavor stands for every other one."""

    currency: str = "USD"
    per_hour: Mapping[tuple[str, str], Decimal] | None = None

    def of(self, resource: str, flavor: str) -> Decimal | None:
        """The price of one device for one hour; None if no entry names it."""
        listed = self.per_hour or {}
        return listed.get((resource, flavor), listed.get((resource, "")))


def read(config_map: Mapping[str, Any]) -> Prices:
    """The prices of a ConfigMap. Raises `PricesError`."""
    data = mapping(config_map.get("data"))
    currency = text(data.get("currency"))
    if not _CURRENCY.fullmatch(currency):
        raise PricesError(f"currency: must be a code of three capital letters such as EUR, not {currency[:20]!r}")
    listed = text(data.get("prices"))
    if len(listed.encode()) > MAX_BYTES:
        raise PricesError(f"prices: must be at most {MAX_BYTES // 1024} KiB")
    if "&" in listed or "*" in listed:
        # A few lines of anchors can stand for gigabytes.
        raise PricesError("prices: anchors and aliases of YAML are not allowed")
    try:
        entries = yaml.safe_load(listed)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise PricesError(f"prices: must be a list in YAML: {str(error)[:200]}") from error
    if not isinstance(entries, list) or len(entries) > MAX_PRICES:
        raise PricesError(f"prices: must be a list of at most {MAX_PRICES} entries")
    found: dict[tuple[str, str], Decimal] = {}
    for number, entry in enumerate(entries, 1):
        resource, flavor, price = _entry(number, entry)
        if (resource, flavor) in found:
            raise PricesError(f"prices, entry {number}: {resource} {flavor} has a price already")
        found[resource, flavor] = price
    return Prices(currency, found)


def _entry(number: int, entry: Any) -> tuple[str, str, Decimal]:
    where = f"prices, entry {number}"
    if not isinstance(entry, dict) or not {"resource", "perHour"} <= entry.keys() <= _FIELDS:
        raise PricesError(f"{where}: must have resource and perHour, and may have flavor")
    resource, flavor, price = entry["resource"], entry.get("flavor", ""), entry["perHour"]
    if not isinstance(resource, str) or not _NAME.fullmatch(resource):
        raise PricesError(f"{where}: resource must be a name such as nvidia.com/gpu, not {str(resource)[:80]!r}")
    if not isinstance(flavor, str) or (flavor and not _NAME.fullmatch(flavor)):
        raise PricesError(f"{where}: flavor must be a name, not {str(flavor)[:80]!r}")
    try:
        # A number that YAML has read as one is exact enough to be written again, but not to be used.
        value = Decimal(str(price)) if isinstance(price, int | float | str) and not isinstance(price, bool) else None
    except InvalidOperation:
        value = None
    if value is None or not _NUMBER.fullmatch(str(price)) or value > MAX_PER_HOUR:
        raise PricesError(
            f"{where}: perHour must be a number from 0 to {MAX_PER_HOUR} with at most {_MAX_DECIMALS} decimals, "
            f"not {str(price)[:40]!r}"
        )
    return resource, flavor, value
