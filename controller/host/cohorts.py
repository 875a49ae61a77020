"""Tells the tenants of a cohort that its Cohort was made, changed or deleted; `handlers.Events` knows who they are.

    Cohort ──> informer ──> name ──> every Tenant that names it, queued

What it says is read where it is needed: by a Tenant's reconcile, and by the ledger.
"""

from collections.abc import Callable

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from controller.host.matters import asked, watching

_CACHE_BYTES = 4 * 1024 * 1024


class Cohorts:
    """The Cohorts of one host."""

    def __init__(self, client: Client, on_cohort: Callable[[str], None]) -> None:
        # Not its status, into which the ledger writes sums with every pod.
        # Before the definitions of an upgrade have come there is no such kind.
        self._informer = watching(client, kinds.COHORTS, asked, on_cohort, max_bytes=_CACHE_BYTES, optional=True)

    async def run(self) -> None:
        """Keep up until cancelled."""
        await self._informer.run()
