"""Keeps users and QOS in a cluster's accounting database: reads what is there, and writes what `decide.accounts` finds missing.

A database that does not answer makes the cluster not ready only until its users have been there once.
"""

import asyncio
import logging

from bulkhead.work.clock import Clock
from controller.slurm.client.rest import SlurmError, SlurmRest
from controller.slurm.decide.accounts import missing
from controller.slurm.spec import AccountingSpec, SlurmSpec

_log = logging.getLogger(__name__)
_COMPARE_PERIOD_SECONDS = 300.0
_COMPARE_DEADLINE_SECONDS = 15.0


class Accounts:
    """One tenant's accounts; remembers what was kept last, and when."""

    def __init__(self, tenant: str, clock: Clock) -> None:
        self._tenant = tenant
        self._clock = clock
        self._kept: tuple[object, float] | None = None

    async def keep(self, rest: SlurmRest, spec: SlurmSpec) -> str:
        """Have users and QOS in the database; returns why they are not there, if they are not."""
        if spec.accounting is None:
            return ""
        wanted = (spec.users, spec.accounting.qos)
        kept, at = self._kept or (None, 0.0)
        if kept == wanted and self._clock.monotonic() - at < _COMPARE_PERIOD_SECONDS:
            return ""
        try:
            async with asyncio.timeout(_COMPARE_DEADLINE_SECONDS):
                written = await _write_missing(rest, spec, spec.accounting)
        except (SlurmError, TimeoutError) as error:
            _log.warning("accounts not kept: %s", error or "no answer", extra={"tenant": self._tenant})
            # Once they were there, a database that is away for a while is no news about them.
            return "" if kept == wanted else f"the accounting database does not take the users yet: {error or 'no answer'}"
        if written:
            _log.info("accounts kept", extra={"tenant": self._tenant, "records": written})
        self._kept = (wanted, self._clock.monotonic())
        return ""


async def _write_missing(rest: SlurmRest, spec: SlurmSpec, accounting: AccountingSpec) -> int:
    writes = missing(spec, accounting, await rest.records())
    for write in writes:
        await rest.write_database(write.kind, write.body)
    return sum(write.entries for write in writes)
