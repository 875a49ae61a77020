"""Sends the store of a snapshot to the pod that fills a volume (`controller.restores.fill`), over any connection.

pod: {"restore", "member", "bytes", "state": "waiting" | "filled" | "no-room", "error"}    one line
here: so many bytes, and nothing else
pod: {…, "state": "received"}                                                              one line
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api.untrusted import mapping, text

_LINE_SECONDS: Final = 60.0
_WORDS: Final = 500


class SendError(OSError):
    """The pod did not take the store; the message says why."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a pod says first. trouble: why it did not fill its volume the last time; empty if it did not try."""

    filled: bool
    trouble: str


async def greeted(reader: asyncio.StreamReader, restore: str, size: int) -> Greeting:
    """The pod's first line. Raises SendError if it is another restore's, or has no room."""
    found = await _line(reader)
    if text(found.get("restore")) != restore or found.get("bytes") != size:
        raise SendError("the pod that answers belongs to another restore")
    trouble = text(found.get("error"))[:_WORDS]
    if found.get("state") == "no-room":
        raise SendError(trouble)
    return Greeting(found.get("state") == "filled", trouble)


async def send(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    chunks: AsyncIterator[bytes],
    on_progress: Callable[[int], object] = lambda _: None,
) -> None:
    """Send everything, and return once the pod has it whole on its disk. Raises SendError, or what the stream raises."""
    sent = 0
    try:
        async for chunk in chunks:
            writer.write(chunk)
            await writer.drain()
            sent += len(chunk)
            on_progress(sent)
    except ConnectionError as error:
        raise SendError(f"the connection to the pod ended after {sent} bytes") from error
    if text((await _line(reader)).get("state")) != "received":
        raise SendError("the pod does not say that it has the store")


async def _line(reader: asyncio.StreamReader) -> dict[str, Any]:
    try:
        async with asyncio.timeout(_LINE_SECONDS):
            line = await reader.readline()
        return dict(mapping(json.loads(line)))
    except TimeoutError as error:
        raise SendError(f"the pod sent nothing for {_LINE_SECONDS:g} s") from error
    except (ValueError, ConnectionError) as error:
        raise SendError("the pod ended the connection") from error
