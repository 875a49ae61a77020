"""The order in which a tenant's pods come where not all may wait on the host: by priority and age, and gangs whole. Pure.

A workload is a pod, or all pods of a gang; its rank is that of its best pod. No two pods have the same rank. Last come pods
that their tenant holds back by scheduling gates of its own: the ledger admits none of them, so they must not keep others out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from bulkhead.api.workloads import WorkloadKey, workload_key
from bulkhead.kube.objects import Key

Amounts: TypeAlias = Mapping[str, int]
# The smaller is the better: 1 for what its tenant holds back, negated priorities, when the virtual pod was made, its UID.
QueueOrder: TypeAlias = tuple[int, int, int, str, str]
LAST: Final[QueueOrder] = (2, 0, 0, "", "")


@dataclass(frozen=True, slots=True)
class Gang:
    """Of which gang a pod is, and what it says of it."""

    namespace: str
    name: str
    size: int
    topology: str = ""

    @property
    def key(self) -> Key:
        """The same for all of its pods, whatever they say of its size."""
        return Key(self.namespace, self.name)

    @property
    def words(self) -> str:
        """What a pod says of it, in words."""
        return f"{self.size} pods" + (f" with topology {self.topology}" if self.topology else "")


@dataclass(frozen=True, slots=True)
class QueuedPod:
    """One pod, of those that are on the host or want to be."""

    key: Key
    rank: QueueOrder
    asks: Amounts
    gang: Gang | None = None
    # On the host with the ledger's gate: to delete it loses nothing but its place in the queue.
    movable: bool = False
    uid: str = ""

    @property
    def workload(self) -> WorkloadKey:
        """What is moved in one piece with it."""
        scope = self.key.namespace if self.gang is None else self.gang.namespace
        return workload_key("", scope, gang=None if self.gang is None else self.gang.name, pod=self.key.name)
