"""What admission and metering mean by the same word. Pure."""

from typing import TypeAlias

# A flavor, which is a kind of node with a quota of its own, and the resource; the flavor is "" where a resource has none.
Line: TypeAlias = tuple[str, str]
