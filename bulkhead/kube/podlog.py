"""The newest lines of a container's log, within a bound of bytes.

    newest N lines, at most B bytes ──> all of them came ─────────────────────────────> those
                                        cut: the API keeps the oldest B bytes of them ──> fewer lines are requested

`limitBytes` of PodLogOptions counts from the first of the lines that `tailLines` selects, so what it cuts off is the newest,
which a reader wants most. Each request asks for half as many lines as the one before it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client


@dataclass(frozen=True, slots=True)
class Tail:
    """The newest lines of a log, the oldest of them first."""

    data: bytes
    # Whether the log may have older lines than these.
    is_cut: bool


async def newest(
    client: Client,
    pod: tuple[str, str],
    container: str,
    *,
    lines: int,
    most_bytes: int,
    query: Mapping[str, str] | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 -- passed on as the deadline of each request
) -> Tail:
    """The newest lines of a container, at most so many, and at most so many bytes of them.

    `pod` is its namespace and name; `query` has further options of PodLogOptions. Of a last line that is longer than the bound,
    the beginning comes. Raises KubeError.
    """
    path = kinds.PODS.path(*pod, "log")
    bounds = {**(query or {}), "container": container, "limitBytes": str(most_bytes + 1)}
    asked = lines
    while True:
        data = await client.get_raw(f"{path}?{urlencode(bounds | {'tailLines': str(asked)})}", timeout=timeout)
        if len(data) <= most_bytes or asked <= 1:
            return Tail(data[:most_bytes], asked < lines or data.count(b"\n") >= lines)
        asked //= 2


def newest_bytes(data: bytes, most: int) -> bytes:
    """The newest whole lines that have at most so many bytes together; of a last line that is longer, its end."""
    if len(data) <= most:
        return data
    begin = data.find(b"\n", len(data) - most - 1, len(data) - 1) + 1
    return data[begin or len(data) - most :]
