"""Lets the ledger and the Slurm clusters exchange news about workers, within one process.

    ledger ──> which workers' pods are on the host, and the deadlines of their reclaims ──> a cluster's reconcile, at once
           <── the workers that each cluster vouches for, and how much each would lose  <──

It holds observations that both sides repeat all the time, and decides nothing: after a restart it is empty until both have
reported again. While the ledger does not watch the host, tenants have no entries, and earlier drains in Slurm stay valid.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OnHost:
    """A worker's pod on the host."""

    tenant: str
    name: str
    # The deadline of its reclaim, in seconds since 1970; None if it is not being reclaimed.
    by: float | None = None


class Board:
    """The board of a process."""

    def __init__(self) -> None:
        self._on_host: dict[str, dict[str, OnHost]] | None = None
        self._ranks: dict[str, Mapping[str, int]] = {}
        self._vouched: dict[str, frozenset[str]] = {}
        self._wake: Callable[[str], object] = lambda _: None

    def listen(self, wake: Callable[[str], object]) -> None:
        """Call `wake` with each tenant whose reclaims change."""
        self._wake = wake

    def show(self, workers: Iterable[OnHost]) -> None:
        """Called by the ledger: all workers' pods that are on the host and not on their way out."""
        before, now = self._on_host or {}, dict[str, dict[str, OnHost]]()
        for worker in workers:
            now.setdefault(worker.tenant, {})[worker.name] = worker
        self._on_host = now
        for tenant in sorted(before.keys() | now.keys()):
            if _taken(before.get(tenant, {})) != _taken(now.get(tenant, {})):
                self._wake(tenant)

    def silent(self) -> None:
        """Called by the ledger: it no longer watches the host."""
        self._on_host = None

    def on_host(self, tenant: str) -> Mapping[str, OnHost] | None:
        """A tenant's workers on the host, by name; None while the ledger does not watch the host."""
        return None if self._on_host is None else self._on_host.get(tenant, {})

    def vouch(self, tenant: str, uids: frozenset[str]) -> None:
        """Called by a cluster: the UIDs in its plane of the pods that are its workers, as far as the host has ordered them."""
        self._vouched[tenant] = uids

    def vouched(self, tenant: str) -> frozenset[str] | None:
        """The UIDs of a tenant's workers in its plane; None until its cluster has reported."""
        return self._vouched.get(tenant)

    def forget(self, tenant: str) -> None:
        """Forget a tenant, because its cluster no longer has a task."""
        self._vouched.pop(tenant, None)
        self._ranks.pop(tenant, None)

    def rank(self, tenant: str, ranks: Mapping[str, int]) -> None:
        """Called by a cluster: how much work would be lost with each worker, below 0 if none."""
        if ranks:
            self._ranks[tenant] = ranks
        else:
            self._ranks.pop(tenant, None)

    def rank_of(self, tenant: str, name: str) -> int | None:
        """How much work would be lost with a worker, relative to others; None if its Slurm has not reported."""
        return self._ranks.get(tenant, {}).get(name)


def _taken(workers: Mapping[str, OnHost]) -> dict[str, float]:
    return {name: worker.by for name, worker in workers.items() if worker.by is not None}
