"""Fetches one page of an exporter or a kubelet, which may be of any size, any speed, and lead anywhere."""

from collections.abc import Mapping

import aiohttp


async def fetch(session: aiohttp.ClientSession, url: str, most: int, headers: Mapping[str, str] | None = None) -> bytes:
    """The page, of at most so many bytes. Raises ValueError for any other answer; the caller keeps the deadline."""
    # What comes compressed could be any length once it is not.
    asked = {"Accept-Encoding": "identity", **(headers or {})}
    async with session.get(url, headers=asked, allow_redirects=False) as answer:
        if answer.status != 200:
            raise ValueError(f"status {answer.status}")
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            raise ValueError("the page is compressed")
        text = bytearray()
        async for part in answer.content.iter_chunked(64 * 1024):
            text += part
            if len(text) > most:
                raise ValueError(f"more than {most // 1024} KiB")
        return bytes(text)
