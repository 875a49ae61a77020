"""JSON merge patches: what must be sent so that one value becomes another. Pure.

Lists are replaced whole, as the standard has it; a field that is to go is sent as null.
"""

from typing import Any


def between(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The merge patch that turns `old` into `new`; empty when they are equal."""
    patch: dict[str, Any] = {}
    for name, value in new.items():
        held = old.get(name)
        if isinstance(value, dict) and isinstance(held, dict):
            inner = between(held, value)
            if inner:
                patch[name] = inner
        elif held != value:
            patch[name] = value
    for name, held in old.items():
        if name not in new and held is not None:
            patch[name] = None
    return patch
