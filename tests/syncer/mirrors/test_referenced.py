"""Which copies stay for host pods that have no virtual pod: those that they name, and no others."""

from types import SimpleNamespace
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.objects import Key, Meta
from syncer.mirrors.referenced import Referenced
from syncer.mirrors.references import HOLDERS, ON_REFERENCE, ReferenceIndex
from syncer.translate.metadata import Identity
from syncer.work import Item
from tests.kit.fakeclock import FakeClock

COPY = Meta(name="settings-0123", namespace="work", uid="c")


class Store(dict[Key, Obj]):
    def metas(self) -> list[Meta]:
        return [Meta(name=key.name, namespace=key.namespace, uid=self[key]["metadata"]["uid"]) for key in self]

    def meta(self, key: Key) -> Meta | None:
        return Meta(name=key.name, namespace=key.namespace, uid=self[key]["metadata"]["uid"]) if key in self else None


class Copies:
    def __init__(self) -> None:
        self.deleted: list[str] = []

    def held(self, _item: Item) -> Meta:
        return COPY

    async def delete(self, _item: Item, held: Meta, _why: str) -> None:
        self.deleted.append(held.name)


def pod(uid: str, config_map: str) -> Obj:
    source = [{"configMapRef": {"name": config_map}}]
    return {"metadata": {"namespace": "work", "name": "web", "uid": uid}, "spec": {"containers": [{"envFrom": source}]}}


@pytest.mark.parametrize(
    ("named", "virtual", "stays"),
    [(COPY.name, "", True), ("another-4567", "", False), (COPY.name, "1", False), (COPY.name, "2", True)],
)
async def test_a_pod_that_lingers_on_the_host_holds_what_it_names_alone(named: str, virtual: str, stays: bool) -> None:
    """On a dead node a pod may linger for days; the copies of all other pods would fill the tenant's quota meanwhile."""
    stores = {kind: SimpleNamespace(store=Store()) for kind in (*HOLDERS, *ON_REFERENCE)}
    above = {kind: SimpleNamespace(store=Store()) for kind in HOLDERS}
    stores["Pod"].store[Key("work", "web")] = pod("h", named)
    if virtual:
        above["Pod"].store[Key("team", "web")] = {"metadata": {"uid": virtual}}
    caches: Any = SimpleNamespace(
        kinds=dict.fromkeys(stores), host=stores, virtual=above, origin=lambda _meta: Identity("Pod", "team", "web", "1")
    )
    copies: Any = Copies()
    nothing: Any = None
    referenced = Referenced(
        caches, nothing, nothing, references=ReferenceIndex(), copies=copies, recorder=nothing, clock=FakeClock()
    )
    again = await referenced.reconcile(Item("ConfigMap", Key("team", "settings")))
    assert (copies.deleted == [], again is not None) == (stays, stays)
