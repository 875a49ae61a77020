"""Lines of an audit trail (audit.k8s.io/v1): which are asked for, the newest of them, and one as a row of a table. Pure.

    lines ──> Event or nothing ──> asked for? ──> the newest, bounded in number and bytes ──> rows

Much of an event was written by a tenant: any field may be missing, of another type or endless, and what cannot be shown is
counted, never passed over.
"""

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bulkhead.api.untrusted import mapping, sequence, text

MOST_EVENTS: Final = 10_000
MOST_BYTES: Final = 8 << 20
LONGEST_LINE: Final = 256 << 10
_FIELD: Final = 200
_BEGINNING: Final = b'{"kind":"Event","apiVersion":"audit.k8s.io/v1"'


@dataclass(frozen=True, slots=True)
class Choice:
    """Which events are asked for; `since` is a moment as events write it, in UTC."""

    since: str = ""
    user: str = ""
    verb: str = ""
    most: int = 500

    def takes(self, event: Mapping[str, Any]) -> bool:
        """Whether an event is asked for. The impersonator of a user counts as much as the user."""
        users = {text(mapping(event.get(key)).get("username")) for key in ("user", "impersonatedUser")}
        return (
            moment(event) >= self.since
            and (not self.user or self.user in users)
            and (not self.verb or text(event.get("verb")) == self.verb)
        )


@dataclass(slots=True)
class Newest:
    """The newest events that are asked for."""

    choice: Choice
    lines: deque[bytes] = field(default_factory=deque)
    large: int = 0  # events too large to be read
    left_out: int = 0  # that are asked for, and older than those here
    is_cut: bool = False  # whether older lines were not read
    _bytes: int = 0

    def add(self, lines: Iterable[bytes]) -> None:
        """Take lines, the oldest first. A line that is not an audit event is output of another program."""
        for line in lines:
            if not is_event(line):
                continue
            event = None if len(line) > LONGEST_LINE else read(line)
            if event is None:
                self.large += 1
            elif self.choice.takes(event):
                self._keep(line.strip())

    def _keep(self, line: bytes) -> None:
        self.lines.append(line)
        self._bytes += len(line)
        while self._bytes > MOST_BYTES or len(self.lines) > self.choice.most:
            self._bytes -= len(self.lines.popleft())
            self.left_out += 1


def read(line: bytes) -> Mapping[str, Any] | None:
    """The event of a line; None for what cannot be read."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def is_event(line: bytes) -> bool:
    """Whether a line of a log is an audit event, and not output of another program."""
    return line.startswith(_BEGINNING)


def moment(event: Mapping[str, Any]) -> str:
    """When it ended, in UTC."""
    return text(event.get("stageTimestamp"))


def row(event: Mapping[str, Any]) -> tuple[str, ...]:
    """When, who, what, on what, with which answer, from where."""
    users = [text(mapping(event.get(key)).get("username")) for key in ("user", "impersonatedUser")]
    code = mapping(event.get("responseStatus")).get("code")
    found = (
        moment(event)[:19],
        " as ".join(user[:_FIELD] for user in users if user),
        text(event.get("verb")),
        _what(event),
        str(code) if isinstance(code, int) else "",
        next((text(source_ip) for source_ip in sequence(event.get("sourceIPs"))), ""),
    )
    return tuple(value[: 2 * _FIELD] for value in found)


def _what(event: Mapping[str, Any]) -> str:
    target = mapping(event.get("objectRef"))
    if not target:
        return text(event.get("requestURI"))
    kind = "/".join(part for part in (text(target.get("resource")), text(target.get("subresource"))) if part)
    group = text(target.get("apiGroup"))
    place = "/".join(part for part in (text(target.get("namespace")), text(target.get("name"))) if part)
    return f"{kind}{f'.{group}' if group else ''} {place}".strip()
