"""A node that the plane has and the host's pool does not: the host is asked first, within the budget of reads."""

from types import SimpleNamespace
from typing import Any

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube.objects import Key, ObjList
from syncer.nodes import Nodes
from syncer.write.budget import WriteBudget
from tests.kit.fakeclock import FakeClock

NAMES = [f"made-up-{number}" for number in range(20)]


class Clock(FakeClock):
    """It does not wait, and remembers for how long it should have."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)


async def test_nodes_that_a_tenant_makes_have_the_host_asked_within_the_budget() -> None:
    done: list[str] = []

    class Host:
        async def list(self, _r: Any, **_selectors: str) -> ObjList:
            done.append("asked")
            return ObjList([], "1")

    class Plane:
        async def delete(self, _r: Any, name: str, *, uid: str) -> None:
            done.append(name)

    def node(name: str) -> Obj:
        return {"metadata": {"name": name, "uid": name, "labels": {marks.PLATFORM: "true"}}}

    host: Any = SimpleNamespace(store={}, has_synced=True)
    virtual: Any = SimpleNamespace(store={Key("", name): node(name) for name in NAMES})
    caches: Any = SimpleNamespace(host={"Node": host}, virtual={"Node": virtual}, pool=None)
    clock = Clock()
    to_plane: Any = Plane()
    to_host: Any = Host()
    shares: Any = None
    nodes = Nodes(caches, to_plane, to_host, shares, WriteBudget(clock, read_rate=2.0, read_burst=5.0))
    for name in NAMES:
        await nodes.reconcile(Key("", name))
    assert done[:2] == ["asked", NAMES[0]]
    assert len(done) == 2 * len(NAMES)
    assert len(clock.waited) == len(NAMES) - 5
