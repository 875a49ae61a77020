"""What a run undoes in a plane while its host is busy, or renews its credentials. No server."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final, cast

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, KubeError, NotFound, NotServed, Throttled, Unauthorized, unreachable
from bulkhead.kube.objects import ObjList
from workstation.chaos import undo
from workstation.chaos.planes import Unreached

REFUSED: Final = Unauthorized(401, "Unauthorized", "the token has ended")
GONE: Final = NotFound(404, "NotFound", "no such tenant")


class Host:
    """Answers that come one after another; the last one repeats. Its tenant has an empty plane."""

    def __init__(self, *answers: Obj | KubeError) -> None:
        self._answers = list(answers)
        self.opened = 0
        # How its plane refuses, one attempt after another, before it takes a client.
        self.closed: list[Exception] = []

    async def get(self, *_: object) -> Obj:
        found = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(found, KubeError):
            raise found
        return found

    @contextlib.asynccontextmanager
    async def open(self, _: Obj) -> AsyncIterator[Client]:
        self.opened += 1
        if self.closed:
            raise self.closed.pop(0)
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


async def test_a_plane_that_was_just_killed_is_opened_again() -> None:
    """Ctrl-C during `plane-deleted`: without another try, the run's namespace stays in a tenant with users."""
    host = Host({"metadata": {"name": "red"}})
    host.closed = [Unreached("no pod of its plane is ready"), unreachable("refused")]
    assert (await in_plane(host), host.opened) == ([], 3)


async def test_a_tenant_that_goes_while_its_plane_is_away_leaves_nothing() -> None:
    host = Host({"metadata": {"name": "red"}}, GONE)
    host.closed = [Unreached("no pod of its plane is ready")]
    assert (await in_plane(host), host.opened) == ([], 1)


async def test_a_plane_that_stays_away_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo, "_PLANE_SECONDS", 0.05)
    host = Host({"metadata": {"name": "red"}})
    host.closed = [Unreached("no way")] * 100
    (text,) = await in_plane(host)
    assert text == "objects labelled bulkhead.dev/chaos=chaos-000000 in tenant red: its API is not reached: no way"


async def test_a_plane_that_refuses_for_missing_rights_is_not_waited_for() -> None:
    host = Host({"metadata": {"name": "red"}})
    host.closed = [Forbidden(403, "Forbidden", "no")] * 2
    (text,) = await in_plane(host)
    assert ("Forbidden: no" in text, host.opened) == (True, 1)


async def test_a_404_of_a_proxy_before_the_host_is_no_absence() -> None:
    """Taken for one, the record is deleted, and a webhook stays in a tenant with users."""
    host = Host(NotServed(404, "", "HTTP 404: default backend"))
    assert await in_plane(host) == ["tenant red: 404: HTTP 404: default backend"]
