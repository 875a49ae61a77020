"""Hand-made endpoints on the host follow the pods whose addresses they name: no address of a pod that is gone stays."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.kube.resources import ENDPOINT_SLICES, PODS
from syncer.translate.kinds.endpointslice import MOST_OF_TENANT
from tests.kit.servers import ApiServer
from tests.kit.syncerbed import SyncerBed, until


async def running_at(bed: SyncerBed, name: str, address: str) -> Obj:
    host = await bed.running(name)
    await move(bed, host, address)
    return host


async def move(bed: SyncerBed, host: Obj, address: str, **more: Any) -> None:
    body = {"status": {"podIP": address, "podIPs": [{"$patch": "replace"}, {"ip": address}]} | more}
    await bed.host.patch(
        PODS, host["metadata"]["name"], body, bed.work,
        subresource="status", content_type="application/strategic-merge-patch+json",
    )  # fmt: skip


async def by_hand(bed: SyncerBed, name: str, *addresses: str, **meta: Any) -> Obj:
    labels = {"kubernetes.io/service-name": "db", "endpointslice.kubernetes.io/managed-by": "by-hand"}
    return await bed.plane.create(
        ENDPOINT_SLICES,
        {
            "metadata": {"name": name, "labels": labels} | meta,
            "addressType": "IPv4",
            "endpoints": [{"addresses": [each], "conditions": {"ready": True}} for each in addresses],
            "ports": [{"port": 80}],
        },
        bed.space,
    )


async def host_addresses(bed: SyncerBed, name: str) -> list[str] | None:
    try:
        found = await bed.host.get(ENDPOINT_SLICES, bed.host_name("EndpointSlice", name), bed.work)
    except NotFound:
        return None
    return [address for each in found["endpoints"] or () for address in each["addresses"]]


async def shows(bed: SyncerBed, name: str, *addresses: str) -> None:
    async def found() -> bool:
        return (await host_addresses(bed, name) or []) == list(addresses)

    await until(found, f"{name} leads to {addresses}")


async def _ends(bed: SyncerBed, host: Obj) -> None:
    await bed.run(host, "Succeeded")


async def _fails(bed: SyncerBed, host: Obj) -> None:
    await move(bed, host, "10.244.9.1", phase="Failed")


async def _is_being_deleted(bed: SyncerBed, host: Obj) -> None:
    await bed.host.delete(PODS, host["metadata"]["name"], bed.work, grace_seconds=30)


async def _goes(bed: SyncerBed, host: Obj) -> None:
    await bed.host.delete(PODS, host["metadata"]["name"], bed.work, grace_seconds=0)


async def _moves(bed: SyncerBed, host: Obj) -> None:
    await move(bed, host, "10.244.9.99")


@pytest.mark.parametrize("end", [_ends, _fails, _is_being_deleted, _goes, _moves])
async def test_the_address_of_a_pod_that_is_gone_is_withdrawn(
    bed: SyncerBed, end: Callable[[SyncerBed, Obj], Awaitable[None]]
) -> None:
    web, _ = await running_at(bed, "web", "10.244.9.1"), await running_at(bed, "other", "10.244.9.2")
    await by_hand(bed, "both", "10.244.9.1", "10.244.9.2")
    await by_hand(bed, "one", "10.244.9.1")
    # A finalizer on the tenant's own object holds nothing on the host.
    await by_hand(bed, "held", "10.244.9.1", finalizers=["example.org/hold"])
    await shows(bed, "both", "10.244.9.1", "10.244.9.2")
    await shows(bed, "one", "10.244.9.1")
    await shows(bed, "held", "10.244.9.1")
    await bed.plane.delete(ENDPOINT_SLICES, "held", bed.space)
    await end(bed, web)
    await shows(bed, "both", "10.244.9.2")
    await shows(bed, "one")
    await shows(bed, "held")
    await bed.plane.patch(ENDPOINT_SLICES, "held", {"metadata": {"finalizers": None}}, bed.space)


async def test_an_address_comes_with_its_pod_and_belongs_to_the_one_that_is_named(bed: SyncerBed) -> None:
    await by_hand(bed, "early", "10.244.9.1")

    async def refused() -> bool:
        return bool(await bed.events("early"))

    await until(refused, "the reason")
    assert await host_addresses(bed, "early") is None
    web = await running_at(bed, "web", "10.244.9.1")
    await shows(bed, "early", "10.244.9.1")
    named = {"endpoints": [{"addresses": ["10.244.9.1"], "targetRef": {"kind": "Pod", "name": "web"}}]}
    await bed.plane.patch(ENDPOINT_SLICES, "early", named, bed.space)
    found = await bed.host.get(ENDPOINT_SLICES, bed.host_name("EndpointSlice", "early"), bed.work)
    assert found["endpoints"][0]["targetRef"] == {
        "kind": "Pod", "namespace": bed.work, "name": web["metadata"]["name"], "uid": web["metadata"]["uid"],
    }  # fmt: skip
    await running_at(bed, "next", "10.244.9.1")
    await bed.run(web, "Failed")
    await shows(bed, "early")
    await bed.plane.patch(ENDPOINT_SLICES, "early", {"endpoints": [{"addresses": ["10.244.9.1"]}]}, bed.space)
    await shows(bed, "early", "10.244.9.1")


async def test_what_went_while_the_syncer_was_away_is_withdrawn_at_its_start(bed: SyncerBed) -> None:
    web = await running_at(bed, "web", "10.244.9.1")
    await running_at(bed, "other", "10.244.9.2")
    await by_hand(bed, "both", "10.244.9.1", "10.244.9.2")
    await shows(bed, "both", "10.244.9.1", "10.244.9.2")
    await bed.stop()
    await bed.host.delete(PODS, web["metadata"]["name"], bed.work, grace_seconds=0)
    await bed.start()
    await shows(bed, "both", "10.244.9.2")


async def test_a_slice_that_is_refused_now_leaves_nothing_of_what_it_was(bed: SyncerBed) -> None:
    await running_at(bed, "web", "10.244.9.1")
    await by_hand(bed, "one", "10.244.9.1")
    await shows(bed, "one", "10.244.9.1")
    await bed.plane.patch(ENDPOINT_SLICES, "one", {"endpoints": [{"addresses": ["10.244.9.7"]}]}, bed.space)

    async def gone() -> bool:
        return await host_addresses(bed, "one") is None

    await until(gone, "host slice gone")

    await bed.event("one", "10.244.9.7 is not the address")


async def test_slices_without_end_are_few_on_the_host_and_the_oldest_come_first(bed: SyncerBed) -> None:
    """Every kube-proxy has all of them, and no quota counts them."""
    await running_at(bed, "web", "10.244.9.1")
    half = {"ports": [{"name": f"p{port}", "port": 1 + port} for port in range(MOST_OF_TENANT // 2000)]}
    same = [{"addresses": ["10.244.9.1"], "conditions": {"ready": True}}]
    for name in ("first", "second", "third"):
        if name != "first":
            await asyncio.sleep(1.1)  # an API server's times have whole seconds
        await by_hand(bed, name, "10.244.9.1")
    await shows(bed, "third", "10.244.9.1")
    # One that grows sends away the youngest ones, and itself if it takes more than there is left.
    await bed.plane.patch(ENDPOINT_SLICES, "first", {"endpoints": same * 1000} | half, bed.space)
    await shows(bed, "third", "10.244.9.1")
    await bed.plane.patch(ENDPOINT_SLICES, "second", {"endpoints": same * 1000} | half, bed.space)
    await bed.uncopied(ENDPOINT_SLICES, "third")
    await bed.event("third", str(MOST_OF_TENANT), reason="TooLarge")
    await shows(bed, "second", *["10.244.9.1"] * 1000)
    await by_hand(bed, "fourth", "10.244.9.1")
    await bed.event("fourth", str(MOST_OF_TENANT), reason="TooLarge")
    assert await host_addresses(bed, "fourth") is None
    await bed.plane.delete(ENDPOINT_SLICES, "first", bed.space)
    await shows(bed, "third", "10.244.9.1")
    await shows(bed, "fourth", "10.244.9.1")


async def test_a_dead_plane_keeps_no_service_on_a_pod_that_is_gone(host_client: Client, own_server: ApiServer) -> None:
    async with (
        Client(own_server.admin, user_agent="tests", field_manager="tests") as plane,
        SyncerBed.open(host_client, plane) as bed,
    ):
        web, other = await running_at(bed, "web", "10.244.9.1"), await running_at(bed, "other", "10.244.9.2")
        await by_hand(bed, "both", "10.244.9.1", "10.244.9.2")
        await shows(bed, "both", "10.244.9.1", "10.244.9.2")
        await asyncio.to_thread(own_server.kill, "kube-apiserver")
        await bed.host.delete(PODS, web["metadata"]["name"], bed.work, grace_seconds=0)
        await shows(bed, "both", "10.244.9.2")
        # Nor is one that does not answer a syncer that starts again.
        await bed.stop()
        await bed.host.delete(PODS, other["metadata"]["name"], bed.work, grace_seconds=0)
        session = bed.begin()
        await shows(bed, "both")
        assert session._unready()
        await asyncio.to_thread(own_server.start_apiserver)
        await asyncio.to_thread(own_server.wait)
