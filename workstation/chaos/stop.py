"""`bulkhead chaos stop`: ends the run that is going on, and undoes every run whose process is dead.

ask every run to end, and again ──> wait for the lease: released by a run that has undone itself, or not renewed by a dead one
    ──> undo what records and labels name ──> delete the records
"""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Final

from bulkhead.kube.errors import KubeError
from workstation.chaos import journal
from workstation.chaos.run import Ground, sweep

# A run that is asked to end undoes itself first.
_END_SECONDS: Final = 420.0
_ASK_SECONDS: Final = 2.0
_IDENTITY: Final = "stop"


@dataclass(frozen=True, slots=True)
class Ended:
    """What a stop did."""

    # Runs that were found.
    runs: tuple[str, ...]
    # What could not be undone, and why.
    left: tuple[str, ...]


async def stop(ground: Ground, *, now: bool) -> Ended:
    """End and undo every run. With `now`, do not wait for the lease: a run that is alive undoes itself at the same time.

    Raises KubeError if the host does not answer, and Busy if a run does not end.
    """
    found, unreadable = await _ask(ground)
    holder = await journal.holder_of(ground.host, ground.namespace)
    if not found and not holder:
        return Ended((), tuple(unreadable))
    if now:
        swept, left = await sweep(ground)
        await journal.drop_lease(ground.host, ground.namespace)
    else:
        asking = asyncio.create_task(_go_on_asking(ground))
        try:
            async with journal.leased(ground.host, ground.namespace, _IDENTITY, ground.say, patience=_END_SECONDS):
                asking.cancel()
                swept, left = await sweep(ground)
        finally:
            asking.cancel()
    return Ended(tuple(sorted(found | set(swept) | ({holder} - {"", _IDENTITY}))), tuple(left))


async def _ask(ground: Ground) -> tuple[set[str], list[str]]:
    """Ask every run that has left something to end: their names, and texts about records that cannot be read."""
    records, unreadable = await journal.remains(ground.host, ground.namespace)
    for record in records:
        await journal.ask_to_end(ground.host, ground.namespace, record.run)
    return {record.run for record in records}, unreadable


async def _go_on_asking(ground: Ground) -> None:
    """A run that holds the lease has no record to write the request into until it has undone those before it."""
    while True:
        await asyncio.sleep(_ASK_SECONDS)
        with contextlib.suppress(KubeError):
            await _ask(ground)
