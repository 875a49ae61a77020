"""What a run undoes in a plane while its host is busy, or renews its credentials. No server."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final, cast

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, KubeError, NotFound, Throttled, Unauthorized, unreachable
from bulkhead.kube.objects import ObjList
from workstation.chaos import undo

REFUSED: Final = Unauthorized(401, "Unauthorized", "the token has ended")
GONE: Final = NotFound(404, "NotFound", "no such tenant")


class Host:
    """Answers that come one after another; the last one repeats. Its tenant has an empty plane."""

    def __init__(self, *answers: Obj | KubeError) -> None:
        self._answers = list(answers)
        self.opened = 0

    async def get(self, *_: object) -> Obj:
        found = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(found, KubeError):
            raise found
        return found

    @contextlib.asynccontextmanager
    async def open(self, _: Obj) -> AsyncIterator[Client]:
        self.opened += 1
        yield cast("Any", self)

    async def list_metadata(self, *_: object, **__: object) -> ObjList:
        return ObjList([], "1")


async def in_plane(host: Host) -> list[str]:
    return await undo._in_plane(cast("Any", host), cast("Any", host), "chaos-000000", "red", ["Namespace"])


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(undo, "_PLANE_SECONDS", 2.0)


@pytest.mark.parametrize("error", [REFUSED, Throttled(429, "", "later"), unreachable("refused")])
async def test_a_host_that_refuses_for_a_while_is_asked_again(error: KubeError) -> None:
    """The plugin is asked for other credentials meanwhile; without another try, a webhook stays in a tenant with users."""
    host = Host(error, error, {"metadata": {"name": "red"}})
    assert (await in_plane(host), host.opened) == ([], 1)
    assert await in_plane(Host(error, GONE)) == []


async def test_a_host_that_goes_on_refusing_is_asked_for_as_long_as_a_plane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo, "_PLANE_SECONDS", 0.05)
    host = Host(REFUSED)
    assert (await in_plane(host), host.opened) == (["tenant red: Unauthorized: the token has ended"], 0)


async def test_missing_rights_are_not_waited_for() -> None:
    host = Host(Forbidden(403, "Forbidden", "no"), {"metadata": {"name": "red"}})
    assert (await in_plane(host), host.opened) == (["tenant red: Forbidden: no"], 0)
