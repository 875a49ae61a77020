"""A teardown that only waits looks ever less often, and one that cannot go on says by whose doing."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bulkhead.api import labels
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import NotFound
from bulkhead.kube.resources import Resource
from controller.tenant.dismantle import Dismantler

TENANT: dict[str, Any] = {
    "metadata": {"name": "red", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"},
    "status": {"serviceSlice": "10.112.4.0/22"},
}
SLICE: dict[str, Any] = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "ServiceCIDR",
    "metadata": {"name": "bh-red", "uid": "s", "deletionTimestamp": "2026-01-01T00:00:00Z"},
}


class Host:
    """A host on which nothing is left of the tenant but its slice, of which Services have addresses."""

    def __init__(self, **holders: str) -> None:
        self._addresses = [
            {
                "metadata": {"name": address},
                "spec": {"parentRef": {"namespace": place.split("/")[0], "name": place.split("/")[1]}},
            }
            for place, address in holders.items()
        ]
        self.asked = 0
        self.namespaces: dict[str, Any] = {}
        self.deleted: list[str] = []

    async def get(self, _: Resource, name: str) -> Any:
        if name not in self.namespaces:
            raise NotFound(404, "NotFound", "gone")
        return self.namespaces[name]

    async def delete(self, kind: Resource, name: str, *_: Any, **__: Any) -> None:
        self.deleted.append(f"{kind.kind} {name}")

    async def list_metadata(self, kind: Resource, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(items=[SLICE] if kind is kinds.SERVICE_CIDRS else [])

    async def list(self, kind: Resource) -> Any:
        assert kind is kinds.IP_ADDRESSES
        self.asked += 1
        return SimpleNamespace(items=self._addresses)


OTHERS = {"bulkhead-system/bulkhead-controller": "10.112.5.186", "bh-red/plane": "10.112.4.1", "default/web": "10.96.0.7"}


@pytest.mark.parametrize("blocked", [False, True])
async def test_who_has_an_address_of_the_slice_is_named_once_the_teardown_is_blocked(blocked: bool) -> None:
    host = Host(**OTHERS)
    found = await Dismantler(cast("Any", host)).step(TENANT, blocked=blocked)
    assert not found.done
    assert found.message.startswith("removing rights and the address slice: ServiceCIDR bh-red")
    assert ("bulkhead-system/bulkhead-controller has 10.112.5.186; delete and recreate them" in found.message) is blocked
    assert "plane has" not in found.message
    assert "default/web" not in found.message
    # A tenant that has been terminating for minutes delays no other tenant.
    assert (found.again >= 5, host.asked) == ((True, 1) if blocked else (False, 0))


async def test_where_no_service_holds_the_slice_none_is_blamed() -> None:
    found = await Dismantler(cast("Any", Host(**{"default/web": "10.96.0.7"}))).step(TENANT, blocked=True)
    assert found.message == "removing rights and the address slice: ServiceCIDR bh-red"


async def test_many_are_counted() -> None:
    host = Host(**{f"default/web-{number}": f"10.112.4.{100 + number}" for number in range(5)})
    found = await Dismantler(cast("Any", host)).step(TENANT, blocked=True)
    assert "default/web-2 has 10.112.4.102 and 2 more; delete and recreate them" in found.message


@pytest.mark.parametrize("kept", [True, False])
async def test_the_slice_of_a_plane_that_is_kept_for_another_tenant_of_the_name_stays(kept: bool) -> None:
    """A Tenant that adopted in vain, and is deleted without spec.adopt, owns neither namespace."""
    identity = "99999999-8888-7777-6666-555555555555"
    marks = {labels.TENANT: "red", labels.MANAGED_BY: labels.MANAGED_BY_BULKHEAD, labels.RETAINED: identity}
    host, slice_ = Host(), SLICE | {"metadata": {"name": "bh-red", "uid": "s"}}

    async def listed(kind: Resource, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(items=[slice_] if kind is kinds.SERVICE_CIDRS else [])

    host.list_metadata = listed  # type: ignore[method-assign]
    if kept:
        meta = {"name": "bh-red", "uid": "n", "labels": marks, "annotations": {labels.TENANT_UID: "another"}}
        host.namespaces = {"bh-red": {"metadata": meta}}
    found = await Dismantler(cast("Any", host)).step(TENANT)
    assert (found.done, host.deleted) == ((True, []) if kept else (False, ["ServiceCIDR bh-red"]))


def _going(*addresses: str) -> list[Any]:
    return [SLICE | {"metadata": SLICE["metadata"] | {"name": name}} for name in addresses]


async def test_the_less_a_tenant_changes_the_later_the_next_look_comes() -> None:
    """A look is a dozen requests: a hundred tenants that wait for the host to forget their slices make few of them."""
    dismantler = Dismantler(cast("Any", Host()))
    waits = [(await dismantler.step(TENANT)).again for _ in range(6)]
    assert waits == [0.25, 0.5, 1.0, 2.0, 2.0, 2.0]
    # Another tenant, or another life of this one, has waits of its own.
    other = TENANT | {"metadata": TENANT["metadata"] | {"name": "blue"}}
    assert (await dismantler.step(other)).again == 0.25


@pytest.mark.parametrize("acts", [True, False])
async def test_what_goes_on_is_looked_at_soon(acts: bool) -> None:
    host = Host()
    dismantler, left = Dismantler(cast("Any", host)), _going("one", "two")

    async def listed(kind: Resource, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(items=left if kind is kinds.SERVICE_CIDRS else [])

    host.list_metadata = listed  # type: ignore[method-assign]
    assert [(await dismantler.step(TENANT)).again for _ in range(4)][-1] == 2.0
    if acts:
        left.append(SLICE | {"metadata": {"name": "three", "uid": "t"}})
    else:
        left.pop()
    assert (await dismantler.step(TENANT)).again == 0.25
    assert host.deleted == (["ServiceCIDR three"] if acts else [])


async def test_a_teardown_that_has_ended_leaves_no_wait_behind() -> None:
    host = Host()
    dismantler = Dismantler(cast("Any", host))
    assert [(await dismantler.step(TENANT)).again for _ in range(3)][-1] == 1.0
    listed = host.list_metadata

    async def nothing(*_: Any, **__: Any) -> Any:
        return SimpleNamespace(items=[])

    host.list_metadata = nothing  # type: ignore[method-assign]
    assert (await dismantler.step(TENANT)).done
    host.list_metadata = listed  # type: ignore[method-assign]
    assert (await dismantler.step(TENANT)).again == 0.25
