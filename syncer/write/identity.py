"""Whether this is the plane that the host objects were made for, and not an older copy of it.

The UID of the tenant's kube-system namespace and the highest revision seen are kept on the host, in the ConfigMap
`plane-identity`. A plane with another UID, or one whose revision went back (restored, or etcd data lost), is quarantined:
from then on nothing is deleted on the host, and an alarm is raised. The quarantine stays through restarts of the syncer,
because the revision of a rolled-back plane grows past the recorded one in time. An operator ends it by deleting the
ConfigMap (`bulkhead tenant accept-data`); the plane as it then is becomes the one that counts.

A syncer that starts and finds no record takes that for an acceptance if the record of placed pods is still there, which lies
beside it; no tenant can delete either. Where both are missing, the plane is new, and there is nothing to accept. Or its whole
namespace was lost while the host still has its objects: then the mass-delete breaker has to count. So for a tenant that never
had a pod, an acceptance while its syncer is stopped leaves the breaker counting. An acceptance stands in the record with its
time, so that it counts on if the syncer starts again before everything is deleted. What the breaker counted stands there too,
and that it is open: deleting the ConfigMap accepts the plane then as well.

    before a host delete ──> trusted() ──> fresh read of kube-system ──> same UID? revision not behind? ──> go
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from bulkhead.api.conditions import timestamp
from bulkhead.api.labels import QUARANTINED
from bulkhead.api.objects import Obj
from bulkhead.api.planeidentity import (
    ABSENCES_KEY,
    ACCEPTED_KEY,
    ACCEPTED_SECONDS,
    BREAKER_KEY,
    INCOMPLETE_KEY,
    NAME,
    PLACED_NAME,
    QUARANTINE_KEY,
    REVISION_KEY,
    UID_KEY,
    Observed,
    Recorded,
    judge,
    recorded,
    seconds_accepted,
)
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, KubeError, NotFound
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import version_number
from bulkhead.kube.resources import CONFIG_MAPS, NAMESPACES
from bulkhead.work.clock import Clock
from syncer import metrics
from syncer.work import Again
from syncer.write.announce import announce

_log = logging.getLogger(__name__)

RECORD_SECONDS: Final = 5.0
# A plane whose data is lost while nothing changes on the host is noticed by this.
CHECK_SECONDS: Final = 30.0
# So old may be what the record is believed to say: the controller quarantines a plane before it takes the first of its volumes,
# and those that wait for a deletion need not all read the record again.
READ_SECONDS: Final = 1.0


class PlaneIdentity:
    """Keeps the record and answers whether the plane may be believed about absences."""

    def __init__(self, virtual: Client, host: Client, plane_namespace: str, clock: Clock) -> None:
        self._virtual = virtual
        self._host = host
        self._namespace = plane_namespace
        self._clock = clock
        self._recorded = Recorded()
        self._established = False
        # Whether the quarantine is in memory alone, because the host could not take it.
        self._unwritten = False
        # Which objects of the plane are unknown: in a record that is deleted and written again as well.
        self._incomplete = ""
        # Whether an operator has accepted the plane, and `on_accepted` was not called yet.
        self._accepted = False
        self._highest = 0
        self._written = 0
        self._checked = self._read_at = float("-inf")
        self._turn = asyncio.Lock()
        # The acceptance that an earlier process has recorded; None once this one has established the plane.
        self._earlier: Recorded | None = Recorded()
        # Called once the plane's data is not believed, and once an operator has accepted the plane as it is: with the seconds
        # for which that counts.
        self.on_quarantined: Callable[[], object] = lambda: None
        self.on_accepted: Callable[[float], object] = lambda _: None

    @property
    def quarantine(self) -> str:
        """Why nothing is deleted on the host, or an empty text."""
        return self._recorded.quarantine

    @property
    def record(self) -> Recorded:
        """What the host remembers, as last read or written."""
        return self._recorded

    @property
    def established(self) -> bool:
        """Whether the plane was seen and compared with the record."""
        return self._established

    def saw(self, resource_version: str) -> None:
        """Note that the plane showed an object of this version."""
        if (number := version_number(resource_version)) is not None:
            self._highest = max(self._highest, number)

    def noticed(self, change: Change) -> None:
        """Note what a watch or a list of the plane showed.

        What a list no longer has is told with the version that it had before. Once the plane's data was replaced, that is a
        version of the former plane, and the accepted one would look as if it had gone back.
        """
        if not (change.kind == "deleted" and change.relist):
            self.saw(change.meta.resource_version)

    async def trusted(self) -> bool:
        """Whether the plane that answers right now is the one that the host objects belong to.

        Only a check that began after the question counts: the absence that the caller saw may be another plane's. Callers that
        wait together share one check.
        """
        asked = self._clock.monotonic()
        async with self._turn:
            if self._checked <= asked:
                await self._check()
            return self._established and not self._recorded.quarantine

    async def establish(self) -> None:
        """Read the record and compare, or make the record."""
        async with self._turn:
            await self._check()

    async def keep(self) -> None:
        """Record the highest revision from time to time, and notice when an operator accepts the plane. Runs for ever."""
        while True:
            await self._clock.sleep(RECORD_SECONDS)
            try:
                async with self._turn:
                    await self._refresh()
            except KubeError as error:
                _log.warning("plane identity not recorded: %s", error)

    async def flush(self) -> None:
        """Record the highest revision before the process ends.

        While an admin may end something by deleting the record, that may have happened: written again, it would undo it.
        """
        async with self._turn:
            deleted_perhaps = self._to_accept and not self._unwritten
            if self._established and not deleted_perhaps and self._highest > self._written:
                await self._write(Recorded(self._recorded.uid, self._highest, self._recorded.quarantine))

    async def note(self, absences: str, breaker_open: str) -> None:
        """Record what the mass-delete breaker counted, or why it is open. Raises KubeError where the host does not take it."""
        async with self._turn:
            if self._recorded.quarantine:
                # Nothing is deleted now, and an all-clear may be on its way: a write would record the quarantine once more.
                return
            if not self._recorded.uid:
                raise Again(1.0, "the plane's identity is not recorded yet")
            revision = max(self._highest, self._recorded.revision)
            why = breaker_open or self._recorded.breaker_open
            await self._write(replace(self._recorded, revision=revision, absences=absences, breaker_open=why))

    async def note_incomplete(self, why: str) -> None:
        """Record which objects of the plane are unknown, if any. Raises KubeError where the host does not take it."""
        async with self._turn:
            await self._host.patch(CONFIG_MAPS, NAME, {"data": {INCOMPLETE_KEY: why or None}}, self._namespace)
            self._incomplete = why

    async def _refresh(self) -> None:
        # Without a record, its writing has failed.
        settled = self._recorded.uid and not self._to_accept
        if not settled or self._clock.monotonic() - self._checked >= CHECK_SECONDS:
            await self._check()
        elif self._established and self._highest > self._written:
            await self._write(Recorded(self._recorded.uid, self._highest))

    @property
    def _to_accept(self) -> bool:
        """Whether an admin may end something by deleting the record."""
        return bool(self._recorded.quarantine or self._recorded.breaker_open)

    async def _check(self) -> None:
        # Versions that watches report while the answer is on its way may well be newer than it.
        before, began = self._highest, self._clock.monotonic()
        seen = await self._observe()
        if seen is None:
            self._established = False
            return
        if self._unwritten:
            # What the host has yet is a record without a quarantine, and would be taken for an operator's all-clear.
            await self._note()
        before_it = self._to_accept
        if not self._established or before_it:
            self._remember(await self._read())
            self._earlier = None if self._earlier is None else self._recorded
            # Remembered, because a write that follows may fail, or be done without an answer.
            self._accepted = self._accepted or (before_it and not self._recorded.breaker_open)
        if not self._recorded.uid:
            self._accepted = self._accepted or await self._has_placed()
            before = self._highest = seen.revision
            # A restore may have left a note where nothing else is known.
            at = timestamp(self._clock.now()) if self._accepted and not self._recorded.quarantine else ""
            await self._write(Recorded(seen.uid, seen.revision, self._recorded.quarantine, at))
            _log.info("plane identity recorded: %s at revision %d", seen.uid, seen.revision)
        floor = Recorded(self._recorded.uid, max(before, self._recorded.revision), self._recorded.quarantine)
        reason = judge(floor, seen)
        if reason and not self._recorded.quarantine:
            await self._alarm(Recorded(self._recorded.uid, floor.revision, reason))
        elif not reason and began - self._read_at >= READ_SECONDS:
            reason = await self._noted()
        metrics.QUARANTINED.set(1 if reason else 0)
        left = 0.0 if reason else self._seconds_accepted()
        self._accepted, self._earlier = False, None
        if left > 0:
            _log.warning("the plane is accepted as it is: what it does not have is deleted on the host")
            self.on_accepted(left)
        self._established = True
        self._checked = began

    def _seconds_accepted(self) -> float:
        if self._accepted:
            return ACCEPTED_SECONDS
        return 0.0 if self._earlier is None else seconds_accepted(self._earlier, self._clock.now())

    async def _observe(self) -> Observed | None:
        found = await self._virtual.list(NAMESPACES, field_selector="metadata.name=kube-system")
        revision = version_number(found.resource_version)
        if not found.items or revision is None:
            # A plane that has just started creates the namespace in a moment; an odd answer proves nothing.
            return None
        uid = str(found.items[0].get("metadata", {}).get("uid", ""))
        return Observed(uid, revision) if uid else None

    def _remember(self, record: Recorded) -> None:
        turned = record.quarantine and not self._recorded.quarantine
        self._recorded = record
        if turned:
            self.on_quarantined()

    async def _has_placed(self) -> bool:
        """Whether the host has a record of pods that it has placed for the plane."""
        try:
            await self._host.get(CONFIG_MAPS, PLACED_NAME, self._namespace)
        except NotFound:
            return False
        return True

    async def _read(self) -> Recorded:
        self._read_at = self._clock.monotonic()
        try:
            found = recorded(await self._host.get(CONFIG_MAPS, NAME, self._namespace))
        except NotFound:
            self._highest = self._written = 0
            return Recorded()
        self._written = found.revision
        self._incomplete = found.incomplete
        return found

    async def _noted(self) -> str:
        """The quarantine that the controller has written into the record of a plane that looks as it should."""
        began = self._clock.monotonic()
        # Without a record, what is known here counts, and is written with the next revision.
        with contextlib.suppress(NotFound):
            found = recorded(await self._host.get(CONFIG_MAPS, NAME, self._namespace))
            self._remember(replace(self._recorded, quarantine=found.quarantine))
        self._read_at = began
        return self._recorded.quarantine

    async def _write(self, record: Recorded) -> None:
        # A quarantine ends with the ConfigMap alone, and the controller may have written one.
        data = {UID_KEY: record.uid, REVISION_KEY: str(record.revision)}
        data |= {QUARANTINE_KEY: record.quarantine} if record.quarantine else {}
        more = {ACCEPTED_KEY: record.accepted, ABSENCES_KEY: record.absences, BREAKER_KEY: record.breaker_open}
        data |= {key: value for key, value in more.items() if value}
        # The label tells the controller, which reads the record only when it looks at the tenant, that it has to look.
        marks = {"labels": {QUARANTINED: "true"}} if record.quarantine else {}
        body: Obj = {"metadata": {"name": NAME} | marks, "data": data}
        try:
            written = recorded(await self._host.patch(CONFIG_MAPS, NAME, body, self._namespace))
            record = replace(record, quarantine=record.quarantine or written.quarantine, breaker_open=written.breaker_open)
        except NotFound:
            if self._recorded.uid and record.quarantine == "" and self._recorded.quarantine == "":
                # Deleted meanwhile: an operator's all-clear or an accident; either way it is written again.
                _log.info("plane identity was removed: recording it again")
            await self._create(body)
        self._remember(record)
        self._written = record.revision

    async def _create(self, body: Obj) -> None:
        body = body | {"data": body["data"] | ({INCOMPLETE_KEY: self._incomplete} if self._incomplete else {})}
        try:
            await self._host.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap"} | body, self._namespace)
        except AlreadyExists:
            await self._host.patch(CONFIG_MAPS, NAME, body, self._namespace)

    async def _alarm(self, record: Recorded) -> None:
        metrics.QUARANTINED.set(1)
        # In memory first: even if the record cannot be written now, nothing is deleted from here on.
        self._unwritten = True
        self._remember(record)
        _log.error("plane quarantined, nothing is deleted on the host: %s", record.quarantine)
        await self._note()

    async def _note(self) -> None:
        """Write the quarantine to the host, and an event about it."""
        record = self._recorded
        await self._write(record)
        # From here on an operator may end it.
        self._unwritten = False
        text = f"{record.quarantine}; host objects are kept. To accept the plane as it is: bulkhead tenant accept-data"
        about: Obj = {"kind": "ConfigMap", "name": NAME, "namespace": self._namespace}
        # The record is what counts: the controller shows it with the tenant.
        stamp = timestamp(self._clock.now())
        await announce(self._host, about, self._namespace, reason="PlaneQuarantined", message=text, stamp=stamp)
