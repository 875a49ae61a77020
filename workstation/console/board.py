"""The newest state of each thing that pages follow; a slow reader misses what is between, and never the last."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from workstation.console.page import embedded


class Board:
    """Named values with versions."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[int, bytes]] = {}
        self._count = 0
        self._changed = asyncio.Event()

    def put(self, name: str, value: Any) -> None:
        """Publish a value; an equal one is not news."""
        body = embedded(value).encode()
        held = self._latest.get(name)
        if held is not None and held[1] == body:
            return
        self._count += 1
        self._latest[name] = (self._count, body)
        self._changed.set()
        self._changed = asyncio.Event()

    def news(self, seen: Mapping[str, int]) -> dict[str, tuple[int, bytes]]:
        """What is newer than the versions that a reader has seen."""
        return {name: entry for name, entry in self._latest.items() if seen.get(name, 0) < entry[0]}

    def value(self, name: str) -> Any:
        """The newest value of one name; None if there is none."""
        held = self._latest.get(name)
        return None if held is None else json.loads(held[1])

    async def changed(self, seconds: float) -> None:
        """Wait for the next change, but no longer than that."""
        event = self._changed
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return
