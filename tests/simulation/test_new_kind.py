"""An entry in the registry is enough for a kind to be mirrored: here one that nothing in the syncer names."""

from typing import Final

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.objects import Key
from bulkhead.kube.resources import LIMIT_RANGES
from syncer.translate import Reason, TenantView, Untranslatable, diff, metadata, registry
from syncer.translate.registry import Translation
from tests.simulation.api import Api
from tests.simulation.stories import Story
from tests.simulation.virtualtime import run
from tests.simulation.world import SPACE, WORK, World

KIND: Final = LIMIT_RANGES.kind
NAMED: Final = {"name": "one", "namespace": SPACE}


def to_host(virtual: Obj, view: TenantView) -> Obj:
    if virtual["spec"].get("greedy"):
        raise Untranslatable(Reason.NOT_ALLOWED, "not that much", "spec.greedy")
    meta = metadata.host_metadata(metadata.identity(KIND, virtual), virtual, view)
    return {"apiVersion": "v1", "kind": KIND, "metadata": meta, "spec": virtual["spec"]}


def status_to_virtual(host: Obj, _virtual: Obj, _view: TenantView) -> Obj:
    return dict(host.get("status") or {})


@pytest.fixture(autouse=True)
def _entry(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Translation(KIND, "", "v1", LIMIT_RANGES.plural, to_host, status_to_virtual=status_to_virtual)
    monkeypatch.setitem(registry._BY_KIND, KIND, entry)


def patch(api: Api, name: str, namespace: str, **fields: Obj) -> None:
    body = {"metadata": {"name": name, "namespace": namespace}, **fields}
    api.do("PATCH", LIMIT_RANGES, body, user="tenant", content_type=diff.MERGE)


def copies(world: World) -> list[Obj]:
    return world.host.store.all(LIMIT_RANGES, WORK)


async def life(world: World) -> None:
    await world.settle()
    world.plane.do("POST", LIMIT_RANGES, {"metadata": NAMED, "spec": {"most": 1}}, user="tenant")
    await world.settle()
    (copy,) = copies(world)
    assert copy["spec"] == {"most": 1}

    patch(world.plane, "one", SPACE, spec={"most": 2})
    patch(world.host, copy["metadata"]["name"], WORK, status={"used": 1})
    await world.settle()
    assert copies(world)[0]["spec"] == {"most": 2}
    virtual = world.plane.store.get(LIMIT_RANGES, Key(SPACE, "one"))
    assert virtual is not None
    assert virtual["status"] == {"used": 1}

    patch(world.plane, "one", SPACE, spec={"greedy": True})
    await world.settle()
    assert copies(world)[0]["spec"] == {"most": 2}, "its last accepted form stays"
    world.plane.do("DELETE", LIMIT_RANGES, {"metadata": NAMED}, user="tenant")
    await world.check()
    assert copies(world) == []


async def orphans(world: World) -> None:
    """What was deleted while the syncer was away, and what an earlier life of it has left."""
    world.plane.do("POST", LIMIT_RANGES, {"metadata": NAMED, "spec": {"most": 1}}, user="tenant")
    await world.settle()
    assert len(copies(world)) == 1
    await world.stop()
    world.plane.do("DELETE", LIMIT_RANGES, {"metadata": NAMED}, user="tenant")
    await world.start()
    await world.check()
    assert copies(world) == []


@pytest.mark.parametrize("story", [life, orphans])
def test_a_kind_with_an_entry_alone_is_mirrored(story: Story) -> None:
    async def told() -> None:
        async with World.open(1) as world:
            await story(world)

    run(told)
