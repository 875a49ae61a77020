"""Pages of a list become smaller where their objects are large: what a client cannot list it can never watch."""

from typing import Any
from unittest.mock import AsyncMock

import msgspec
import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import TooLarge
from bulkhead.kube.informer import Informer
from bulkhead.kube.resources import PODS

MOST = 8 << 20


class Server:
    """Answers lists of objects of these sizes, as an API server does, and refuses to read more than `MOST` bytes."""

    max_body = MOST

    def __init__(self, *sizes: int, meta: Obj | None = None) -> None:
        self.sizes = sizes
        self.meta = meta or {}
        self.limits: list[int] = []

    async def request(self, _method: str, _path: str, *, params: dict[str, str], accept: str) -> bytes:
        begin, limit = int(params.get("continue", 0)), int(params["limit"])
        self.limits.append(limit)
        end = min(len(self.sizes), begin + limit)
        items = [{"metadata": self.meta | {"name": str(number)}, "x": "x" * self.sizes[number]} for number in range(begin, end)]
        meta = {"resourceVersion": "7", "continue": str(end) if end < len(self.sizes) else ""}
        body = msgspec.json.encode({"metadata": meta, "items": items})
        if len(body) > MOST:
            raise TooLarge("answer")
        return body


def client(server: Any) -> Client:
    made = Client.__new__(Client)
    made.transport = server
    made._max_list = 96 << 20
    return made


async def listed(server: Server, most: int | None = 1 << 30) -> int:
    return sum([len(page.items) async for page in client(server).pages(PODS, most=most)])


async def test_a_page_of_large_objects_is_asked_for_in_parts() -> None:
    """As of 500 pods of a workflow engine, which have their whole template with them."""
    server = Server(*[30_000] * 600)
    assert await listed(server) == 600
    assert server.limits[:2] == [500, 125]
    with pytest.raises(TooLarge):
        await listed(Server(*[30_000] * 600), None)


async def test_the_pages_after_it_are_as_large_as_ever() -> None:
    server = Server(*[1_000_000] * 20, *[100] * 3000)
    assert await listed(server) == 3020
    assert server.limits[-1] == 500
    assert len(server.limits) < 30


async def test_one_object_that_is_too_large_is_the_end() -> None:
    server = Server(MOST)
    with pytest.raises(TooLarge):
        await listed(server)
    assert server.limits == [500, 125, 31, 7, 1]


async def test_a_copy_is_read_in_pages_that_fit() -> None:
    informer = Informer(client(Server(*[30_000] * 600)), PODS)
    await informer._list()
    assert (len(informer.store), informer.has_synced) == (600, True)


async def test_a_list_may_be_as_large_as_the_copy_that_it_is_for() -> None:
    """12,000 pods that wait, with the notes of those who manage their fields, are more than any other list may have."""
    managed = [{"manager": "x" * 4_000}]
    meta = {"name": "p", "namespace": "team", "uid": "u", "resourceVersion": "7", "managedFields": managed}
    server = Server(*[5_000] * 12_000, meta=meta)
    copy = Informer(client(server), PODS, max_bytes=128 << 20)
    await copy._list()
    assert len(copy.store) == 12_000
    with pytest.raises(TooLarge):
        await listed(server, None)
    with pytest.raises(TooLarge):
        await Informer(client(server), PODS, max_bytes=16 << 20)._list()


async def test_a_copy_that_a_list_does_not_fit_into_says_so_until_one_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(*[30_000] * 600)
    informer = Informer(client(server), PODS, max_bytes=16 << 20)
    monkeypatch.setattr(informer, "_wait", AsyncMock())
    with pytest.raises(TooLarge) as refused:
        await informer._list()
    await informer._pause(refused.value)
    assert informer.full
    server.sizes = server.sizes[:100]
    await informer._list()
    assert not informer.full
    # One large object among those that a watch shows does not say that the list is too large.
    await informer._pause(refused.value)
    assert not informer.full
