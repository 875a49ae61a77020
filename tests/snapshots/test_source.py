"""Which member of an etcd gives a snapshot. Members are played here: no server."""

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.errors import Timeout
from controller.snapshots import source
from controller.snapshots.source import NoMemberError
from controller.snapshots.spec import Order
from tests.kit.tenantsamples import plane_spec

CURRENT: Mapping[str, Any] = {"header": {"member_id": "1"}, "leader": "1"}
CORRUPT = "memberID:{} alarm:CORRUPT "


class Played:
    """One member, as its JSON gateway answers: its status, or an error to every read that a quorum has to confirm."""

    def __init__(self, status: Mapping[str, Any], *, apart: bool = False, torn: bool = False) -> None:
        self.transport = self
        self._status = status
        self._apart = apart
        self._torn = torn

    async def request(self, _: str, path: str, **__: object) -> bytes:
        if path == "/v3/cluster/member/list":
            if self._apart:
                raise Timeout("no quorum has answered")
            return b'{"members": []}'
        assert path == "/v3/maintenance/status"
        return json.dumps(self._status).encode()

    @contextlib.asynccontextmanager
    async def stream(self, path: str, body: bytes) -> AsyncIterator[str]:
        assert (path, body) == ("/v3/maintenance/snapshot", b"{}")
        if self._torn:
            raise Timeout("no stream")
        yield f"of member {self._status['header']['member_id']}"


def member(number: int, *, apart: bool = False, torn: bool = False, errors: tuple[str, ...] = ()) -> Played:
    status = CURRENT | {"header": {"member_id": str(number)}, "errors": list(errors)}
    return Played(status, apart=apart, torn=torn)


async def given(*members: Played) -> str:
    addresses = {f"plane-{number}": str(number) for number in range(len(members))}
    anything = cast("Any", None)
    order = Order({"metadata": {"name": "s", "uid": "u"}}, {}, plane_spec(tenant="red"), anything, "", {}, addresses)

    @contextlib.asynccontextmanager
    async def opened(_: object, address: str) -> AsyncIterator[Client]:
        yield cast("Client", members[int(address)])

    async with source.stream(order, opened) as answer:
        return cast("str", answer)


@pytest.mark.parametrize(
    ("members", "by"),
    [
        ((member(1), member(2)), 1),
        ((member(1, apart=True), member(2)), 2),
        ((member(1, torn=True), member(2)), 2),
        ((member(1, errors=(CORRUPT.format(1),)), member(2, errors=(CORRUPT.format(1),))), 2),
        ((member(1, errors=(CORRUPT.format(2),)), member(2)), 1),
        ((member(1, errors=("memberID:1 alarm:NOSPACE ",)), member(2)), 1),
    ],
    ids=["first", "apart", "no stream", "corrupt", "a peer is corrupt", "full"],
)
async def test_the_first_that_has_all_gives_it(members: tuple[Played, ...], by: int) -> None:
    assert await given(*members) == f"of member {by}"


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ((), "it is not running"),
        ((member(1, apart=True),), "plane-0: no quorum has answered"),
        ((member(1, apart=True), member(2, torn=True)), "plane-0: no quorum has answered; plane-1: no stream"),
        ((member(1, errors=(CORRUPT.format(1),)),), "plane-0: it has other data than its peers"),
        ((member(1, errors=("alarm:CORRUPT",)), member(2, errors=("alarm:CORRUPT",))), "plane-1: it has other data"),
    ],
    ids=["none", "apart", "two reasons", "corrupt", "none can tell which"],
)
async def test_where_none_has_all_there_is_no_snapshot_and_each_reason_is_told(members: tuple[Played, ...], why: str) -> None:
    with pytest.raises(NoMemberError, match=why):
        await given(*members)
