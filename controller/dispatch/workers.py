"""Tells Slurm clusters which of their workers are on the host and which are reclaimed, and learns how much each would lose.

    pods as observed ──> board ──> a cluster's reconcile: drains, signals, requeues
    snapshot        <── board <── its workers by how much work is lost with them

The cluster's reconcile drains a worker. The ledger writes the annotation to its pod, and deletes the pod after the deadline if
the drain was not enough (`steps`). Nothing is remembered.

A worker is not evicted, and has time beyond its deadline. A tenant chooses the labels of its pods. So a pod counts as a worker
only if the annotation of its reclaim says so, or if the controller's own reconcile of the tenant's cluster vouches for its UID.
Until that reconcile has run once, a pod that looks like a worker counts as one for a minute. Otherwise a controller that has
just started would evict workers that are being drained.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from bulkhead.ledger.model import Pod, Stage
from bulkhead.work.clock import Clock
from controller.dispatch.seen import Pods
from controller.slurm.board import Board, OnHost

_UNVOUCHED_FOR_SECONDS: Final = 60.0


class Workers:
    """The Slurm workers of all tenants."""

    def __init__(self, board: Board, pods: Pods, clock: Clock) -> None:
        self._board = board
        self._pods = pods
        self._clock = clock
        self._began = clock.monotonic()

    def tell(self) -> None:
        """Show the present workers on the board."""
        workers = (seen for seen in self._pods.seen() if not seen.pod.ending and self._is_worker(seen.pod))
        self._board.show(
            OnHost(seen.pod.tenant, seen.pod.virtual_name, None if seen.reclaim is None else seen.reclaim.by)
            for seen in workers
        )

    def valued(self, pods: Iterable[Pod]) -> tuple[Pod, ...]:
        """The pods of a snapshot: workers with their loss, and pods that only look like workers as ordinary pods."""
        return tuple(self._valued(pod) if pod.slurm_worker else pod for pod in pods)

    def _valued(self, pod: Pod) -> Pod:
        if not self._is_worker(pod):
            return replace(pod, slurm_worker=False)
        return replace(pod, loss=self._board.rank_of(pod.tenant, pod.virtual_name))

    def _is_worker(self, pod: Pod) -> bool:
        if not pod.slurm_worker:
            return False
        seen = self._pods.get(pod.uid)
        noted = None if seen is None or seen.reclaim is None else seen.reclaim.worker
        if noted is not None:
            return noted
        vouched = self._board.vouched(pod.tenant)
        if vouched is not None:
            return pod.virtual_uid in vouched
        return pod.stage is Stage.BOUND and self._clock.monotonic() - self._began < _UNVOUCHED_FOR_SECONDS
