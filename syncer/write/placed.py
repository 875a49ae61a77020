"""The record of virtual pods that the host has placed, by UID. It is kept on the host, where no tenant can change it.

    note(uid) ──> those that wait together are one write ──> `placed-pods-recent`, at most a few hundred
                        full ──> what a fresh list of the plane does not have is left out, the rest goes into `placed-pods`

An entry is written before the plane learns of the node, and stays until the plane, while trusted, has no pod of this UID. So it
outlives the host pod and the syncer. Both ConfigMaps are in the plane's namespace, which no pod of the tenant can name. A lost
entry, or one without room, raises no alarm: `decide` says what counts then.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.api.planeidentity import PLACED_NAME
from bulkhead.api.untrusted import mapping, text
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from bulkhead.kube.objects import uid_of, version_of
from bulkhead.kube.resources import CONFIG_MAPS, PODS
from syncer import metrics
from syncer.write.budget import WriteBudget
from syncer.write.identity import PlaneIdentity

_log = logging.getLogger(__name__)

RECENT: Final = PLACED_NAME
OLDER: Final = "placed-pods"
KEY: Final = "uids"
# Each note writes all of these again, so they are few; each fold all of the others, so they are not fewer.
MOST_RECENT: Final = 200
# Of the text; an API server takes a MiB. Some 24,000 pods.
MOST_BYTES: Final = 900_000
_LONGEST: Final = 63  # as a label's value, which a UID is on host pods


class _Page:
    """One ConfigMap of UIDs as it was last read or written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.uids: frozenset[str] = frozenset()
        self.version = ""

    def show(self, found: Obj | None) -> None:
        listed = text(mapping(mapping(found).get("data")).get(KEY)).split()
        self.uids = frozenset(uid for uid in listed if len(uid) <= _LONGEST)
        self.version = "" if found is None else version_of(found)


class PlacedPods:
    """Notes on the host which virtual pods it has placed, and says whether it has placed a given one."""

    def __init__(
        self,
        virtual: Client,
        host: Client,
        plane_namespace: str,
        *,
        budget: WriteBudget,
        identity: PlaneIdentity,
        cached: Callable[[], Iterable[str]],
    ) -> None:
        self._virtual = virtual
        self._host = host
        self._namespace = plane_namespace
        self._budget = budget
        self._identity = identity
        # UIDs of the virtual pods that the cache shows: the plane is asked about any other.
        self._cached = cached
        self._recent, self._older = _Page(RECENT), _Page(OLDER)
        # For which there is no room on the host: known until the process ends.
        self._beyond: frozenset[str] = frozenset()
        self._waiting: set[str] = set()
        self._turn = asyncio.Lock()

    def __contains__(self, uid: str) -> bool:
        return uid in self._recent.uids or uid in self._older.uids or uid in self._beyond

    async def load(self) -> None:
        """Read the record; before that it is unknown which pods were placed."""
        for page in (self._older, self._recent):
            try:
                page.show(await self._host.get(CONFIG_MAPS, page.name, self._namespace))
            except NotFound:
                page.show(None)

    async def note(self, uid: str) -> None:
        """Note that the host has placed this virtual pod; returns once that is on the host."""
        self._waiting.add(uid)
        async with self._turn:
            if uid not in self:
                await self._write()
            self._waiting.discard(uid)

    async def _write(self) -> None:
        try:
            await self._append()
        except (AlreadyExists, Conflict):
            # Another process wrote, an outside hand did, or an answer to an earlier write was lost.
            await self.load()
            await self._append()

    async def _append(self) -> None:
        more = frozenset(self._waiting)
        if len(self._recent.uids | more) > MOST_RECENT:
            await self._fold()
        await self._put(self._recent, self._recent.uids | more)

    async def _fold(self) -> None:
        """Move the recent entries to the older page, without pods that the plane no longer has."""
        known = self._older.uids | self._recent.uids | self._beyond
        kept = known - await self._gone(known)
        if len(_written(kept)) > MOST_BYTES:
            _log.error("no room to remember which pods were placed: %d pods", len(kept))
            self._beyond |= self._recent.uids
        else:
            await self._put(self._older, kept)
            self._beyond = frozenset()
        metrics.PLACED_BEYOND.set(len(self._beyond))
        # On the host they stand in both until the next write.
        self._recent.uids = frozenset()

    async def _gone(self, known: frozenset[str]) -> frozenset[str]:
        """The pods of these that the plane does not have; none while there are too few to ask, or the plane is not trusted."""
        absent = known.difference(self._cached())
        if len(absent) < MOST_RECENT or 4 * len(absent) < len(known):
            return frozenset()
        try:
            there = {uid_of(item) for item in (await self._virtual.list_metadata(PODS)).items}
            return absent - there if await self._identity.trusted() else frozenset()
        except KubeError as error:
            _log.warning("pods of the plane not listed, so it stays noted that they were placed: %s", error)
            return frozenset()

    async def _put(self, page: _Page, uids: frozenset[str]) -> None:
        body: Obj = {"data": {KEY: _written(uids)}}
        await self._budget.take()
        if page.version:
            body["metadata"] = {"resourceVersion": page.version}
            try:
                written = await self._host.patch(CONFIG_MAPS, page.name, body, self._namespace)
            except NotFound:
                # An outside hand took it away: all that is known is written again.
                page.version = ""
                return await self._put(page, uids)
        else:
            typed = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": page.name}}
            written = await self._host.create(CONFIG_MAPS, typed | body, self._namespace)
        metrics.host_write("ConfigMap", "patch" if "metadata" in body else "create")
        self._budget.spend(len(body["data"][KEY]))
        page.uids, page.version = uids, version_of(written)
        return None


def _written(uids: Iterable[str]) -> str:
    return "\n".join(sorted(uids))
