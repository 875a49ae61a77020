"""Expands Slurm's compressed lists of host names: `a-[0-2,5],b` stands for a-0, a-1, a-2, a-5 and b. Pure, and bounded.

The text comes from the tenant's slurmctld. A list beyond its limit is an error and never cut short: otherwise a node could seem
to run no jobs because an answer contained a large number.
"""

import re
from collections.abc import Iterator

_PART = re.compile(r"^([^\[\],]*)\[([0-9,\-]+)\]([^\[\],]*)$")
_SPAN = re.compile(r"^([0-9]{1,9})(?:-([0-9]{1,9}))?$")
_LIST_CHARACTERS = 65_536


class HostListError(ValueError):
    """A list that is malformed or names too many hosts."""


def expand(text: str, limit: int) -> tuple[str, ...]:
    """The names in a list, in its order."""
    if not text or text in {"(null)", "None"}:
        return ()
    if len(text) > _LIST_CHARACTERS:
        raise HostListError(f"host list: longer than {_LIST_CHARACTERS} characters")
    names: list[str] = []
    for part in _parts(text):
        for name in _names(part):
            names.append(name)
            if len(names) > limit:
                raise HostListError(f"host list: more than {limit} names")
    return tuple(names)


def _parts(text: str) -> Iterator[str]:
    depth = start = 0
    for index, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if depth not in {0, 1}:
            raise HostListError("host list: brackets do not match")
        if character == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    if depth:
        raise HostListError("host list: brackets do not match")
    yield text[start:]


def _names(part: str) -> Iterator[str]:
    if "[" not in part:
        if part:
            yield part
        return
    prefix, suffix = part.partition("[")[0], part.rpartition("]")[2]
    for first, last, digits in _spans(part):
        for number in range(first, last + 1):
            yield f"{prefix}{number:0{digits}d}{suffix}"


def _spans(part: str) -> Iterator[tuple[int, int, int]]:
    """The spans between a part's brackets: first, last, digits; one that runs backwards is empty."""
    match = _PART.match(part)
    if match is None:
        raise HostListError("host list: a part cannot be read")
    for span in match[2].split(","):
        ends = _SPAN.match(span)
        if ends is None:
            raise HostListError("host list: a span cannot be read")
        first, last = int(ends[1]), int(ends[2] or ends[1])
        yield first, max(first - 1, last), len(ends[1])
