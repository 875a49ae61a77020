"""Keeps users and QOS in a cluster's accounting database: it reads the records, and adds what `decide.accounts` finds missing.

A database that does not answer makes the cluster not ready only until its users have been written once. One that has more
records than are read is always reported, because it does not become readable by itself.
"""

import asyncio
import logging

from bulkhead.work.clock import Clock
from controller.slurm.client.rest import SlurmError, SlurmRest, SlurmTooLarge
from controller.slurm.decide.accounts import ACCOUNT, missing
from controller.slurm.spec import AccountingSpec, SlurmSpec

_log = logging.getLogger(__name__)
_COMPARE_PERIOD_SECONDS = 300.0
_COMPARE_DEADLINE_SECONDS = 15.0
_OF_USERS = frozenset({"users", "users_association"})
_ALL = _OF_USERS | {"qos", "accounts_association", "associations"}


class Accounts:
    """One tenant's accounts; remembers what was written last, and when."""

    def __init__(self, tenant: str, clock: Clock) -> None:
        self._tenant = tenant
        self._clock = clock
        self._kept: tuple[object, float] | None = None
        # Why users and QOS that were written before can no longer be compared; empty if they can.
        self.unread = ""

    async def keep(self, rest: SlurmRest, spec: SlurmSpec, *, users_only: bool = False) -> str:
        """Bring users and QOS into the database; returns why they are missing, or an empty text.

        `users_only`: of the spec only the users are known, so QOS and what users may do with them stay.
        """
        if spec.accounting is None:
            self.unread = ""
            return ""
        wanted = (spec.users, None if users_only else spec.accounting.qos)
        kept, at = self._kept or (None, 0.0)
        if kept == wanted and self._clock.monotonic() - at < _COMPARE_PERIOD_SECONDS:
            return ""
        try:
            async with asyncio.timeout(_COMPARE_DEADLINE_SECONDS):
                written = await _write_missing(rest, spec, spec.accounting, _OF_USERS if users_only else _ALL)
        except (SlurmError, TimeoutError) as error:
            _log.warning("accounts not written: %s", error or "no answer", extra={"tenant": self._tenant})
            too_large = isinstance(error, SlurmTooLarge)
            if kept != wanted:
                self.unread = ""
                return f"users and QOS are not all in the accounting database yet: {error or 'no answer'}"
            # Once they were written, a database that does not answer for a while is not worth reporting.
            self.unread = f"users and QOS are no longer kept in the accounting database: {error}" if too_large else self.unread
            return ""
        self.unread = ""
        if written:
            _log.info("accounts written", extra={"tenant": self._tenant, "records": written})
        self._kept = (wanted, self._clock.monotonic())
        return ""


async def _write_missing(rest: SlurmRest, spec: SlurmSpec, accounting: AccountingSpec, kinds: frozenset[str]) -> int:
    writes = [write for write in missing(spec, accounting, await rest.records(ACCOUNT)) if write.kind in kinds]
    for write in writes:
        await rest.write_database(write.kind, write.body)
    return sum(write.entries for write in writes)
