"""Nodes to which a pod was pinned and on which it was not bound in time: avoided for a while by pods like it of its tenant.

A tenant can keep its own pods from being bound, by anti-affinity, a volume or a host port: that says nothing about others.

Memory only, bounded for each tenant: after a restart a node that fails is tried once more. Why it failed is not asked: a node
that the check takes for good and the scheduler does not would otherwise be chosen again and again.
"""

from typing import Final

from bulkhead.ledger.model import Avoid, Needs, Pod
from bulkhead.work.remembered import Remembered

_AVOIDED_FOR_SECONDS: Final = 300.0
_MOST_NODES_OF_ONE_TENANT: Final = 128
_MOST_TENANTS: Final = 1024


class Avoided:
    """What failed, and until when that counts."""

    def __init__(self) -> None:
        self._until: Remembered[str, Remembered[tuple[Needs, str], float]] = Remembered(_MOST_TENANTS)

    def note(self, pod: Pod, now: float) -> None:
        """A pod was not bound on the node that it was pinned to."""
        mine = self._until.get(pod.tenant) or Remembered(_MOST_NODES_OF_ONE_TENANT)
        mine[pod.needs, pod.pinned] = now + _AVOIDED_FOR_SECONDS
        self._until[pod.tenant] = mine

    def at(self, now: float) -> Avoid:
        """What to avoid at this moment."""
        found: dict[tuple[str, Needs], set[str]] = {}
        for tenant, mine in self._until.items():
            for (needs, node), until in mine.items():
                if until > now:
                    found.setdefault((tenant, needs), set()).add(node)
        return {key: frozenset(nodes) for key, nodes in found.items()}
