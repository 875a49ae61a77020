"""Says that a copy of the plane is full: what is beyond it is not mirrored, and a syncer that starts waits for room.

    every 5 s: is a copy of the plane full? ── other than told ──> record on the host, which the Tenant's SyncerReady has,
                                                                   an event in the plane, the log

Copies are bounded, so that no plane fills the memory here (`watch.informers`). A syncer that started with a part of the plane
would withdraw the Secrets of pods that it does not know. So it waits, and only this says why.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NoReturn

from bulkhead.api.conditions import timestamp
from bulkhead.api.objects import Obj
from bulkhead.api.planeidentity import Recorded
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.informer import Informer
from bulkhead.work.clock import Clock
from syncer.write.announce import announce

_log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 5.0
# Where an event on an object without a namespace stands.
_PLACE: Final = "default"


class Fullness:
    """Tells admin and tenant which kind of the plane's objects is too large, and that it no longer is."""

    def __init__(
        self, copies: Mapping[str, Informer], plane: Client, clock: Clock, note: Callable[[str], Awaitable[None]]
    ) -> None:
        """`copies` are those of the plane, by kind; `note` records on the host."""
        self._copies = copies
        self._plane = plane
        self._clock = clock
        self._note = note
        self._told = ""

    def resume(self, record: Recorded) -> None:
        """Go on from what an earlier process has told."""
        self._told = record.incomplete

    async def run(self) -> NoReturn:
        """Look for ever."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except KubeError as error:
                _log.warning("it is not recorded whether the plane is too large: %s", error)

    async def look(self) -> None:
        """Tell what has changed."""
        why = self._why()
        if why == self._told or not (why or all(copy.has_synced for copy in self._copies.values())):
            # Before all was listed, what an earlier process has told counts.
            return
        await self._note(why)
        self._told = why
        if why:
            _log.error("%s", why)
            await self._tell(why)

    def _why(self) -> str:
        kind = next((kind for kind in sorted(self._copies) if self._copies[kind].full), "")
        if not kind:
            return ""
        most = self._copies[kind].max_bytes >> 20
        return (
            f"the plane's objects of kind {kind} take more than {most} MiB: what is beyond is not mirrored, and a syncer that "
            "starts waits for room. Delete those that have ended, or make them smaller"
        )

    async def _tell(self, why: str) -> None:
        # The record is what counts: the controller shows it with the tenant.
        about: Obj = {"kind": "Namespace", "name": _PLACE}
        stamp = timestamp(self._clock.now())
        await announce(self._plane, about, _PLACE, reason="TooLarge", message=why, stamp=stamp)
