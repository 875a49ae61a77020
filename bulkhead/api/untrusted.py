"""Reading objects whose shape was not checked: what has the wrong type reads as empty. Pure.

    mapping(obj.get("spec")).get("nodeName")        mappings(status.get("conditions"))        text(meta.get("name"))

Nothing is converted and nothing is refused: to report to a tenant what is wrong with its object takes a schema.
"""

from collections.abc import Mapping
from typing import Any


def mapping(value: Any) -> Mapping[str, Any]:
    """`value` where it is a mapping, else an empty one."""
    # What JSON makes is a dict; the check of an abstract class takes ten times as long.
    return value if isinstance(value, dict) or isinstance(value, Mapping) else {}  # noqa: SIM101


def sequence(value: Any) -> list[Any]:
    """`value` where it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def mappings(value: Any, most: int | None = None) -> list[Mapping[str, Any]]:
    """The mappings among the first `most` items of a list; none where there is no list."""
    return [entry for entry in sequence(value)[:most] if isinstance(entry, dict) or isinstance(entry, Mapping)]  # noqa: SIM101


def text(value: Any) -> str:
    """`value` where it is a string, else an empty one."""
    return value if isinstance(value, str) else ""
