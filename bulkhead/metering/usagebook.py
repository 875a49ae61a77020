"""Defines how metered usage is stored: sums by the hour in one open page, which is closed and kept when it is full.

    Tallies ──> Page.add ──> write ──> the open page, again and again ── full, or a day old ──> a closed page; a new number
    pages ──> newest ──> rows ──> summed ──> `bulkhead usage`

Each page has a number. Of two pages with the same number, the one that reaches further contains the other, and only it counts.
This happens if a controller dies after it has closed a page and before it has opened the next. A page holds the sums and the
time up to which they are counted, and both are one write, so nothing is counted twice or never. Rows are limited for each hour
and each tenant; further ones are summed up under `*`, so only their names are lost. Pure.
"""

import base64
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, NamedTuple, TypeGuard

from bulkhead.api import labels, names
from bulkhead.api.untrusted import mapping, text
from bulkhead.metering.meter import HOUR, Tally, UsageKey

_FORM: Final = 1
OTHERS: Final = "*"
# The most rows of one hour: of all tenants, and of one tenant.
_MOST_ROWS: Final = 4096
_MOST_OF_TENANT: Final = 512
# A page is closed when it is larger than this and its last hour is over; within the hour only if it would not fit otherwise.
_FULL: Final = 64 * 1024
_OVERFULL: Final = 512 * 1024
# An API server accepts a ConfigMap of 1 MiB.
_MOST_BYTES_STORED: Final = 960 * 1024
_DAY: Final = 24 * HOUR
_EPOCH: Final = date(1970, 1, 1).toordinal()
# Limits of what is read from a page.
_MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_READ: Final = 400_000
_MOST_COUNTED: Final = 1 << 62
_LONGEST_NAME: Final = 317
_LONGEST_UID: Final = 64
# What has a name and a day.
_LAST_NUMBER: Final = 10**15
_LAST_HOUR: Final = 8_000_000
# A page whose names were left out later has a name of its own, so that it exists before the former one goes.
_WITHOUT_NAMES: Final = "-sums"
_NAME: Final = re.compile(rf"{names.USAGE_PREFIX}[0-9]{{8}}-([0-9]{{1,15}})(?:{_WITHOUT_NAMES})?")


class UnreadableError(ValueError):
    """Stored usage that no release can have written; the text says what is wrong."""


_KEY: Final = "page"


class Sums(NamedTuple):
    """Device-milliseconds."""

    used: int = 0
    idle: int = 0
    borrowed: int = 0
    reserved: int = 0
    measured: int = 0
    busy: int = 0

    def plus(self, other: "Sums") -> "Sums":
        """The total of both."""
        return Sums(*(one + another for one, another in zip(self, other, strict=True)))


def sums_of(tally: Tally) -> Sums:
    """The sums of one tally."""
    return Sums(tally.used, tally.idle, tally.borrowed, tally.reserved, tally.measured, tally.busy)


@dataclass(slots=True)
class Page:
    """One page of sums by hour and account."""

    number: int
    # Everything before this moment is counted, here or on earlier pages.
    until: int
    # Who wrote it last.
    writer: str = ""
    hours: dict[int, dict[UsageKey, Sums]] = field(default_factory=dict)
    # By tenant the UID of the one that had the name: of two that had it one after the other, each has pages of its own.
    holders: dict[str, str] = field(default_factory=dict)

    def add(self, tally: Tally, holder: str = "") -> None:
        """Count one tally, of the tenant with this UID; "" if that is unknown."""
        if holder:
            self.holders.setdefault(tally.account.tenant, holder)
        account = tally.account
        if account not in self.hours.setdefault(tally.hour, {}) and not self._makes_room(tally.hour, account.tenant):
            account = account._replace(namespace=OTHERS, owner=OTHERS)
        rows = self.hours[tally.hour]
        rows[account] = rows.get(account, Sums()).plus(sums_of(tally))

    def _makes_room(self, hour: int, tenant: str) -> bool:
        """Whether a tenant may have one more row in an hour; of a full hour the tenant with the most rows loses its names.

        Otherwise a few tenants with many names would take those of all others.
        """
        rows = self.hours[hour]
        if len(rows) < _MOST_OF_TENANT:
            return True
        counts = Counter(key.tenant for key in rows)
        if counts[tenant] >= _MOST_OF_TENANT:
            return False
        if len(rows) < _MOST_ROWS:
            return True
        largest = max(counts, key=lambda name: (counts[name], name))
        if counts[largest] <= counts[tenant] + 1:
            return False
        self.hours[hour] = _without_names_of(rows, largest)
        return len(self.hours[hour]) < len(rows)

    def sum_up(self, tenant: str | None = None) -> None:
        """Forget the namespaces and owners of a tenant, or of all."""
        self.hours = {hour: _without_names_of(rows, tenant) for hour, rows in self.hours.items()}

    def has_former(self, present: Mapping[str, str]) -> bool:
        """Whether a tenant of this page has been followed by another one of its name; `present` are the UIDs by name."""
        return any(present.get(name, uid) != uid for name, uid in self.holders.items())

    def rows(self) -> Iterator[tuple[int, UsageKey, Sums]]:
        """Hour, account and sums, in order."""
        for hour, rows in sorted(self.hours.items()):
            for account, sums in sorted(rows.items()):
                yield hour, account, sums

    @property
    def name(self) -> str:
        """The name of its ConfigMap once it is closed."""
        return f"{names.USAGE_PREFIX}{date.fromordinal(_EPOCH + self.day):%Y%m%d}-{self.number}"

    @property
    def day(self) -> int:
        """The day of its first hour, since 1970."""
        return min(self.hours, default=self.until // HOUR) // 24

    def is_full(self, size: int) -> bool:
        """Whether a page that takes `size` bytes should be closed."""
        if not self.hours:
            return False
        return size > _OVERFULL or (max(self.hours) < self.until // HOUR and (size > _FULL or self.day < self.until // _DAY))


def _without_names_of(rows: Mapping[UsageKey, Sums], tenant: str | None) -> dict[UsageKey, Sums]:
    found: dict[UsageKey, Sums] = {}
    for account, sums in rows.items():
        named = account._replace(namespace=OTHERS, owner=OTHERS) if tenant in {None, account.tenant} else account
        found[named] = found.get(named, Sums()).plus(sums)
    return found


def write(page: Page) -> bytes:
    """A page as it is stored."""
    held = [[hour, *account, *sums[:3]] for hour, account, sums in page.rows() if any(sums[:3])]
    reserved = [[hour, *account, sums.reserved] for hour, account, sums in page.rows() if sums.reserved]
    content = {"form": _FORM, "number": page.number, "until": page.until, "writer": page.writer, "rows": held}
    if reserved:
        # A field of its own, not part of the rows: older releases read the same rows and ignore this field.
        content["reserved"] = reserved
    load = [[hour, *account, sums.measured, sums.busy] for hour, account, sums in page.rows() if sums.measured]
    if load:
        content["load"] = load
    if page.holders:
        content["holders"] = dict(sorted(page.holders.items()))
    return zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 6)


def fitted(page: Page) -> bytes:
    """The same, after names were left out that make it larger than the host accepts: first of the tenant that has the most."""
    stored = write(page)
    while len(stored) > _MOST_BYTES_STORED:
        sizes: Counter[str] = Counter()
        for _, account, _ in page.rows():
            if account.owner != OTHERS:
                sizes[account.tenant] += len(json.dumps(account))
        if not sizes:
            break
        page.sum_up(max(sizes, key=lambda tenant: (sizes[tenant], tenant)))
        stored = write(page)
    return stored


def read(stored: bytes) -> Page:
    """The page that `write` wrote; raises `UnreadableError`."""
    try:
        opened = zlib.decompressobj()
        content = mapping(json.loads(opened.decompress(stored, _MOST_BYTES)))
    except (zlib.error, ValueError, RecursionError) as error:
        raise UnreadableError("not stored usage, or damaged") from error
    if content.get("form") != _FORM:
        raise UnreadableError(f"format {str(content.get('form'))[:32]} is unknown to this version")
    number, until, rows = content.get("number"), content.get("until"), content.get("rows")
    if not _count(number, _LAST_NUMBER) or not _count(until, _LAST_HOUR * HOUR) or not isinstance(rows, list):
        raise UnreadableError("the page lacks its number, the time up to which it is counted, or its rows")
    # Older releases did not count reserved devices, and pages without any leave the field out.
    reserved = content.get("reserved", [])
    load = content.get("load", [])
    if not isinstance(reserved, list) or not isinstance(load, list):
        raise UnreadableError("reserved devices and the load of devices must be lists of rows")
    if (count := len(rows) + len(reserved) + len(load)) > _MOST_READ:
        raise UnreadableError(f"the page has {count} rows, at most {_MOST_READ} are allowed")
    page = Page(number, until, text(content.get("writer"))[:_LONGEST_NAME])
    holders = mapping(content.get("holders")).items()
    page.holders = {name: uid for name, uid in holders if isinstance(uid, str) and len(uid) <= _LONGEST_UID}
    for hour, account, sums in (*map(_held_row, rows), *map(_reserved_row, reserved), *map(_load_row, load)):
        of_hour = page.hours.setdefault(hour, {})
        of_hour[account] = of_hour.get(account, Sums()).plus(sums)
    return page


def _held_row(row: Any) -> tuple[int, UsageKey, Sums]:
    hour, account, (used, idle, borrowed) = _row(row, 3)
    if borrowed > used + idle:
        raise UnreadableError("a row borrows more than it holds")
    return hour, account, Sums(used, idle, borrowed)


def _reserved_row(row: Any) -> tuple[int, UsageKey, Sums]:
    hour, account, (reserved,) = _row(row, 1)
    return hour, account, Sums(reserved=reserved)


def _load_row(row: Any) -> tuple[int, UsageKey, Sums]:
    hour, account, (measured, busy) = _row(row, 2)
    if busy > measured:
        raise UnreadableError("a row is busy for longer than it was measured")
    return hour, account, Sums(measured=measured, busy=busy)


def _row(row: Any, amounts: int) -> tuple[int, UsageKey, list[int]]:
    """Hour, account and the amounts of a row, of which there must be `amounts`."""
    if not isinstance(row, list) or len(row) != 6 + amounts or not _count(row[0], _LAST_HOUR) or not all(map(_count, row[6:])):
        raise UnreadableError("a row has the wrong number or types of fields")
    if not all(isinstance(name, str) for name in row[1:6]):
        raise UnreadableError("a row has a name that is not text")
    return row[0], UsageKey(*row[1:6]), row[6:]


def _count(value: Any, most: int = _MOST_COUNTED) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < most


def newest(pages: Iterable[Page]) -> list[Page]:
    """For each number, the page that reaches furthest; in order."""
    found: dict[int, Page] = {}
    for page in pages:
        if page.number not in found or found[page.number].until < page.until:
            found[page.number] = page
    return [page for _, page in sorted(found.items())]


def summed(rows: Iterable[tuple[int, UsageKey, Sums]], since: int, of: Callable[[UsageKey], UsageKey]) -> dict[UsageKey, Sums]:
    """Sums from the hour that contains `since` (in milliseconds) on, by the key that `of` derives from an account."""
    found: dict[UsageKey, Sums] = {}
    for hour, account, sums in rows:
        if hour >= since // HOUR:
            group = of(account)
            found[group] = found.get(group, Sums()).plus(sums)
    return found


def config_map(page: Page, stored: bytes, *, closed: bool) -> dict[str, Any]:
    """The ConfigMap of a page; `stored` are the bytes that `write` made of it."""
    meta = {
        "name": page.name if closed else names.USAGE_OPEN,
        "labels": {labels.USAGE: "closed" if closed else "open"},
        "annotations": {labels.USAGE_UNTIL: str(page.until), labels.USAGE_BYTES: str(len(stored))},
    }
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "binaryData": {_KEY: base64.b64encode(stored).decode()}}
    return made | {"immutable": True} if closed else made


def without_names(closed: Mapping[str, Any]) -> dict[str, Any]:
    """The ConfigMap that takes the place of a closed page and has only its tenants' sums; raises `UnreadableError`."""
    page = page_of(closed)
    page.sum_up()
    made = config_map(page, write(page), closed=True)
    return made | {"metadata": made["metadata"] | {"name": page.name + _WITHOUT_NAMES}}


def has_no_names(name: str) -> bool:
    """Whether the page in a ConfigMap of this name has only sums."""
    return name.endswith(_WITHOUT_NAMES)


def page_of(config_map: Mapping[str, Any]) -> Page:
    """The page in a ConfigMap; raises `UnreadableError`."""
    try:
        stored = base64.b64decode(text(mapping(config_map.get("binaryData")).get(_KEY)), validate=True)
    except ValueError as error:
        raise UnreadableError("not stored usage, or damaged") from error
    return read(stored)


def reaches(config_map: Mapping[str, Any]) -> int:
    """Up to when a page counts, as its metadata says; a page that does not say it counts as the newest."""
    noted = text(mapping(mapping(config_map.get("metadata")).get("annotations")).get(labels.USAGE_UNTIL))
    return int(noted) if noted.isascii() and noted.isdecimal() and len(noted) < 20 else 1 << 62


def is_spoilt(config_map: Mapping[str, Any]) -> bool:
    """Whether a change by hand prevents writes to it: it is immutable, or contains more than its page."""
    held = {*mapping(config_map.get("data")), *mapping(config_map.get("binaryData"))}
    return config_map.get("immutable") is True or bool(held - {_KEY})


def number_of(name: str) -> int:
    """The number of a closed page by the name of its ConfigMap; 0 for any other name."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else 0
