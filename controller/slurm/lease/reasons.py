"""Writes and reads the reason of a drain that releases a worker: until when its jobs may run, and what was done. Pure.

    bulkhead: giving back until 2026-06-01T12:02:00+00:00, lent GPUs are taken back, signalled 17 18

The reason is the only record of a release, from which the next reconcile continues. A tenant may edit it; unreadable parts are
ignored.
"""

import functools
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from bulkhead.api.moments import moment_of
from controller.slurm.spec import REASON_PREFIX

GIVING: Final = f"{REASON_PREFIX} giving back"
# Part of the reason if another tenant gets the GPUs.
TAKEN: Final = "lent GPUs are taken back"
_UNTIL: Final = f"{GIVING} until "
_SIGNALLED: Final = "signalled "
# The most jobs of one worker whose signals are recorded.
MOST_SIGNALLED: Final = 64


def reason_until(deadline: datetime, *, taken: bool = False, signalled: Iterable[int] = ()) -> str:
    """The reason of a drain."""
    parts = [f"{_UNTIL}{deadline.isoformat(timespec='seconds')}"]
    if taken:
        parts.append(TAKEN)
    if jobs := sorted(set(signalled)):
        parts.append(_SIGNALLED + " ".join(map(str, jobs)))
    return ", ".join(parts)


def deadline_in(reason: str) -> datetime | None:
    """The deadline in a reason of the platform; None if there is none."""
    _, found, text = reason.partition(_UNTIL)
    return moment_of(text.partition(",")[0]) if found else None


def is_taken(reason: str) -> bool:
    """Whether a worker is released because another tenant gets its GPUs."""
    return reason.startswith(GIVING) and TAKEN in reason.split(", ")


@functools.lru_cache(maxsize=2048)
def signalled_in(reason: str) -> frozenset[int]:
    """The jobs that were sent their signal since the drain."""
    if not reason.startswith(GIVING):
        return frozenset()
    listed = next((part for part in reason.split(", ") if part.startswith(_SIGNALLED)), "")
    words = listed.removeprefix(_SIGNALLED).split()[:MOST_SIGNALLED]
    return frozenset(int(word) for word in words if word.isdecimal() and len(word) <= 10)
