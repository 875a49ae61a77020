"""Tells the clusters of Slurm which of their workers' pods are on the host and which go back, and hears what each is worth.

    pods as observed ──> board ──> a cluster's reconcile: drains, signals, queues again
    snapshot        <── board <── its workers by what is lost with them

The drain of a worker is theirs: what is written to its pod here is the note, and after its deadline, where that was not enough,
its end (`steps`). Nothing is remembered.
"""

from collections.abc import Iterable
from dataclasses import replace

from bulkhead.ledger.model import Pod
from controller.ledger.seen import Pods
from controller.slurm.board import Board, OnHost


class Workers:
    """Of all tenants."""

    def __init__(self, board: Board, pods: Pods) -> None:
        self._board = board
        self._pods = pods

    def tell(self) -> None:
        """Show what is there now."""
        workers = (seen for seen in self._pods.seen() if seen.pod.slurm_worker and not seen.pod.ending)
        self._board.show(
            OnHost(seen.pod.tenant, seen.pod.virtual_name, None if seen.reclaim is None else seen.reclaim.by)
            for seen in workers
        )

    def valued(self, pods: Iterable[Pod]) -> tuple[Pod, ...]:
        """The pods of a snapshot, workers with what is lost with them."""
        return tuple(
            replace(pod, loss=self._board.rank_of(pod.tenant, pod.virtual_name)) if pod.slurm_worker else pod for pod in pods
        )
