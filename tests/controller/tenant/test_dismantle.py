"""A teardown that only waits looks ever less often, and one that cannot go on says by whose doing."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bulkhead.api import labels
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import ApiError, NotFound
from bulkhead.kube.resources import Resource
from controller.decide.remnant import remnant_of
from controller.tenant.dismantle import Dismantler

TENANT: dict[str, Any] = {
    "metadata": {"name": "red", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"},
    "status": {"serviceSlice": "10.112.4.0/22"},
}
SLICE: dict[str, Any] = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "ServiceCIDR",
    "metadata": {
        "name": "bh-red",
        "uid": "s",
        "labels": labels.made_for("red"),
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    },
    "spec": {"cidrs": ["10.112.4.0/22"]},
}


class Host:
    """A host on which nothing is left of the tenant but its slice, in which Services have addresses."""

    def __init__(self, **holders: str) -> None:
        self._addresses = [
            {
                "metadata": {"name": address},
                "spec": {"parentRef": {"namespace": place.split("/")[0], "name": place.split("/")[1]}},
            }
            for place, address in holders.items()
        ]
        self.service_cidrs: list[Any] = [SLICE]
        self.namespaces: dict[str, Any] = {}
        self.calls: list[str] = []
        self.listed: list[Resource] = []
        self.refuses: ApiError | None = None

    @property
    def deleted(self) -> list[str]:
        return [call.removeprefix("delete ") for call in self.calls if call.startswith("delete ")]

    async def get(self, _: Resource, name: str) -> Any:
        if name not in self.namespaces:
            raise NotFound(404, "NotFound", "gone")
        return self.namespaces[name]

    async def create(self, kind: Resource, obj: Any) -> Any:
        self.calls.append(f"create {kind.kind} {obj['metadata']['name']}")
        if self.refuses is not None:
            raise self.refuses
        made = obj | {"metadata": obj["metadata"] | {"uid": "made"}}
        self.service_cidrs.append(made)
        return made

    async def delete(self, kind: Resource, name: str, *_: Any, **__: Any) -> None:
        self.calls.append(f"delete {kind.kind} {name}")
        for obj in self.service_cidrs:
            if obj["metadata"]["name"] == name:
                obj["metadata"] = obj["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:09Z"}

    async def list_metadata(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(items=[])

    async def list(self, kind: Resource, *, label_selector: str = "") -> Any:
        self.listed.append(kind)
        if kind is kinds.IP_ADDRESSES:
            return SimpleNamespace(items=self._addresses)
        assert kind is kinds.SERVICE_CIDRS
        wanted = [pair.split("=") for pair in label_selector.split(",")]
        found = [obj for obj in self.service_cidrs if all(obj["metadata"].get("labels", {}).get(k) == v for k, v in wanted)]
        return SimpleNamespace(items=found)


OTHERS = {"bulkhead-system/bulkhead-controller": "10.112.5.186", "bh-red/plane": "10.112.4.1", "default/web": "10.96.0.7"}


REMNANT = "10.112.4.0-22.left.bulkhead.dev"


async def test_a_service_of_the_host_keeps_its_address_and_no_tenant() -> None:
    """The host gives a new Service an address of any slice; that slice's tenant could not go before the Service."""
    host = Host(**OTHERS)
    dismantler = Dismantler(cast("Any", host))
    assert not (await dismantler.step(TENANT)).done
    assert host.calls == [f"create ServiceCIDR {REMNANT}", f"delete ServiceCIDR {REMNANT}"]
    # It is made once. The host lets the slice go, since the remnant contains it, and keeps that for the Service.
    assert not (await dismantler.step(TENANT)).done
    host.service_cidrs.remove(SLICE)
    assert (await dismantler.step(TENANT)).done
    assert len(host.calls) == 2


async def test_a_remnant_whose_deletion_was_not_asked_for_is_not_left_so() -> None:
    """The controller may die between the two calls; the host would give further addresses of it for ever."""
    host = Host(**OTHERS)
    dismantler = Dismantler(cast("Any", host))
    made = remnant_of(SLICE)
    host.service_cidrs = [made | {"metadata": made["metadata"] | {"uid": "r"}}]
    found = await dismantler.step(TENANT)
    assert (found.done, host.deleted) == (False, [f"ServiceCIDR {REMNANT}"])
    assert found.message == f"leaving addresses of the slice to other Services: ServiceCIDR {REMNANT}"
    assert (await dismantler.step(TENANT)).done


async def test_while_a_namespace_is_there_its_own_services_leave_no_remnant() -> None:
    host = Host(**OTHERS)
    own = labels.made_for("red")
    meta = {"name": "bh-red-work", "uid": "w", "labels": own, "annotations": {labels.TENANT_UID: "u"}}
    host.namespaces = {"bh-red-work": {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}}
    await Dismantler(cast("Any", host)).step(TENANT)
    assert not any(call.startswith("create") for call in host.calls)
    # Nor are the addresses of all Services of the host listed, of which there may be thousands.
    assert kinds.IP_ADDRESSES not in host.listed


async def test_where_no_service_has_an_address_of_the_slice_no_remnant_is_made() -> None:
    host = Host(**{"default/web": "10.96.0.7"})
    found = await Dismantler(cast("Any", host)).step(TENANT, blocked=True)
    assert (found.message, host.calls) == ("removing rights and the address slice: ServiceCIDR bh-red", [])


@pytest.mark.parametrize("blocked", [False, True])
async def test_who_has_an_address_is_named_where_the_host_takes_no_remnant(blocked: bool) -> None:
    host = Host(**OTHERS)
    host.refuses = ApiError(403, "Forbidden", "no ServiceCIDRs here")
    found = await Dismantler(cast("Any", host)).step(TENANT, blocked=blocked)
    assert not found.done
    assert found.message.startswith("removing rights and the address slice: ServiceCIDR bh-red")
    assert ("bulkhead-system/bulkhead-controller has 10.112.5.186; delete and recreate them" in found.message) is blocked
    assert "plane has" not in found.message
    assert "default/web" not in found.message
    # A tenant that has been terminating for minutes delays no other tenant.
    assert (found.again >= 5) is blocked


async def test_many_are_counted() -> None:
    host = Host(**{f"default/web-{number}": f"10.112.4.{100 + number}" for number in range(5)})
    host.refuses = ApiError(403, "Forbidden", "no ServiceCIDRs here")
    found = await Dismantler(cast("Any", host)).step(TENANT, blocked=True)
    assert "default/web-2 has 10.112.4.102 and 2 more; delete and recreate them" in found.message


@pytest.mark.parametrize("kept", [True, False])
async def test_the_slice_of_a_plane_that_is_kept_for_another_tenant_of_the_name_stays(kept: bool) -> None:
    """A Tenant that adopted in vain, and is deleted without spec.adopt, owns neither namespace."""
    identity = "99999999-8888-7777-6666-555555555555"
    marks = {labels.TENANT: "red", labels.MANAGED_BY: labels.MANAGED_BY_BULKHEAD, labels.RETAINED: identity}
    host = Host()
    host.service_cidrs = [SLICE | {"metadata": {"name": "bh-red", "uid": "s", "labels": labels.made_for("red")}}]
    if kept:
        meta = {"name": "bh-red", "uid": "n", "labels": marks, "annotations": {labels.TENANT_UID: "another"}}
        host.namespaces = {"bh-red": {"metadata": meta}}
    found = await Dismantler(cast("Any", host)).step(TENANT)
    assert (found.done, host.deleted) == ((True, []) if kept else (False, ["ServiceCIDR bh-red"]))


def _going(*named: str) -> list[Any]:
    return [SLICE | {"metadata": SLICE["metadata"] | {"name": name}} for name in named]


async def test_the_less_a_tenant_changes_the_later_the_next_look_comes() -> None:
    """A look is a dozen requests: a hundred tenants that wait for the host to forget their slices make few of them."""
    host = Host()
    dismantler = Dismantler(cast("Any", host))
    waits = [(await dismantler.step(TENANT)).again for _ in range(6)]
    assert waits == [0.25, 0.5, 1.0, 2.0, 2.0, 2.0]
    # Another tenant has waits of its own.
    other = TENANT | {"metadata": TENANT["metadata"] | {"name": "blue"}}
    host.service_cidrs.append(SLICE | {"metadata": SLICE["metadata"] | {"labels": labels.made_for("blue")}})
    assert (await dismantler.step(other)).again == 0.25


@pytest.mark.parametrize("acts", [True, False])
async def test_what_goes_on_is_looked_at_soon(acts: bool) -> None:
    host = Host()
    host.service_cidrs = _going("one", "two")
    dismantler = Dismantler(cast("Any", host))
    assert [(await dismantler.step(TENANT)).again for _ in range(4)][-1] == 2.0
    if acts:
        host.service_cidrs.append(SLICE | {"metadata": {"name": "three", "uid": "t", "labels": labels.made_for("red")}})
    else:
        host.service_cidrs.pop()
    assert (await dismantler.step(TENANT)).again == 0.25
    assert host.deleted == (["ServiceCIDR three"] if acts else [])


async def test_a_teardown_that_has_ended_leaves_no_wait_behind() -> None:
    host = Host()
    dismantler = Dismantler(cast("Any", host))
    assert [(await dismantler.step(TENANT)).again for _ in range(3)][-1] == 1.0
    host.service_cidrs = []
    assert (await dismantler.step(TENANT)).done
    host.service_cidrs = [SLICE]
    assert (await dismantler.step(TENANT)).again == 0.25
