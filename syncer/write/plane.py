"""Writes to the tenant's plane: status, binding, conditions, and the end of pods whose host pod is gone.

The plane is hostile: a webhook may refuse or rewrite what is written. So a status that was written and did not stick is
written again only after a growing pause, never in a hot loop, and every write names the UID or version that it is for.

What was written comes back as an event. Until then the cache is behind, and acting on it would write twice or meet a conflict:
`behind` says so.
"""

import logging
from collections.abc import Callable
from typing import Final

from bulkhead.api.conditions import timestamp
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import placed_on
from bulkhead.api.untrusted import mapping
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict, NotFound, NotServed
from bulkhead.kube.objects import Key, Resource, key_of, uid_of, version_number, version_of
from bulkhead.kube.resources import PODS
from bulkhead.work.clock import Clock
from bulkhead.work.remembered import Remembered
from syncer import metrics
from syncer.logs import about
from syncer.translate import Reason, Untranslatable, mergepatch
from syncer.translate.kinds import podstatus
from syncer.work import Again
from syncer.write.host import digest

_log = logging.getLogger(__name__)

Blocked = Callable[[Obj, Reason, str, str], Obj]

_REMEMBERED: Final = 20_000
_FREE_TRIES: Final = 3
_LONGEST_PAUSE: Final = 30.0
# An echo that did not come within this time is not waited for any longer.
_ECHO_SECONDS: Final = 3.0


class _Echo:
    """Remembers what was last wanted of an object and how often it was written."""

    __slots__ = ("tries", "wanted", "written")

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted
        self.tries = 0
        self.written = float("-inf")


class VirtualWriter:
    """The only place that writes pods and services in the plane."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._echoes: Remembered[str, _Echo] = Remembered(_REMEMBERED)
        # UID -> until when the cache may be behind, and the version of our last write; 0: a binding, whose version is unknown.
        self._ahead: Remembered[str, tuple[float, int]] = Remembered(_REMEMBERED)

    def behind(self, virtual: Obj) -> bool:
        """Whether the event of our own last write to this object is still to come: it brings the key again."""
        uid = uid_of(virtual)
        ahead = self._ahead.get(uid)
        if ahead is None:
            return False
        until, version = ahead
        held = version_number(version_of(virtual))
        seen = held is not None and held >= version if version else bool(placed_on(virtual))
        if not seen and self._clock.monotonic() < until:
            return True
        del self._ahead[uid]
        return False

    def _wrote(self, uid: str, version: str) -> None:
        if (number := version_number(version)) is not None:
            self._ahead[uid] = (self._clock.monotonic() + _ECHO_SECONDS, number)

    @staticmethod
    def shows(virtual: Obj, status: Obj) -> bool:
        """Whether the status of a virtual object says the same as this one."""
        return podstatus.same(virtual.get("status"), status)

    async def status(self, r: Resource, virtual: Obj, desired: Obj) -> Obj | None:
        """Make the status of a virtual object `desired`; returns the object as written, None when it was so already."""
        current = dict(mapping(virtual.get("status")))
        patch = mergepatch.between(current, desired)
        if not patch or podstatus.same(current, desired):
            return None
        self._pace(uid_of(virtual), digest(desired))
        key = key_of(virtual)
        body = {"metadata": {"uid": uid_of(virtual), "resourceVersion": version_of(virtual)}, "status": patch}
        self._count(r, "status")
        written = await self._client.patch(r, key.name, body, key.namespace, subresource="status")
        self._wrote(uid_of(virtual), version_of(written))
        return written

    def _pace(self, uid: str, wanted: str) -> None:
        echo = self._echoes.get(uid)
        if echo is None or echo.wanted != wanted:
            echo = _Echo(wanted)
        self._echoes[uid] = echo
        pause = 0.0 if echo.tries < _FREE_TRIES else min(_LONGEST_PAUSE, 2.0 ** (echo.tries - _FREE_TRIES))
        left = echo.written + pause - self._clock.monotonic()
        if left > 0:
            raise Again(left, "the plane did not keep the status that was written")
        echo.tries += 1
        echo.written = self._clock.monotonic()

    async def refusal(
        self, virtual: Obj, refused: Untranslatable, r: Resource = PODS, blocked: Blocked = podstatus.blocked
    ) -> bool:
        """Write into the object's status, usually a pod's, why it is not on the host; False if it says so already."""
        now = timestamp(self._clock.now())
        return await self.status(r, virtual, blocked(virtual, refused.reason, str(refused), now)) is not None

    async def bind(self, virtual: Obj, node: str) -> None:
        """Bind a virtual pod to the node that the host chose."""
        key = key_of(virtual)
        body: Obj = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid_of(virtual)},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self._count(PODS, "bind")
        self._wrote(uid_of(virtual), "0")
        try:
            await self._client.create_subresource(PODS, key.name, "binding", body, key.namespace)
        except Conflict:
            # Bound before: the cache does not show it yet.
            return
        except BaseException:
            # Perhaps no event comes: wait for none.
            self._ahead.pop(uid_of(virtual), None)
            raise
        _log.info("virtual pod bound", extra=about("Pod", key, node=node))

    async def delete_pod(self, virtual: Obj, *, grace: int | None, why: str) -> None:
        """Delete one exact virtual pod."""
        key = key_of(virtual)
        self._count(PODS, "delete")
        try:
            await self._client.delete(PODS, key.name, key.namespace, grace_seconds=grace, uid=uid_of(virtual))
        except Conflict:
            return
        _log.info("virtual pod deleted", extra=about("Pod", key, why=why, grace=grace))

    async def read(self, r: Resource, key: Key) -> Obj | None:
        """Read from the plane, past the cache; None where it says that there is no such object."""
        try:
            return await self._client.get(r, key.name, key.namespace)
        except NotServed:
            # An API that is switched off proves no absence.
            raise
        except NotFound:
            return None

    def _count(self, r: Resource, verb: str) -> None:
        metrics.virtual_write(r.kind, verb)
