"""Reading a part of a manifest that may leave it out. Pure; shapes were checked by the API server, absence was not."""

from collections.abc import Mapping, Sequence
from typing import Any

from bulkhead.api.untrusted import mapping


def section_of(value: Mapping[str, Any], field: str) -> dict[str, Any]:
    """The mapping under a field; empty when it is missing or no mapping."""
    return dict(mapping(value.get(field)))


def text_or_none(value: Mapping[str, Any], field: str) -> str | None:
    """The text under a field; None when it is missing or empty."""
    found = value.get(field)
    return str(found) if found else None


def over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """One section over another, field by field all the way down; what the upper one leaves out is the lower one's."""
    merged = dict(below)
    for field, value in above.items():
        under = merged.get(field)
        if isinstance(value, Mapping):
            merged[field] = over(mapping(under), value)
        elif value is not None:
            merged[field] = value
    return merged


def put(section: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    """A section with another value at a path; None takes out what is there."""
    first, *rest = path
    if rest:
        return {**section, first: put(section_of(section, first), rest, value)} if first in section else dict(section)
    others = {field: each for field, each in section.items() if field != first}
    return others if value is None else others | {first: value}
