"""A span as Bulkhead decides it, and the ids by which spans of several processes form one trace. Pure; time is passed in.

An id follows from what a trace is about: a restarted process, or another program, goes on with the same trace without having
been told of it, and a span that is decided twice is the same span twice.

    trace_of("pod", tenant, uid) ──> trace ──> span_of(trace, "pod.scheduled") ──> span
                                          └──> is_sampled(trace, one_in)
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from bulkhead.api.untrusted import text

# Of one span. What goes beyond it is cut off or left out, never refused: a trace must not stop what it is about.
MAX_ATTRIBUTES: Final = 16
MAX_TEXT_CHARACTERS: Final = 253
_UNREADABLE: Final = "?"
_IDS: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class Span:
    """One part of a trace. Times are seconds since 1970; an end before the start counts as the start."""

    name: str
    trace: bytes
    span: bytes
    start: float
    end: float
    parent: bytes = b""
    attributes: Mapping[str, str | int | bool] = field(default_factory=dict)
    # Why it failed: a word of Bulkhead's own, such as a condition's reason. Empty if it did not.
    failure: str = ""


def trace_of(*subject: str) -> bytes:
    """The 16 bytes of a trace's id."""
    return _digest(16, b"trace", *(part.encode(errors="replace") for part in subject))


def span_of(trace: bytes, *what: str) -> bytes:
    """The 8 bytes of a span's id within its trace."""
    return _digest(8, trace, *(part.encode(errors="replace") for part in what))


def is_sampled(trace: bytes, one_in: int) -> bool:
    """Whether a trace is among the one in `one_in` that are sent; every process answers the same."""
    return int.from_bytes(trace[8:]) < _IDS // max(1, one_in)


def in_order(reached: Mapping[str, float | None], start: float, now: float) -> Iterator[tuple[str, float, float]]:
    """The parts between `start` and each station that was reached, in the order of `reached`: its name, begin and end.

    What API servers note has whole seconds, so a station may seem to be reached before the one ahead of it, or after `now`:
    no part ends before it begins, and none begins before the one ahead of it ended.
    """
    last = start
    for name, at in reached.items():
        if at is not None:
            begun, last = last, max(last, min(at, now))
            yield name, begun, last


def seconds_of(value: Any) -> float | None:
    """A time of a Kubernetes object in seconds since 1970; None for what is not one."""
    try:
        moment = datetime.fromisoformat(text(value))
        return moment.timestamp() if moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def bounded(attributes: Mapping[str, str | int | bool]) -> dict[str, str | int | bool]:
    """The attributes within their bounds, without control characters."""
    return {key: _short(value) if isinstance(value, str) else value for key, value in list(attributes.items())[:MAX_ATTRIBUTES]}


def _short(value: str) -> str:
    return "".join(char if char.isprintable() else _UNREADABLE for char in value[:MAX_TEXT_CHARACTERS])


def _digest(size: int, *parts: bytes) -> bytes:
    # The length of each part is in it, so that no two lists of parts have one digest.
    framed = b"".join(len(part).to_bytes(4) + part for part in parts)
    return hashlib.sha256(framed).digest()[:size]
