"""Whether this process is still the tenant's syncer: its work waits while the host does not say so.

    own pod read, every 10 s ─┬─ there ──────────────────────────────> work goes on
                              ├─ marked for deletion, gone, replaced ─> work waits: another syncer starts, or has started
                              └─ no answer, or the token is refused ──> the last answer counts for 45 s, then work waits

The host moves a syncer 50 s and 30 s after its node went silent, and the former one may run on there, with a view of the host
that stands still. It would undo in the plane what its successor does. So it stops before that: 45 s are less than 80
(docs/decisions/0061). Nothing here writes.
"""

import asyncio
import logging
from typing import Final, NoReturn

from bulkhead.api.podphase import is_pending_deletion
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, KubeError, NotFound, NotServed, Throttled, Unauthorized, Unavailable
from bulkhead.kube.objects import uid_of
from bulkhead.kube.resources import PODS
from bulkhead.work.clock import MachineClock
from syncer import metrics

_log = logging.getLogger(__name__)

ASK_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 10.0
SILENCE_SECONDS: Final = 45.0
_LOOK_SECONDS: Final = 0.5
# No word of the host on this process: any other refusal is one of a server that knows it.
_NO_WORD: Final = (NotServed, Unauthorized, Unavailable, Throttled)


class Tenure:
    """The host's word on the pod of this process. Without the name of a pod, work never waits."""

    def __init__(self, host: Client, namespace: str, pod: str, clock: MachineClock) -> None:
        self._host = host
        self._namespace = namespace
        self._pod = pod
        self._clock = clock
        self._uid = ""
        self._over = ""
        # Time in which the machine was suspended counts: the host may have moved the syncer meanwhile.
        self._heard = clock.elapsed()
        self._logged = ""
        self._at_once = asyncio.Event()

    @property
    def applies(self) -> bool:
        """Whether this process is one in a pod."""
        return bool(self._pod)

    def suspended(self) -> str:
        """Why work waits; empty while it goes on."""
        silent = self.applies and self._clock.elapsed() - self._heard > SILENCE_SECONDS
        return self._over or (f"no word of the host's API for {SILENCE_SECONDS:g} s" if silent else "")

    async def granted(self) -> None:
        """Wait until work may go on."""
        while self.suspended():
            await self._clock.sleep(_LOOK_SECONDS)

    def ask_now(self) -> None:
        """Cut the pause short: the host is heard again."""
        self._at_once.set()

    async def run(self) -> NoReturn:
        """Ask for ever."""
        while True:
            self._at_once.clear()
            await self._ask()
            self._tell()
            pause = asyncio.create_task(self._clock.sleep(ASK_SECONDS))
            hurry = asyncio.create_task(self._at_once.wait())
            try:
                await asyncio.wait({pause, hurry}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                pause.cancel()
                hurry.cancel()

    async def _ask(self) -> None:
        # The answer may lie there for long before a process that stood still reads it.
        began = self._clock.elapsed()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                pod = await self._host.get(PODS, self._pod, self._namespace)
        except _NO_WORD as error:
            _log.debug("no word on the own pod: %s", error)
            return
        except NotFound:
            self._over = f"pod {self._pod} of this syncer is gone"
        except ApiError as error:
            # It may not read its pod, or the server fails: that says nothing against it.
            _log.debug("own pod not read: %s", error)
        except (KubeError, TimeoutError) as error:
            _log.debug("no word on the own pod: %s", error)
            return
        else:
            self._uid = self._uid or uid_of(pod)
            ended = is_pending_deletion(pod) or uid_of(pod) != self._uid
            self._over = f"pod {self._pod} of this syncer is being deleted, or was replaced" if ended else ""
        self._heard = began

    def _tell(self) -> None:
        why = self.suspended()
        metrics.SUSPENDED.set(1 if why else 0)
        if why != self._logged:
            self._logged = why
            _log.warning("work waits: %s", why) if why else _log.info("work goes on")
