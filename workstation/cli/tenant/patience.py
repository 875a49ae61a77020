"""Waits for the controller that the host's API may interrupt: it restarts, is overloaded or hangs for a while.

look ──> done: its result
├─> not yet: Waits(what for) ──┐
└─> no answer ─────────────────┴─> shown, and the next look, until the deadline: LateError
Refused credentials count as such for a minute, where the client gets others.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, Unauthorized, may_pass
from workstation.cli.output import Progress
from workstation.cli.renewal import is_renewed

T = TypeVar("T")
# A plugin has 30 s to answer, and is asked again 5 s later if it fails (`workstation.cli.renewal`).
_RENEWAL_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Waits:
    """A look's result while the wait goes on: what it waits for."""

    text: str


class LateError(Exception):
    """The deadline of a wait. last: what it waited for then. silent: whether the last look got no answer."""

    def __init__(self, last: str, *, silent: bool) -> None:
        super().__init__(last)
        self.last = last
        self.silent = silent


async def until(
    client: Client,
    look: Callable[[], Awaitable[T | Waits]],
    subject: str,
    *,
    seconds: float,
    every: float,
    progress: Progress,
) -> T:
    """The first result of `look` that is not Waits. It looks at least once, and a last time at the deadline.

    A look, which asks by `client`, has to be safe to repeat after a request of it got no answer. Raises LateError, and what a
    look raises that does not pass by itself.
    """
    renews = is_renewed(client)
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    renewed_by: float | None = None
    while True:
        pause, silent = every, False
        try:
            found = await look()
        except Unauthorized as error:
            renewed_by = renewed_by or loop.time() + _RENEWAL_SECONDS
            if not renews or loop.time() >= renewed_by:
                raise
            silent, last = True, f"the kubeconfig's plugin is asked for other credentials: {error}"
        except KubeError as error:
            if not may_pass(error):
                raise
            silent, last = True, f"the host's API does not answer: {error}"
            pause = max(every, getattr(error, "retry_after", None) or 0.0)
        else:
            if not isinstance(found, Waits):
                return found
            last, renewed_by = found.text, None
        left = end - loop.time()
        if left <= 0:
            raise LateError(last, silent=silent)
        progress.show(f"{subject}: {last}")
        await asyncio.sleep(min(pause, left))
