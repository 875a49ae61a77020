"""Nodes to which a pod was pinned and on which it was not bound in time: avoided for a while by pods with the same needs.

Memory only, bounded: after a restart a node that fails is tried once more. Why it failed is not asked: a node that the check
takes for good and the scheduler does not would otherwise be chosen again and again.
"""

from collections.abc import Mapping
from typing import Final

from bulkhead.ledger.model import Needs
from bulkhead.work.remembered import Remembered

_SECONDS: Final = 300.0
_MOST: Final = 1024


class Avoided:
    """What failed, and until when that counts."""

    def __init__(self) -> None:
        self._until: Remembered[tuple[Needs, str], float] = Remembered(_MOST)

    def note(self, needs: Needs, node: str, now: float) -> None:
        """A pod with these needs was not bound on this node."""
        self._until[needs, node] = now + _SECONDS

    def at(self, now: float) -> Mapping[Needs, frozenset[str]]:
        """What to avoid at this moment."""
        found: dict[Needs, set[str]] = {}
        for (needs, node), until in self._until.items():
            if until > now:
                found.setdefault(needs, set()).add(node)
        return {needs: frozenset(nodes) for needs, nodes in found.items()}
