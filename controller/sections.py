"""Reads optional sections of manifests. Pure. The API server has checked their types, but not that they are present."""

from collections.abc import Mapping, Sequence
from typing import Any

from bulkhead.api.untrusted import mapping


def section_of(value: Mapping[str, Any], field: str) -> dict[str, Any]:
    """The mapping under a field; empty if the field is missing or not a mapping."""
    return dict(mapping(value.get(field)))


def text_or_none(value: Mapping[str, Any], field: str) -> str | None:
    """The text under a field; None if it is missing or empty."""
    found = value.get(field)
    return str(found) if found else None


def over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` merged over `below`, field by field at all depths; fields that `above` leaves out come from `below`."""
    merged = dict(below)
    for field, value in above.items():
        under = merged.get(field)
        if isinstance(value, Mapping):
            merged[field] = over(mapping(under), value)
        elif value is not None:
            merged[field] = value
    return merged


def put(section: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    """The section with the value at a path; None removes what is there."""
    first, *rest = path
    if rest:
        return {**section, first: put(section_of(section, first), rest, value)} if first in section else dict(section)
    others = {field: kept for field, kept in section.items() if field != first}
    return others if value is None else others | {first: value}
