"""The plane's identity: what arrives while it is asked does not count against it."""

from typing import Any, cast

from bulkhead.kube.client import Client
from bulkhead.kube.objects import Obj
from syncer.write.identity import PlaneIdentity
from tests.kit.fakeclock import FakeClock


class _Listed:
    items = ({"metadata": {"uid": "plane"}},)

    def __init__(self, revision: int) -> None:
        self.resource_version = str(revision)


class _Plane:
    """A plane of a given revision, from which a watch event arrives before the answer does."""

    def __init__(self) -> None:
        self.revision = 100
        self.arrives = 0
        self.identity: PlaneIdentity | None = None

    async def list(self, *_args: Any, **_options: Any) -> _Listed:
        answer = _Listed(self.revision)
        if self.identity is not None and self.arrives:
            self.identity.saw(str(self.arrives))
        return answer


class _Host:
    """A host that remembers the ConfigMap."""

    def __init__(self) -> None:
        self.data: dict[str, str] = {"clusterUID": "plane", "highestRevision": "100"}

    async def get(self, *_args: Any) -> Obj:
        return {"data": self.data}

    async def patch(self, _resource: Any, _name: str, body: Obj, _namespace: str) -> Obj:
        self.data |= {key: value for key, value in body["data"].items() if value}
        return body

    async def create(self, *_args: Any) -> Obj:
        return {}


def _made() -> tuple[PlaneIdentity, _Plane, FakeClock]:
    plane, clock = _Plane(), FakeClock()
    identity = PlaneIdentity(cast("Client", plane), cast("Client", _Host()), "bh-red", clock)
    plane.identity = identity
    return identity, plane, clock


async def test_an_event_that_overtakes_the_answer_is_no_step_back() -> None:
    identity, plane, _clock = _made()
    await identity.establish()
    plane.arrives = 105
    plane.revision = 103
    identity._checked = float("-inf")
    assert await identity.trusted()


async def test_a_revision_seen_before_the_question_counts() -> None:
    identity, plane, _clock = _made()
    await identity.establish()
    identity.saw("105")
    plane.revision = 103
    identity._checked = float("-inf")
    assert not await identity.trusted()
