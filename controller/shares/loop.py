"""Keeps shared objects up to date in planes: by a task for each tenant, so that a silent plane delays no other.

    a Tenant's reconcile orders shares ──┐
    a source has changed ────────────────┼─> a look: namespaces, copies, accounts ──> decide ──> steps ──┐
    some seconds have passed ────────────┘        ^                                                      │
                                                  └─ only namespaces, most of the time <── wait <────────┘

Namespaces are listed every few seconds, so that a new one gets its copies soon. The rest is read when namespaces, an order or a
source have changed, and every 15 s, which is when changes by the tenant are reverted. With many tenants all of this happens
less often. The Tenant's own reconcile reports the results.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from bulkhead.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    KubeError,
    NotFound,
    ProtocolError,
    Throttled,
    TooLarge,
    Unavailable,
    Unprocessable,
)
from bulkhead.work.backoff import Backoff
from bulkhead.work.clock import Clock
from bulkhead.work.supervise import ended
from controller.inside.budget import Budget, Turn
from controller.inside.calls import Plane
from controller.shares import plane as inside
from controller.shares.content import Source
from controller.shares.decide import Create, Decision, Left, Replace, Slot, Space, Step, decide, in_turn, slot_of
from controller.shares.spec import Item, Share
from controller.shares.status import Found, verdict
from controller.shares.volumes.host import HostVolumes
from controller.shares.volumes.look import VolumesFound, look
from controller.verdict import Verdict

_log = logging.getLogger(__name__)
LOOK_PERIOD_SECONDS = 3.0
_WHOLE_LOOK_PERIOD_SECONDS = 15.0
_LOOK_DEADLINE_SECONDS = 30.0
_CONFLICT_RETRY_SECONDS = 60.0
_LONGEST_BACKOFF_SECONDS = 120.0
# The most steps of one look; the next look does the rest. The limit of hasty looks is enough for the most copies of a plane.
MOST_STEPS_A_LOOK = 200
_MOST_HASTY_LOOKS = 12
_MOST_REFUSED = 5
# The limit for all planes together, in the long run.
_LOOKS_A_SECOND = 50.0
_BYTES_A_SECOND = 16 * 1024 * 1024


@dataclass(slots=True)
class _Entry:
    """One tenant's shares."""

    shares: tuple[Share, ...]
    class_name: str
    task: asyncio.Task[None] | None = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    whole: bool = True  # whether the next look reads everything
    at: float = 0.0  # when everything was last read
    spaces: tuple[Space, ...] = ()
    left: dict[Slot, Left] = field(default_factory=dict)
    conflicts: dict[Slot, float] = field(default_factory=dict)
    refused: set[Slot] = field(default_factory=set)  # what the plane refused when it was last tried
    hasty: int = 0  # looks in a row that had something to do
    read: int = 0  # bytes of the plane's answers in the last look
    found: Found | None = None
    no_volumes: bool = False  # whether the last look found no volumes, and none were granted
    done: bool = False  # whether nothing is shared, and nothing is left to remove


class ShareLoops:
    """The tasks of all tenants; call `close` at the end, and whenever the lease is lost."""

    def __init__(
        self,
        clock: Clock,
        plane: Callable[[Turn], Plane | None],
        sources: Callable[[Iterable[Item]], Awaitable[Mapping[Item, Source]]],
        on_change: Callable[[str], object],
        *,
        budget: Budget | None = None,
        volumes: HostVolumes | None = None,
    ) -> None:
        self._clock = clock
        self._plane = plane
        self._sources = sources
        self._on_change = on_change
        self._budget = budget or Budget()
        self._volumes = volumes
        self._entries: dict[str, _Entry] = {}

    def order(self, tenant: str, shares: tuple[Share, ...], class_name: str = "") -> None:
        """Order these shares for a plane, together with the volumes that are granted to the tenant or its class."""
        entry = self._entries.get(tenant)
        if entry is None:
            entry = self._entries[tenant] = _Entry(shares, class_name)
        if (entry.shares, entry.class_name) != (shares, class_name):
            entry.shares, entry.class_name, entry.found, entry.done = shares, class_name, None, False
            self._now(entry)
        if not entry.done and (entry.task is None or entry.task.done()):
            entry.task = asyncio.create_task(self._run(tenant, entry), name=f"shares of {tenant}")

    def found(self, tenant: str) -> Found | None:
        """The result of the last look; None before the first."""
        entry = self._entries.get(tenant)
        return entry.found if entry is not None else None

    def gives(self, tenant: str) -> bool:
        """Whether anything is shared with a tenant."""
        entry = self._entries.get(tenant)
        if entry is None:
            return False
        leaving = entry.found is not None and bool(entry.found.leaving)
        return leaving or bool(entry.shares or self._given(tenant, entry))

    def runs(self, tenant: str) -> bool:
        """Whether a tenant has a task."""
        return tenant in self._entries

    def changed(self, item: Item) -> None:
        """A source has changed: look at once into the planes of all tenants that it is shared with."""
        for entry in self._entries.values():
            if any(share.item == item for share in entry.shares):
                self._now(entry)

    def volumes_changed(self) -> None:
        """A SharedVolume has changed: look at once into the planes of all tenants that have one, or are granted one now."""
        for tenant, entry in self._entries.items():
            if not entry.no_volumes or self._given(tenant, entry):
                entry.done = False
                self._now(entry)
                self.order(tenant, entry.shares, entry.class_name)

    async def forget(self, tenant: str) -> None:
        """End a tenant's task."""
        entry = self._entries.pop(tenant, None)
        if entry is not None:
            await ended(entry.task)

    async def close(self) -> None:
        """End every task."""
        await asyncio.gather(*(self.forget(tenant) for tenant in list(self._entries)))

    def _given(self, tenant: str, entry: _Entry) -> bool:
        return self._volumes is not None and bool(self._volumes.given(tenant, entry.class_name))

    def _now(self, entry: _Entry) -> None:
        entry.whole = True
        entry.wake.set()

    async def _run(self, tenant: str, entry: _Entry) -> None:
        backoff = Backoff(LOOK_PERIOD_SECONDS, _LONGEST_BACKOFF_SECONDS)
        while not entry.done:
            entry.wake.clear()
            before = entry.found
            found = await self._guarded(tenant, entry)
            if found is not None:
                entry.found = found
                if (self.gives(tenant) or before is not None) and (before is None or _told(before) != _told(found)):
                    self._on_change(tenant)
            if found is not None and found.unread:
                entry.whole = True
                await self._clock.sleep(backoff.next())
                continue
            backoff.reset()
            await self._pause(entry)

    async def _pause(self, entry: _Entry) -> None:
        """Wait until the next look is due, or something has changed."""
        planes = len(self._entries)
        seconds = max(LOOK_PERIOD_SECONDS, planes / _LOOKS_A_SECOND, planes * entry.read / _BYTES_A_SECOND)
        pause = asyncio.create_task(self._clock.sleep(seconds))
        wake = asyncio.create_task(entry.wake.wait())
        try:
            await asyncio.wait({pause, wake}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (pause, wake):
                task.cancel()
            await asyncio.gather(pause, wake, return_exceptions=True)

    async def _guarded(self, tenant: str, entry: _Entry) -> Found | None:
        """One look, with errors turned into messages; None if nothing has changed."""
        turn = self._budget.turn(tenant, _LOOK_DEADLINE_SECONDS)
        plane = self._plane(turn)
        if plane is None:
            return Found(unread="the plane's API server does not answer")
        try:
            async with turn:
                return await self._look(tenant, entry, plane)
        except (KubeError, TimeoutError) as error:
            unread = isinstance(error, TooLarge | ProtocolError)
            what = "the plane's answer cannot be read, so nothing is shared with it" if unread else "the plane did not answer"
            return Found(unread=f"{what}: {error or 'it took too long'}"[:500], unreadable=unread)
        except Exception:  # noqa: BLE001 - logged with its trace; the next look starts from what is there
            _log.exception("a look at shared objects ended in an error", extra={"tenant": tenant})
            return Found(unread="the controller failed to read the plane: see the controller's log", unreadable=True)
        finally:
            entry.read = turn.read

    async def _look(self, tenant: str, entry: _Entry, plane: Plane) -> Found | None:
        now = self._clock.monotonic()
        spaces = await inside.spaces_of(plane)
        if not entry.whole and spaces == entry.spaces and now - entry.at < _WHOLE_LOOK_PERIOD_SECONDS:
            return None
        shares = entry.shares
        # Cleared before anything is read, so that a change during the look causes another look.
        entry.whole, entry.spaces, entry.at = False, spaces, now
        sources = await self._sources([share.item for share in shares])
        there = await inside.interior_of(plane, spaces)
        due = {slot: now - at >= _CONFLICT_RETRY_SECONDS for slot, at in entry.conflicts.items()}
        decision = decide(shares, sources, there, entry.left, due)
        standing = {copy.slot for copy in there.copies}
        entry.left = {slot: left for slot, left in entry.left.items() if slot in standing}
        entry.conflicts = {slot: at for slot, at in entry.conflicts.items() if slot in decision.wanted - standing}
        refused = await self._apply(tenant, entry, plane, decision)
        volumes = VolumesFound(idle=True)
        if self._volumes is not None:
            volumes = await look(self._volumes, tenant, entry.class_name, plane, spaces, was_idle=entry.no_volumes)
        entry.no_volumes = volumes.idle
        # Written objects are read once more, but not endlessly if the tenant, or one of its webhooks, keeps changing them.
        entry.hasty = entry.hasty + 1 if decision.steps or decision.waits or volumes.moves else 0
        entry.whole = entry.whole or (not (refused or volumes.refused) and 0 < entry.hasty <= _MOST_HASTY_LOOKS)
        # Orders and changes during the look have requested another one.
        entry.done = not entry.whole and not shares and not decision.steps and volumes.idle
        return Found(
            copies=len(decision.wanted) - len(entry.conflicts),
            namespaces=len({slot.namespace for slot in decision.wanted - entry.conflicts.keys()}),
            claims=volumes.claims,
            leaving=volumes.leaving,
            conflicts=(*(str(slot) for slot in entry.conflicts), *volumes.conflicts),
            troubles=(*decision.troubles, *volumes.troubles),
            refused=refused or volumes.refused,
            waits=decision.waits,
        )

    async def _apply(self, tenant: str, entry: _Entry, plane: Plane, decision: Decision) -> str:
        """Do the steps; returns the plane's message for the first step that it (or a webhook of the tenant) refused."""
        refused: list[str] = []
        entry.refused &= {slot_of(step) for step in decision.steps}
        for step in in_turn(decision.steps, entry.refused)[:MOST_STEPS_A_LOOK]:
            try:
                await self._step(entry, plane, step)
                entry.refused.discard(slot_of(step))
            except (Conflict, NotFound):
                # It has changed since it was read, or its namespace is terminating: the next look decides again.
                continue
            except (Throttled, Unavailable):
                raise
            except ApiError as error:
                _log.info("the plane refuses a shared object: %s", error, extra={"tenant": tenant})
                refused.append(str(error)[:300])
                entry.refused.add(slot_of(step))
                if len(refused) >= _MOST_REFUSED:
                    break
        return next(iter(refused), "")

    async def _step(self, entry: _Entry, plane: Plane, step: Step) -> None:
        try:
            await inside.do(plane, step)
        except AlreadyExists:
            if isinstance(step, Create):
                entry.conflicts[step.slot] = self._clock.monotonic()
            return
        except Unprocessable:
            if not isinstance(step, Replace):
                raise
            await inside.remove(plane, step)
            return
        if isinstance(step, Create):
            entry.conflicts.pop(step.slot, None)
        if isinstance(step, Replace):
            entry.left[step.slot] = Left(step.content.digest, step.uid, step.version)


def _told(found: Found) -> tuple[Verdict, Verdict]:
    """What a tenant's status may say of a look."""
    return verdict(found), verdict(found, new=True)
