"""Leader election by a Lease object: one holder, on local time only, which never runs backwards.

Not fencing: a process that was stopped for longer than the lease may wake up and not know yet. So the holder treats the
lease as lost when `renew_deadline` passed without a renewal, which is before others may take it (`duration`). The time that
its machine was suspended counts: another machine's process may have taken the lease meanwhile.

    acquire() ──> held ──> renew every `retry` s ──┬── renewed ──> held
                                                   └── deadline passed, or another process holds it ──> lost is set
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from bulkhead.kube.objects import version_of
from bulkhead.kube.resources import LEASES
from bulkhead.work.clock import SystemClock

_log = logging.getLogger(__name__)


class LeaderLease:
    """One identity's claim to one Lease."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry: float = 2.0,
        elapsed: Callable[[], float] | None = None,
    ) -> None:
        """`elapsed` are seconds that never run backwards and go on while the machine is suspended."""
        self.lost = asyncio.Event()
        self.holder = ""
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._duration = duration
        self._deadline = renew_deadline
        self._retry = retry
        self._elapsed = elapsed or SystemClock().elapsed
        self._seen = ("", 0.0)
        self._renewed = 0.0

    @property
    def held(self) -> bool:
        """Whether this process leads, as far as it can know.

        Right even in a process that was stopped, or whose machine was suspended, and that has just woken up: nothing but the
        time of the last renewal counts.
        """
        in_time = self._elapsed() < self._renewed + self._deadline
        return self.holder == self._identity and not self.lost.is_set() and in_time

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator["LeaderLease"]:
        """Acquire, renew in the background while the body runs, release at the end; watch `lost` inside."""
        await self.acquire()
        renewal = asyncio.create_task(self.renew(), name=f"lease {self._name}")
        try:
            yield self
        finally:
            renewal.cancel()
            await asyncio.wait([renewal])
            if self.held:
                await self.release()

    async def acquire(self, *, hopeless: Callable[[BaseException], bool] = lambda _: False) -> None:
        """Return when the lease is ours, however long that takes. An error that is `hopeless` is raised and not waited out."""
        self.lost.clear()
        while True:
            self._renewed = self._elapsed()
            try:
                async with asyncio.timeout(self._deadline / 2):
                    taken = await self._claim()
            except (KubeError, TimeoutError) as error:
                if hopeless(error):
                    raise
                _log.warning("lease not reached: %s", error, extra={"lease": self._name})
                taken = False
            if taken:
                _log.info("leading", extra={"lease": self._name, "identity": self._identity})
                return
            await asyncio.sleep(self._retry)

    async def renew(self) -> None:
        """Renew until the lease is lost; then set `lost` and return."""
        while True:
            await asyncio.sleep(self._retry)
            left = self._renewed + self._deadline - self._elapsed()
            if left <= 0:
                break
            started = self._elapsed()
            try:
                async with asyncio.timeout(min(left, self._deadline / 2)):
                    if await self._claim():
                        self._renewed = started
                        continue
            except (KubeError, TimeoutError) as error:
                _log.warning("lease not renewed: %s", error, extra={"lease": self._name})
                continue
            break
        _log.error("lease lost", extra={"lease": self._name, "holder": self.holder})
        self.lost.set()

    async def release(self) -> None:
        """Give the lease up, so that the next one need not wait; a failure only costs that wait."""
        try:
            async with asyncio.timeout(self._deadline / 2):
                lease = await self._client.get(LEASES, self._name, self._namespace)
                if lease["spec"].get("holderIdentity") == self._identity:
                    lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                    await self._client.replace(LEASES, lease)
        except (KubeError, TimeoutError) as error:
            _log.warning("lease not released: %s", error, extra={"lease": self._name})
        self.holder = ""

    async def _claim(self) -> bool:
        """Take or renew the lease in one optimistic write; False when another process has it."""
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            return await self._create()
        spec: dict[str, Any] = lease.setdefault("spec", {})
        self.holder = spec.get("holderIdentity") or ""
        if self.holder and self.holder != self._identity and not self._expired(lease):
            return False
        if self.holder != self._identity:
            spec["leaseTransitions"] = spec.get("leaseTransitions", 0) + 1
            spec["acquireTime"] = _now()
        spec |= self._term()
        try:
            await self._client.replace(LEASES, lease)
        except Conflict:
            return False
        self.holder = self._identity
        return True

    async def _create(self) -> bool:
        spec = self._term() | {"acquireTime": _now(), "leaseTransitions": 0}
        lease = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": spec,
        }
        try:
            await self._client.create(LEASES, lease)
        except AlreadyExists:
            return False
        self.holder = self._identity
        return True

    def _term(self) -> dict[str, Any]:
        return {"holderIdentity": self._identity, "leaseDurationSeconds": round(self._duration) or 1, "renewTime": _now()}

    def _expired(self, lease: Obj) -> bool:
        """Whether the lease was not written for its whole duration, by our own clock: clocks of others are never compared."""
        now = self._elapsed()
        version = version_of(lease)
        if self._seen[0] != version:
            self._seen = (version, now)
            return False
        return now - self._seen[1] > float(lease["spec"].get("leaseDurationSeconds") or self._duration)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
