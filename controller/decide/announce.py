"""Which changes of a Tenant's conditions get an Event, and the Event's text. Pure.

    previous conditions, present conditions ──> one Announcement for each with a different status or reason

Mere progress gets no Event: a new tenant gets one when it is Ready, or when something is wrong. If `Ready` repeats the text of
another condition that is not true, only that condition gets an Event.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from bulkhead.api.conditions import ConditionType, Reason
from bulkhead.api.untrusted import text

# Of the 1024 characters that the API server accepts, as many as people read in one line of `kubectl describe`.
EVENT_MESSAGE_CHARACTERS: Final = 512
_ON_THE_WAY: Final = frozenset(
    {"", Reason.PROVISIONING, Reason.WAITING_FOR_PLANE, Reason.WAITING_FOR_SYNCER, Reason.WAITING_FOR_SLURM}
)


@dataclass(frozen=True, slots=True)
class Announcement:
    """One Event."""

    type: Literal["Normal", "Warning"]
    condition: str
    status: str
    reason: str
    message: str


def announcements(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> tuple[Announcement, ...]:
    """The Events for changed conditions, `Ready` first."""
    was = {text(condition.get("type")): condition for condition in before}
    found = [condition for condition in now if _differs(was.get(text(condition.get("type")), {}), condition)]
    parts = {_words(condition) for condition in found if condition.get("type") != ConditionType.READY}
    told = [condition for condition in found if condition.get("type") != ConditionType.READY or _words(condition) not in parts]
    told.sort(key=lambda condition: condition.get("type") != ConditionType.READY)
    return tuple(_announced(condition) for condition in told)


def _differs(was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    before, reason = text(was.get("reason")), text(now.get("reason"))
    if (text(was.get("status")), before) == (text(now.get("status")), reason) or reason in _ON_THE_WAY:
        return False
    # When a condition becomes true for the first time, the Event of `Ready` is enough.
    return now.get("type") == ConditionType.READY or now.get("status") != "True" or before not in _ON_THE_WAY


def _words(condition: Mapping[str, Any]) -> tuple[str, str]:
    return text(condition.get("reason")), text(condition.get("message"))


def _announced(condition: Mapping[str, Any]) -> Announcement:
    kind, status = text(condition.get("type")), text(condition.get("status"))
    message = f"{kind} is {status}: {text(condition.get('message'))}"
    cut = message if len(message) <= EVENT_MESSAGE_CHARACTERS else f"{message[: EVENT_MESSAGE_CHARACTERS - 1]}…"
    reason = text(condition.get("reason"))
    good = status == "True" and reason in {Reason.READY, Reason.APPLIED}
    return Announcement("Normal" if good else "Warning", kind, status, reason, cut)
