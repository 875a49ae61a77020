"""Fetches one page of an exporter or a kubelet, which may be of any size, any speed, and lead anywhere."""

from collections.abc import Callable, Mapping

import aiohttp


async def fed(
    session: aiohttp.ClientSession,
    url: str,
    most: int,
    take: Callable[[bytes], None],
    headers: Mapping[str, str] | None = None,
) -> None:
    """Give a page to `take`, piece by piece, so that it is never in memory as a whole.

    Raises ValueError for one of more than `most` bytes, and for any other answer; the caller keeps the deadline.
    """
    # What comes compressed could be any length once it is not.
    asked = {"Accept-Encoding": "identity", **(headers or {})}
    async with session.get(url, headers=asked, allow_redirects=False) as answer:
        if answer.status != 200:
            raise ValueError(f"status {answer.status}")
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            raise ValueError("the page is compressed")
        count = 0
        async for part in answer.content.iter_chunked(64 * 1024):
            count += len(part)
            if count > most:
                raise ValueError(f"more than {most // 1024} KiB")
            take(part)
