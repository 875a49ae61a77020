"""Enqueues the tenants of a Cohort that was created, changed or deleted; `handlers.Events` knows the tenants.

    Cohort ──> informer ──> name ──> every Tenant that names it, enqueued

The Cohort itself is read where it is needed: by a Tenant's reconcile, and by the ledger.
"""

from collections.abc import Callable

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from controller.host.matters import asked, watching

_CACHE_BYTES = 4 * 1024 * 1024


class Cohorts:
    """The Cohorts of one host."""

    def __init__(self, client: Client, on_cohort: Callable[[str], None]) -> None:
        # Without the status, into which the ledger writes sums with every pod.
        # The kind does not exist until the CRDs of an upgrade are in place.
        self._informer = watching(client, kinds.COHORTS, asked, on_cohort, max_bytes=_CACHE_BYTES, optional=True)

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._informer.run()
