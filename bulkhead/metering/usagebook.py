"""What was metered, as it is stored: sums by the hour in one open page, which is closed and kept when it is full.

    Tallies ──> Page.add ──> write ──> the open page, again and again ── full, or a day old ──> a closed page; a new number
    pages ──> newest ──> rows ──> summed ──> `bulkhead usage`

Each page has a number. One of the same number that reaches further holds everything that the other one holds: so of a page that
was closed and is still open, because who closed it died in between, only one counts. A page says up to when it was counted, in
the same write as the sums: what is counted twice or never would have to be written in half. Rows are bounded for each hour and
each tenant; what is beyond is summed up under `*`, so nothing is lost but its name. Pure.
"""

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, NamedTuple, TypeGuard

from bulkhead.api import labels, names
from bulkhead.api.untrusted import mapping, text
from bulkhead.metering.meter import HOUR, Tally, UsageKey

_FORM: Final = 1
OTHERS: Final = "*"
# Of one hour: rows of all tenants, and of one of them.
_MOST_ROWS: Final = 4096
_MOST_OF_TENANT: Final = 512
# A page is closed when it is larger than that and its last hour is over; within the hour only when it would not fit.
_FULL: Final = 64 * 1024
_OVERFULL: Final = 512 * 1024
_DAY: Final = 24 * HOUR
_EPOCH: Final = date(1970, 1, 1).toordinal()
# What of a page is read at all.
_MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_READ: Final = 400_000
_MOST_COUNTED: Final = 1 << 62
_LONGEST_NAME: Final = 317
# What has a name and a day.
_LAST_NUMBER: Final = 10**15
_LAST_HOUR: Final = 8_000_000
_NAME: Final = re.compile(rf"{names.USAGE_PREFIX}[0-9]{{8}}-([0-9]{{1,15}})")


class UnreadableError(ValueError):
    """Stored usage that no release can have written like this."""


_KEY: Final = "page"


class Sums(NamedTuple):
    """Device-milliseconds."""

    used: int = 0
    idle: int = 0
    borrowed: int = 0
    reserved: int = 0

    def plus(self, other: "Sums") -> "Sums":
        """Both together."""
        return Sums(*(one + another for one, another in zip(self, other, strict=True)))


def sums_of(tally: Tally) -> Sums:
    """The sums of one tally."""
    return Sums(tally.used, tally.idle, tally.borrowed, tally.reserved)


@dataclass(slots=True)
class Page:
    """One page."""

    number: int
    # Everything before this moment is counted, here or on earlier pages.
    until: int
    # Who wrote it last.
    writer: str = ""
    hours: dict[int, dict[UsageKey, Sums]] = field(default_factory=dict)

    def add(self, tally: Tally) -> None:
        """Count one tally."""
        rows = self.hours.setdefault(tally.hour, {})
        account = tally.account
        if account not in rows and not _has_room(rows, account.tenant):
            account = account._replace(namespace=OTHERS, owner=OTHERS)
        rows[account] = rows.get(account, Sums()).plus(sums_of(tally))

    def rows(self) -> Iterator[tuple[int, UsageKey, Sums]]:
        """Hour, account and sums, in order."""
        for hour, rows in sorted(self.hours.items()):
            for account, sums in sorted(rows.items()):
                yield hour, account, sums

    @property
    def name(self) -> str:
        """What it is called once it is closed."""
        return f"{names.USAGE_PREFIX}{date.fromordinal(_EPOCH + self.day):%Y%m%d}-{self.number}"

    @property
    def day(self) -> int:
        """The day of its first hour, since 1970."""
        return min(self.hours, default=self.until // HOUR) // 24

    def is_full(self, size: int) -> bool:
        """Whether a page that is written in so many bytes should be closed."""
        if not self.hours:
            return False
        return size > _OVERFULL or (max(self.hours) < self.until // HOUR and (size > _FULL or self.day < self.until // _DAY))


def _has_room(rows: Mapping[UsageKey, Sums], tenant: str) -> bool:
    if len(rows) < _MOST_OF_TENANT:
        return True
    return len(rows) < _MOST_ROWS and sum(1 for key in rows if key.tenant == tenant) < _MOST_OF_TENANT


def write(page: Page) -> bytes:
    """A page as it is stored."""
    held = [[hour, *account, *sums[:3]] for hour, account, sums in page.rows() if any(sums[:3])]
    reserved = [[hour, *account, sums.reserved] for hour, account, sums in page.rows() if sums.reserved]
    said = {"form": _FORM, "number": page.number, "until": page.until, "writer": page.writer, "rows": held}
    if reserved:
        # Beside the rows, not in them: releases that know nothing of it read the same rows and leave this out.
        said["reserved"] = reserved
    return zlib.compress(json.dumps(said, separators=(",", ":")).encode(), 6)


def read(stored: bytes) -> Page:
    """What `write` wrote; raises `UnreadableError`."""
    try:
        opened = zlib.decompressobj()
        said = mapping(json.loads(opened.decompress(stored, _MOST_BYTES)))
    except (zlib.error, ValueError, RecursionError) as error:
        raise UnreadableError("not stored usage, or damaged") from error
    if said.get("form") != _FORM:
        raise UnreadableError(f"usage of form {str(said.get('form'))[:32]}, which this version does not know")
    number, until, rows = said.get("number"), said.get("until"), said.get("rows")
    if not _count(number, _LAST_NUMBER) or not _count(until, _LAST_HOUR * HOUR) or not isinstance(rows, list):
        raise UnreadableError("a page without a number, a time up to which it reaches, or rows")
    # Pages of releases that did not count it, and pages with nothing of it, have none.
    reserved = said.get("reserved", [])
    if not isinstance(reserved, list):
        raise UnreadableError("reserved devices that are not listed in rows")
    if len(rows) + len(reserved) > _MOST_READ:
        raise UnreadableError(f"{len(rows) + len(reserved)} rows, more than any page has")
    page = Page(number, until, text(said.get("writer"))[:_LONGEST_NAME])
    for hour, account, sums in (*map(_held_row, rows), *map(_reserved_row, reserved)):
        of_hour = page.hours.setdefault(hour, {})
        of_hour[account] = of_hour.get(account, Sums()).plus(sums)
    return page


def _held_row(row: Any) -> tuple[int, UsageKey, Sums]:
    hour, account, (used, idle, borrowed) = _row(row, 3)
    if borrowed > used + idle:
        raise UnreadableError("a row that borrows more than it holds")
    return hour, account, Sums(used, idle, borrowed)


def _reserved_row(row: Any) -> tuple[int, UsageKey, Sums]:
    hour, account, (reserved,) = _row(row, 1)
    return hour, account, Sums(reserved=reserved)


def _row(row: Any, amounts: int) -> tuple[int, UsageKey, list[int]]:
    """Hour, account and so many amounts."""
    if not isinstance(row, list) or len(row) != 6 + amounts or not _count(row[0], _LAST_HOUR) or not all(map(_count, row[6:])):
        raise UnreadableError("a row of another shape than rows of usage have")
    if not all(isinstance(name, str) for name in row[1:6]):
        raise UnreadableError("a row with a name that is not text")
    return row[0], UsageKey(*row[1:6]), row[6:]


def _count(value: Any, most: int = _MOST_COUNTED) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < most


def newest(pages: Iterable[Page]) -> list[Page]:
    """Of each number the page that reaches furthest, in order."""
    found: dict[int, Page] = {}
    for page in pages:
        if page.number not in found or found[page.number].until < page.until:
            found[page.number] = page
    return [page for _, page in sorted(found.items())]


def summed(rows: Iterable[tuple[int, UsageKey, Sums]], since: int, of: Callable[[UsageKey], UsageKey]) -> dict[UsageKey, Sums]:
    """Sums of all hours from the one in which `since` (in milliseconds) lies, by what `of` makes of an account."""
    found: dict[UsageKey, Sums] = {}
    for hour, account, sums in rows:
        if hour >= since // HOUR:
            group = of(account)
            found[group] = found.get(group, Sums()).plus(sums)
    return found


def config_map(page: Page, stored: bytes, *, closed: bool) -> dict[str, Any]:
    """The ConfigMap of a page, which `stored` is as it is written."""
    meta = {
        "name": page.name if closed else names.USAGE_OPEN,
        "labels": {labels.USAGE: "closed" if closed else "open"},
        "annotations": {labels.USAGE_UNTIL: str(page.until), labels.USAGE_BYTES: str(len(stored))},
    }
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "binaryData": {_KEY: base64.b64encode(stored).decode()}}
    return made | {"immutable": True} if closed else made


def page_of(config_map: Mapping[str, Any]) -> Page:
    """The page in a ConfigMap; raises `UnreadableError`."""
    try:
        stored = base64.b64decode(text(mapping(config_map.get("binaryData")).get(_KEY)), validate=True)
    except ValueError as error:
        raise UnreadableError("not stored usage, or damaged") from error
    return read(stored)


def is_spoilt(config_map: Mapping[str, Any]) -> bool:
    """Whether it was changed by hand so that it takes no writes: it cannot change, or has more in it than its page."""
    held = {*mapping(config_map.get("data")), *mapping(config_map.get("binaryData"))}
    return config_map.get("immutable") is True or bool(held - {_KEY})


def number_of(name: str) -> int:
    """The number of a closed page by the name of its ConfigMap; 0 for any other name."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else 0
