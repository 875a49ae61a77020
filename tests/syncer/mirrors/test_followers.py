"""The hooks of single kinds: what a refused address means, and which claims wait for which snapshot."""

from types import SimpleNamespace
from typing import Any, Final

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.errors import ApiError, Forbidden, NotFound, Unprocessable
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, Meta
from syncer.mirrors.services import Services
from syncer.mirrors.volumeclaims import VolumeClaims
from syncer.mirrors.volumes import Volumes
from syncer.quota.extent import Extent, Limits
from syncer.translate import Reason, Untranslatable
from syncer.translate.kinds import nodeports, snapshot, volumeclaim
from syncer.translate.references import CLAIM
from syncer.work import Item
from tests.kit.fakeclock import FakeClock

ADDRESS: Final = "10.112.4.50"
WANTS: Final[Obj] = {"metadata": {"name": "web"}, "spec": {"clusterIP": ADDRESS}}
TAKEN: Final = Unprocessable(422, "Invalid", f"failed to allocate IP {ADDRESS}: provided IP is already allocated")


class Store(dict[Key, Obj]):
    def objects(self) -> list[Obj]:
        return list(self.values())

    def meta(self, key: Key) -> Meta | None:
        return Meta(name=key.name, namespace=key.namespace) if key in self else None


class Queue:
    def __init__(self) -> None:
        self.added: list[Item] = []

    def add(self, item: Item) -> None:
        self.added.append(item)


def services(queue: Any, held_by: str, extent: Extent | None = None, *, above: str = ADDRESS) -> Services:
    """`above`: the address that the holder's Service has in the plane; empty if it is gone."""
    held = {"metadata": {"namespace": "work", "name": "held"}, "spec": {"clusterIP": ADDRESS}}
    virtual = Store({Key("space", "other"): {"spec": {"clusterIP": above}}} if above else {})
    caches: Any = SimpleNamespace(
        host={"Service": SimpleNamespace(store=Store({Key("work", "held"): held}))},
        virtual={"Service": SimpleNamespace(store=virtual)},
        work_of=lambda _kind, _meta: Item(held_by, Key("space", "other")),
        host_key=lambda _kind, key: Key("work", key.name),
    )
    return Services(caches, queue, extent or Extent(Limits(1, 1), FakeClock()))


def test_node_ports_of_the_tenant_give_way_to_its_service() -> None:
    queue = Queue()
    assert services(queue, nodeports.KIND).refused(TAKEN, WANTS) == 2.0
    assert queue.added == [Item(nodeports.KIND, Key("space", "other"))]


@pytest.mark.parametrize("above", ["", "10.112.4.51"])
def test_the_copy_of_a_service_that_has_the_address_no_more_goes_first(above: str) -> None:
    queue = Queue()
    assert services(queue, "Service", above=above).refused(TAKEN, WANTS) == 2.0
    assert queue.added == [Item("Service", Key("space", "other"))]


def test_a_service_takes_room_for_its_ports_and_gives_it_back_where_the_host_refuses_it() -> None:
    extent = Extent(Limits(1, 10), FakeClock())
    service = services(Queue(), "Service", extent)

    def host(name: str, ports: int) -> Obj:
        return {"metadata": {"namespace": "work", "name": name}, "spec": {"ports": [{"port": port} for port in range(ports)]}}

    item = Item("Service", Key("", "web"))
    service.before_create(item, host("web", 8))
    with pytest.raises(Untranslatable, match="The Service is mirrored when enough is free"):
        service.before_create(item, host("late", 3))
    service.refused(Forbidden(403, "Forbidden", "no"), WANTS)
    service.before_create(item, host("late", 3))
    service.before_patch(host("late", 3), host("late", 10))
    with pytest.raises(Untranslatable, match="it stays as it is until enough is free"):
        service.before_patch(host("late", 10), host("late", 11))


def test_an_address_that_another_has_is_named() -> None:
    queue = Queue()
    refused = services(queue, "Service").refused(TAKEN, WANTS)
    assert isinstance(refused, Untranslatable)
    assert refused.reason is Reason.HOST_REFUSED
    assert ADDRESS in str(refused)
    assert queue.added == []


@pytest.mark.parametrize("error", [Forbidden(403, "Forbidden", "already allocated"), Unprocessable(422, "Invalid", "no port")])
def test_any_other_refusal_means_what_it_means_for_every_kind(error: ApiError) -> None:
    assert services(Queue(), "Service").refused(error, WANTS) is None


def test_a_claim_waits_for_its_snapshot_and_is_queued_when_it_comes() -> None:
    queue: Any = Queue()
    nothing: Any = None
    snapshots = SimpleNamespace(store=Store())
    caches: Any = SimpleNamespace(
        host={snapshot.KIND: snapshots}, settings=SimpleNamespace(work_namespace="work"), origin=lambda meta: meta
    )
    claims = VolumeClaims(caches, queue, nothing, nothing, volumes=nothing, recorder=nothing)
    item = Item(CLAIM, Key("space", "restored"))
    desired = {"spec": {"dataSource": {"kind": snapshot.KIND, "name": "nightly-1"}}}

    with pytest.raises(Untranslatable, match="waits for its VolumeSnapshot"):
        claims.before_create(item, desired)
    side, kind, listener = next(iter(claims.subscriptions()))
    assert (side, kind) == ("host", snapshot.KIND)
    listener(Change("deleted", Key("work", "nightly-1"), Meta()))
    assert queue.added == []
    listener(Change("added", Key("work", "nightly-1"), Meta()))
    assert queue.added == [item]

    snapshots.store[Key("work", "nightly-1")] = {}
    claims.before_create(item, desired)
    claims.before_create(item, {"spec": {}})


async def test_a_volume_that_an_older_copy_of_the_plane_lacks_is_made_again() -> None:
    """The claim is older than the copy, and its volume is not: found right before, it was not looked for again."""
    made: list[str] = []

    class Plane:
        async def create(self, _resource: Any, wanted: Obj) -> Obj:
            made.append(wanted["metadata"]["name"])
            return wanted | {"metadata": wanted["metadata"] | {"uid": "u-2"}}

        async def patch(self, *_: Any, **__: Any) -> None:
            return

    nothing: Any = None
    plane: Any = Plane()
    claims = VolumeClaims(nothing, nothing, nothing, nothing, volumes=Volumes(plane), recorder=nothing)
    name = volumeclaim.volume_name("u-1")
    virtual = {"metadata": {"namespace": "space", "name": "data", "uid": "u-1"}, "spec": {"volumeName": name}}
    host = {"spec": {"volumeName": "pv-7"}, "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
    for _ in range(2):
        await claims.before_status(virtual, host)
    assert made == [name]
    claims.forget_plane()
    await claims.before_status(virtual, host)
    assert made == [name, name]


@pytest.mark.parametrize(
    ("above", "below", "told"),
    [
        ({"volumeName": "pvc-u-1"}, {}, ["VolumeLost"]),
        ({"volumeName": "pvc-u-1"}, {"spec": {"volumeName": "pv-7"}}, []),
        ({"volumeName": "pvc-u-1"}, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, []),
        ({}, {}, []),
    ],
)
async def test_a_claim_that_gets_an_empty_volume_in_place_of_its_own_says_so(above: Obj, below: Obj, told: list[str]) -> None:
    """As after a restore of the plane from before the claim was deleted: its pods would take the volume for new."""
    reasons: list[str] = []

    async def get(*_: Any) -> Obj:
        raise NotFound(404, "NotFound", "no volume")

    nothing: Any = None
    plane: Any = SimpleNamespace(get=get)
    recorder: Any = SimpleNamespace(warn=lambda _virtual, reason, _text: reasons.append(reason))
    claims = VolumeClaims(nothing, nothing, nothing, nothing, volumes=Volumes(plane), recorder=recorder)
    virtual = {"metadata": {"namespace": "space", "name": "data", "uid": "u-1"}, "spec": above}
    await claims.before_status(virtual, {"metadata": {}, "status": {"phase": "Pending"}} | below)
    assert reasons == told
