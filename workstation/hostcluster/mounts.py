"""Mount points below some folders, from the kernel's table of a mount namespace. Pure."""

from collections.abc import Iterable
from pathlib import Path

TABLE = Path("/proc/self/mountinfo")


def below(table: str, tops: Iterable[Path]) -> list[str]:
    """Mount points in these folders, deepest first. A folder that is itself a mount belongs to its owner, not to us."""
    prefixes = tuple(f"{top}/" for top in tops)
    found = [line.split()[4].encode().decode("unicode_escape") for line in table.splitlines()]
    return sorted((where for where in found if where.startswith(prefixes)), key=len, reverse=True)
