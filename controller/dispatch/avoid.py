"""Remembers nodes on which a pinned pod was not bound in time. Similar pods of the same tenant avoid them for a while.

Other tenants do not avoid them: a tenant can keep its own pods from being bound, by anti-affinity, a volume or a host port.

This is kept in memory only, with a limit for each tenant. After a restart a failed node is tried once more. The cause does not
matter: without this, the placement check would choose the same node again and again although the scheduler refuses it.
"""

from typing import Final

from bulkhead.ledger.model import Avoid, Needs, Pod
from bulkhead.work.remembered import Remembered

_AVOIDED_FOR_SECONDS: Final = 300.0
_MOST_NODES_OF_ONE_TENANT: Final = 128
_MOST_TENANTS: Final = 1024


class Avoided:
    """Nodes on which a binding failed, and until when they are avoided."""

    def __init__(self) -> None:
        self._until: Remembered[str, Remembered[tuple[Needs, str], float]] = Remembered(_MOST_TENANTS)

    def note(self, pod: Pod, now: float) -> None:
        """Note that a pod was not bound on the node that it was pinned to."""
        mine = self._until.get(pod.tenant) or Remembered(_MOST_NODES_OF_ONE_TENANT)
        mine[pod.needs, pod.pinned] = now + _AVOIDED_FOR_SECONDS
        self._until[pod.tenant] = mine

    def at(self, now: float) -> Avoid:
        """The nodes to avoid at this moment."""
        found: dict[tuple[str, Needs], set[str]] = {}
        for tenant, mine in self._until.items():
            for (needs, node), until in mine.items():
                if until > now:
                    found.setdefault((tenant, needs), set()).add(node)
        return {key: frozenset(nodes) for key, nodes in found.items()}
