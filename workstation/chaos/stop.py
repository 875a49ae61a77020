"""`bulkhead chaos stop`: ends the run that is going on, and undoes every run whose process is dead.

ask every run to end ──> wait for the lease: released by a run that has undone itself, or not renewed by a dead one
    ──> undo what records and labels name ──> delete the records
"""

from dataclasses import dataclass
from typing import Final

from workstation.chaos import journal
from workstation.chaos.run import Ground, sweep

# A run that is asked to end undoes itself first.
_END_SECONDS: Final = 420.0
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
    records, unreadable = await journal.remains(ground.host, ground.namespace)
    holder = await journal.holder_of(ground.host, ground.namespace)
    found = {record.run for record in records}
    if not found and not holder:
        return Ended((), tuple(unreadable))
    for run in sorted(found):
        await journal.ask_to_end(ground.host, ground.namespace, run)
    if now:
        swept, left = await sweep(ground)
        await journal.drop_lease(ground.host, ground.namespace)
    else:
        async with journal.leased(ground.host, ground.namespace, _IDENTITY, ground.say, patience=_END_SECONDS):
            swept, left = await sweep(ground)
    return Ended(tuple(sorted(found | set(swept) | ({holder} - {"", _IDENTITY}))), tuple(left))
