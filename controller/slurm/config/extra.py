"""Parses the tenant's own lines for slurm.conf, partitions and nodes, and checks them against the known keys.

Pure. The lines are never copied: the templates write the parsed pairs of key and value. A key that the platform sets itself, or
that Slurm does not know, is refused with the reason. So an `extraConf` can tune the cluster, but cannot move its ports, its
keys or its state.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from controller.slurm.config import known
from controller.slurm.config.words import is_key, is_value
from controller.slurm.spec import Pairs

_TOKEN: Final = re.compile(r"""\s*([^\s="]+)=("[^"]*"|[^\s"]*)(?=\s|$)""")
_EXTRA_CONF_CHARACTERS: Final = 8192


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys of one kind of line, in lower case: with the shape of their values, or with the reason why they are reserved."""

    offered: Mapping[str, str]
    reserved: Mapping[str, str]


_SLURM_CONF: Final = _Keys(known.SLURM_CONF, known.SLURM_CONF_RESERVED)
_PARTITION: Final = _Keys(known.PARTITION, known.PARTITION_RESERVED)
_NODE: Final = _Keys(known.NODE, known.NODE_RESERVED)


class ExtraConfError(ValueError):
    """A line of the tenant is refused; the text names the key or the place, and the reason."""


def slurm_conf_lines(text: str) -> Pairs:
    """The pairs of an `extraConf` for slurm.conf: one `Key=value` on each line; blank lines and comments are left out."""
    found: dict[str, tuple[str, str]] = {}
    for number, line in _lines(text):
        key, equals, value = line.partition("=")
        key, value = key.strip(), value.strip()
        if not equals or not is_key(key):
            raise ExtraConfError(f"line {number}: not of the form Key=value; Include and continued lines are not possible")
        _add(found, _SLURM_CONF, key, value, place=f"line {number}: ")
    return tuple(found.values())


def partition_words(text: str) -> Pairs:
    """The pairs of a partition's `config`: `Key=value` words on one line."""
    return _words(text, _PARTITION)


def node_words(text: str) -> Pairs:
    """The pairs of a NodeSet's `extraConf`, which end up behind slurmd's `--conf`."""
    return _words(text, _NODE)


def _words(text: str, keys: _Keys) -> Pairs:
    found: dict[str, tuple[str, str]] = {}
    lines = list(_lines(text))
    if len(lines) > 1:
        raise ExtraConfError("more than one line: give all Key=value words on one")
    rest = lines[0][1] if lines else ""
    while rest.strip():
        match = _TOKEN.match(rest)
        if match is None:
            raise ExtraConfError(f"{shlex.quote(rest.strip()[:40])}: not of the form Key=value")
        if not is_key(match[1]):
            raise ExtraConfError(f"{shlex.quote(match[1][:40])}: not the name of a key")
        _add(found, keys, match[1], match[2])
        rest = rest[match.end() :]
    return tuple(found.values())


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines with content, numbered from 1; anything but printable ASCII is refused."""
    if len(text) > _EXTRA_CONF_CHARACTERS:
        raise ExtraConfError(f"longer than {_EXTRA_CONF_CHARACTERS} characters")
    for number, line in enumerate(text.split("\n"), start=1):
        if not all(" " <= character <= "~" or character == "\t" for character in line):
            raise ExtraConfError(f"line {number}: holds a character that is not printable ASCII")
        if "\\" in line:
            raise ExtraConfError(f"line {number}: a backslash is not allowed: it would continue the line or escape a character")
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line


def _add(found: dict[str, tuple[str, str]], keys: _Keys, key: str, value: str, *, place: str = "") -> None:
    """Add one pair; Slurm's keys are case-insensitive."""
    lower = key.lower()
    if lower in keys.reserved:
        raise ExtraConfError(f"{place}{key}: is set by the platform: {keys.reserved[lower]}")
    if lower not in keys.offered:
        raise ExtraConfError(f"{place}{key}: not a key that can be set here")
    if lower in found:
        raise ExtraConfError(f"{place}{key}: set twice")
    if not is_value(value):
        raise ExtraConfError(f"{place}{key}: the value must be one word, or one text in double quotes without # in it")
    shape = keys.offered[lower]
    if shape and re.fullmatch(shape, value.strip('"'), re.IGNORECASE) is None:
        raise ExtraConfError(f"{place}{key}: {value[:40]!r}: slurmctld does not accept this value")
    for item in value.strip('"').split(","):
        reason = known.RESERVED_ITEMS.get((lower, item.split("=", maxsplit=1)[0].strip().lower()))
        if reason is not None:
            raise ExtraConfError(f"{place}{key}: {item.strip()}: is set by the platform: {reason}")
    found[lower] = (key, value)
