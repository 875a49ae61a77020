"""The newest lines of a container's log, from a server that cuts off what a kubelet cuts off. Pure but for one HTTP server."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.podlog import newest, newest_bytes


@contextlib.asynccontextmanager
async def kubelet(log: bytes) -> AsyncIterator[tuple[Client, list[dict[str, str]]]]:
    """A client of an API server whose only container has this log, and the options of all its requests."""
    asked: list[dict[str, str]] = []

    async def read(request: web.Request) -> web.Response:
        asked.append(dict(request.query))
        lines = log.splitlines(keepends=True)[-int(request.query["tailLines"]) :]
        # The first bytes of the last lines, as kubelets have it.
        return web.Response(body=b"".join(lines)[: int(request.query["limitBytes"])])

    app = web.Application()
    app.add_routes([web.get("/api/v1/namespaces/ns/pods/web/log", read)])
    async with TestServer(app) as server:
        config = KubeConfig(server=f"http://127.0.0.1:{server.port}")
        async with Client(config, user_agent="tests", field_manager="tests") as client:
            yield client, asked


LINES = [b"%03d %s\n" % (number, b"x" * 15) for number in range(100)]  # of 20 bytes each
LOG = b"".join(LINES)


@dataclass(frozen=True)
class Case:
    """A log, the bounds of a read, and what comes of it."""

    name: str
    log: bytes
    lines: int
    most: int
    wanted: bytes
    is_cut: bool
    requests: int


CASES = [
    Case("an empty log", b"", 10, 100, b"", False, 1),
    Case("all of it", LOG, 1000, 5000, LOG, False, 1),
    Case("exactly the bound", LOG, 1000, 2000, LOG, False, 1),
    Case("one byte too many", LOG, 128, 1999, b"".join(LINES[-64:]), True, 2),
    Case("more lines than are asked for", LOG, 7, 5000, b"".join(LINES[-7:]), True, 1),
    Case("the newest, and not the oldest", LOG, 100, 500, b"".join(LINES[-25:]), True, 3),
    Case("the first of the last lines is long", b"y" * 900 + b"\n" + LOG, 202, 500, b"".join(LINES[-25:]), True, 4),
    Case("the last line is longer than the bound", LOG + b"z" * 900 + b"\n", 4, 100, b"z" * 100, True, 3),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_the_newest_lines_come(case: Case) -> None:
    async with kubelet(case.log) as (client, asked):
        tail = await newest(client, ("ns", "web"), "main", lines=case.lines, most_bytes=case.most, query={"previous": "true"})
    assert (tail.data, tail.is_cut, len(asked)) == (case.wanted, case.is_cut, case.requests)
    wanted = {"container": "main", "previous": "true", "limitBytes": str(case.most + 1)}
    assert all(wanted.items() <= query.items() for query in asked)


@given(st.lists(st.binary(max_size=9).map(lambda text: text.replace(b"\n", b" ") + b"\n"), max_size=9), st.integers(1, 60))
def test_whole_lines_are_kept_within_a_bound(lines: list[bytes], most: int) -> None:
    log = b"".join(lines)
    kept = newest_bytes(log, most)
    assert log.endswith(kept)
    assert len(kept) <= most
    if len(log) <= most:
        assert kept == log
    elif lines and len(lines[-1]) <= most:
        # No line is cut, and not one more would have had room.
        number = kept.count(b"\n")
        assert kept == b"".join(lines[len(lines) - number :])
        assert len(kept) + len(lines[-number - 1]) > most
    else:
        assert kept == log[-most:]
