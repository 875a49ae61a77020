"""Where the ledger and the clusters of Slurm tell each other about workers, within one process.

    ledger ──> which workers' pods are on the host, and until when they are taken back ──> a cluster's reconcile, at once
           <── whose workers these are, and what it costs to take each of them         <──

It holds what both observe anew all the time, and decides nothing: after a restart it is empty until each has spoken again.
While nobody tells of the host, a tenant has no entry, and what its Slurm was told before holds.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OnHost:
    """A worker's pod on the host."""

    tenant: str
    name: str
    # Until when it is taken back, in seconds since 1970; None for one that is not.
    by: float | None = None


class Board:
    """One for the process."""

    def __init__(self) -> None:
        self._on_host: dict[str, dict[str, OnHost]] | None = None
        self._ranks: dict[str, Mapping[str, int]] = {}
        self._vouched: dict[str, frozenset[str]] = {}
        self._wake: Callable[[str], object] = lambda _: None

    def listen(self, wake: Callable[[str], object]) -> None:
        """Have `wake` called with each tenant of which something else is taken back than before."""
        self._wake = wake

    def show(self, workers: Iterable[OnHost]) -> None:
        """By the ledger: all workers' pods that are on the host and not on their way out."""
        before, now = self._on_host or {}, dict[str, dict[str, OnHost]]()
        for worker in workers:
            now.setdefault(worker.tenant, {})[worker.name] = worker
        self._on_host = now
        for tenant in sorted(before.keys() | now.keys()):
            if _taken(before.get(tenant, {})) != _taken(now.get(tenant, {})):
                self._wake(tenant)

    def silent(self) -> None:
        """The ledger does not watch the host any more."""
        self._on_host = None

    def on_host(self, tenant: str) -> Mapping[str, OnHost] | None:
        """A tenant's workers on the host by name; None while nobody tells."""
        return None if self._on_host is None else self._on_host.get(tenant, {})

    def vouch(self, tenant: str, uids: frozenset[str]) -> None:
        """By a cluster: the UIDs, in its plane, of the pods that are its workers, as far as its host has ordered them."""
        self._vouched[tenant] = uids

    def vouched(self, tenant: str) -> frozenset[str] | None:
        """The UIDs of a tenant's workers in its plane; None while its cluster has not spoken."""
        return self._vouched.get(tenant)

    def forget(self, tenant: str) -> None:
        """Nobody speaks for a tenant's cluster any more."""
        self._vouched.pop(tenant, None)
        self._ranks.pop(tenant, None)

    def rank(self, tenant: str, ranks: Mapping[str, int]) -> None:
        """By a cluster: its workers by what it costs to take them, below 0 where nothing is lost."""
        if ranks:
            self._ranks[tenant] = ranks
        else:
            self._ranks.pop(tenant, None)

    def rank_of(self, tenant: str, name: str) -> int | None:
        """What it costs to take one worker, in comparison; None where its Slurm has not said."""
        return self._ranks.get(tenant, {}).get(name)


def _taken(workers: Mapping[str, OnHost]) -> dict[str, float]:
    return {name: worker.by for name, worker in workers.items() if worker.by is not None}
