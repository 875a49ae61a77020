"""Types of values on the command line: each turns a word into a value, or an error that says what it must be. Pure.

An error begins with `must`; the parser puts the name of the option before it: `--port must be …, not '80'`.
"""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bulkhead.api import names
from bulkhead.api.quantity import InvalidQuantityError, parse, whole
from bulkhead.snapshots import layout
from workstation.cli.failures import CliError, Exit

DAY: Final = 86_400.0
_SHORT_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
_UNITS: Final = {**_SHORT_UNITS, "d": DAY, "w": 7 * DAY}
_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_LONGEST_NAME: Final = 253
_VOLUME_SIZE: Final = re.compile(r"[1-9][0-9]{0,5}(Mi|Gi|Ti)")
_MAX_TEXT_CHARACTERS: Final = 1024
_SHOWN_CHARACTERS: Final = 200


def wrong(what: str, text: str) -> argparse.ArgumentTypeError:
    """The error for a value: what it must be, and what it is."""
    return argparse.ArgumentTypeError(f"must be {what}, not {text[:_SHOWN_CHARACTERS]!r}")


def tenant_name(text: str) -> str:
    """The name of a tenant, by the API's rules."""
    try:
        return names.check_tenant_name(text)
    except names.InvalidTenantNameError as error:
        raise argparse.ArgumentTypeError(f"must be the name of a tenant: {str(error).removeprefix('tenant name: ')}") from error


def tenant_or_pod(text: str) -> str:
    """A name that may be a tenant's, where another word follows, or else a pod's."""
    return object_name(text)


def object_name(text: str) -> str:
    """The name of a Kubernetes object; other text could be more than one segment of a URL path."""
    if len(text) > _LONGEST_NAME or not _NAME.fullmatch(text):
        raise wrong("an object's name of lower-case letters, digits, '-' and '.'", text)
    return text


def snapshot_name(text: str) -> str:
    """The name of a TenantSnapshot, or IDENTITY/SNAPSHOT: the two folders in which one is stored."""
    identity, slash, name = text.rpartition("/")
    try:
        object_name(name)
        if slash:
            layout.folder(identity, name)
    except (layout.LayoutError, argparse.ArgumentTypeError):
        raise wrong("the name of a TenantSnapshot, or IDENTITY/SNAPSHOT as it is stored", text) from None
    return text


def plain_name(text: str) -> str:
    """A name of a user or a verb."""
    if not text.isprintable() or len(text) > _MAX_TEXT_CHARACTERS:
        raise wrong(f"a name of at most {_MAX_TEXT_CHARACTERS} printable characters", text)
    return text


def volume_size(text: str) -> str:
    """The size of a volume, as a Tenant has it."""
    if not _VOLUME_SIZE.fullmatch(text):
        raise wrong("a size such as 4Gi", text)
    return text


def port(text: str) -> int:
    """A port outside the system's range."""
    return between(1024, 65535, "a port")(text)


def between(low: int, high: int, what: str = "a whole number") -> Callable[[str], int]:
    """A whole number within bounds, both included."""

    def read(text: str) -> int:
        if text.isascii() and text.isdecimal() and len(text) < 12 and low <= int(text) <= high:
            return int(text)
        raise wrong(f"{what} between {low} and {high}", text)

    return read


def decimal(low: float, high: float, what: str) -> Callable[[str], float]:
    """A number of seconds within bounds, both included."""

    def read(text: str) -> float:
        value = _duration(text, {"s": 1.0})
        if not low <= value <= high:
            raise wrong(f"{what} between {low:g} and {high:g}", text)
        return value

    return read


def seconds(text: str) -> float:
    """A duration in seconds: 90, 90s, 5m or 1h, at most a day."""
    value = _duration(text, _SHORT_UNITS)
    if not 0 < value <= DAY:
        raise wrong("a duration such as 90s, 5m or 1h, at most 24h", text)
    return value


def seconds_between(low: float, high: float) -> Callable[[str], float]:
    """A duration in seconds within bounds, both included."""

    def read(text: str) -> float:
        value = _duration(text, _SHORT_UNITS)
        if not low <= value <= high:
            raise wrong(f"between {low:g}s and {high:g}s", text)
        return value

    return read


def since(text: str) -> float:
    """A time in the past, as seconds ago: 90s, 5m, 36h, 7d or 2w, at most ten years."""
    value = _duration(text, _UNITS)
    if not 0 < value <= 3650 * DAY:
        raise wrong("how long ago, such as 30m, 36h, 7d or 2w", text)
    return value


def _duration(text: str, units: Mapping[str, float]) -> float:
    """Seconds; negative if the text is not a duration. Callers check bounds, and a negative number is below all of them."""
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    try:
        return float(number) * unit
    except ValueError:
        return -1.0


def gpus(text: str) -> int:
    """A number of whole GPUs."""
    try:
        return whole(text)
    except InvalidQuantityError as error:
        raise wrong("a number of GPUs", text) from error


def quota(text: str) -> tuple[str, str]:
    """A resource and its amount: memory=512Gi."""
    name, separator, value = text.partition("=")
    try:
        parse(value)
    except InvalidQuantityError as error:
        raise wrong("a quota such as memory=512Gi", text) from error
    if not name or not separator:
        raise wrong("a quota such as memory=512Gi", text)
    return name, value


def each_once(asked: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Quotas by resource. Raises CliError if a resource is named twice, because it is unclear which amount is meant."""
    found: dict[str, str] = {}
    for name, value in asked:
        if name in found:
            raise CliError(f"{name} is given twice, as {found[name]} and as {value}", next_step="give it once", code=Exit.USAGE)
        found[name] = value
    return found


def folder(text: str) -> Path:
    """A folder by its absolute path; the root of the file system is not allowed."""
    path = Path(text)
    if not path.is_absolute() or path == Path("/"):
        raise wrong("the absolute path of a folder", text)
    return path
