"""Which member of a plane is asked whether its API server answers."""

from types import SimpleNamespace
from typing import Any

import pytest

from bulkhead.kube.errors import Timeout
from controller.inside import access
from controller.inside.access import PlaneAccess
from controller.tenant.interior import Interior
from tests.kit.fakeclock import FakeClock
from tests.kit.tenantsamples import plane_spec


class Pods:
    """What the informer shows of a plane's pods."""

    def __init__(self, **ready: bool | None) -> None:
        self._ready = ready

    def get(self, _: object, key: Any) -> Any:
        ready = self._ready.get(key.name.replace("-", "_"))
        if ready is None:
            return None
        conditions = [{"type": "Ready", "status": str(ready)}]
        return {"metadata": {"name": key.name}, "status": {"podIP": f"ip-of-{key.name}", "conditions": conditions}}


class Answering(PlaneAccess):
    """Planes of which some members answer; remembers which were asked."""

    def __init__(self, *answering: str) -> None:
        super().__init__(FakeClock(), lambda _: None)
        self.answering, self.asked = answering, list[str]()

    async def _client(self, spec: Any, keys: Any, address: str) -> Any:
        async def get_raw(*_: object, **__: object) -> None:
            self.asked.append(address)
            if address not in self.answering:
                raise Timeout(f"{address} is silent")

        connection: Any = access._Connection
        self._connections[spec.tenant] = connection(None, address, "", self._clock.now(), None)
        return SimpleNamespace(get_raw=get_raw)

    def _wait(self, tenant: str, client: Any) -> None:
        """No test waits here."""


async def asked(pods: Pods, planes: Answering) -> bool:
    interior = Interior(pods, planes, FakeClock(), resync_seconds=1)  # type: ignore[arg-type]
    return (await interior.health(SimpleNamespace(spec=plane_spec(control_plane={"replicas": 3})), None)).ready  # type: ignore[arg-type]


@pytest.mark.parametrize("down", [False, None], ids=["not ready", "no pod"])
async def test_of_a_plane_whose_first_member_is_down_another_is_asked(down: bool | None) -> None:
    planes = Answering("ip-of-plane-1", "ip-of-plane-2")
    assert await asked(Pods(plane_0=down, plane_1=True, plane_2=True), planes)
    assert planes.asked == ["ip-of-plane-1"]


async def test_where_a_member_that_seems_to_serve_is_silent_the_next_is_asked_and_then_kept() -> None:
    pods, planes = Pods(plane_0=True, plane_1=True, plane_2=True), Answering("ip-of-plane-2")
    assert await asked(pods, planes)
    assert planes.asked == ["ip-of-plane-0", "ip-of-plane-1", "ip-of-plane-2"]
    assert await asked(pods, planes)
    assert planes.asked[3:] == ["ip-of-plane-2"]


async def test_of_a_plane_that_starts_the_first_pod_is_asked() -> None:
    planes = Answering()
    assert not await asked(Pods(plane_0=False, plane_1=False, plane_2=False), planes)
    assert planes.asked == ["ip-of-plane-0"]


async def test_a_plane_without_pods_is_not_asked() -> None:
    planes = Answering()
    assert not await asked(Pods(), planes)
    assert planes.asked == []
