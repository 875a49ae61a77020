"""What a tenant's class says about isolation, from the syncer's settings to the pods on a real API server."""

from typing import Any

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.resources import NODES
from tests.kit.syncerbed import SyncerBed, until

FILTERED = {"type": "RuntimeDefault"}
OFFER: dict[str, Any] = {
    "userNamespaces": True,
    "allowedSeccompProfiles": ["tools/audit.json"],
    "allowedAppArmorProfiles": ["tools"],
}


def confined(bed: SyncerBed, name: str, context: Obj, **spec: Any) -> Obj:
    main = {"name": "main", "image": "busybox:1.36", "securityContext": context}
    return bed.pod(name, containers=[main], **spec)


def local(name: str) -> Obj:
    return {"type": "Localhost", "localhostProfile": name}


async def refused(bed: SyncerBed, name: str, field: str) -> None:
    async def reported() -> bool:
        condition = await bed.condition(name)
        return condition is not None and condition.get("reason") == "NotAllowed" and field in condition["message"]

    await until(reported, f"{name} to be refused for {field}")
    assert await bed.mirror(name) is None


async def test_a_pod_that_says_nothing_is_filtered_all_the_same(host_client: Client, plane_client: Client) -> None:
    async with SyncerBed.open(host_client, plane_client) as bed:
        await bed.create(bed.pod("plain"))
        spec = (await bed.mirrored("plain"))["spec"]
        assert spec["securityContext"]["seccompProfile"] == FILTERED
        assert "hostUsers" not in spec
        await bed.create(bed.pod("asks", hostUsers=False))
        assert (await bed.mirrored("asks"))["spec"]["hostUsers"] is False
        await bed.create(confined(bed, "own", {"seccompProfile": local("tools/audit.json")}))
        await refused(bed, "own", "spec.containers[0].securityContext.seccompProfile.localhostProfile")


async def test_what_the_class_offers_and_asks_for_reaches_every_pod(host_client: Client, plane_client: Client) -> None:
    async with SyncerBed.open(host_client, plane_client, **OFFER) as bed:
        await bed.create(bed.pod("plain"))
        spec = (await bed.mirrored("plain"))["spec"]
        assert (spec["securityContext"]["seccompProfile"], spec["hostUsers"]) == (FILTERED, False)
        own = {"seccompProfile": local("tools/audit.json"), "appArmorProfile": local("tools")}
        await bed.create(confined(bed, "own", own))
        spec = (await bed.mirrored("own"))["spec"]
        assert spec["containers"][0]["securityContext"] == own
        assert spec["securityContext"]["seccompProfile"] == FILTERED
        await bed.create(bed.pod("host-users", hostUsers=True))
        await refused(bed, "host-users", "spec.hostUsers")
        await bed.create(confined(bed, "other", {"seccompProfile": local("tools")}))
        await refused(bed, "other", "seccompProfile.localhostProfile")


async def test_a_class_that_prefers_user_namespaces_gives_them_as_soon_as_all_nodes_can(
    host_client: Client, plane_client: Client
) -> None:
    async with SyncerBed.open(host_client, plane_client, preferUserNamespaces=True) as bed:
        second = f"{bed.node}-second"
        await bed.make_node(second)
        await report(host_client, bed.node, supports=True)
        await bed.idle()
        await bed.create(bed.pod("early"))
        assert "hostUsers" not in (await bed.mirrored("early"))["spec"]

        async def told() -> bool:
            events = [event for event in await bed.events("early") if event["reason"] == "UsersShared"]
            return bool(events) and "not all nodes" in events[0]["message"] and events[0]["type"] == "Normal"

        await until(told, "the event")
        await report(host_client, second, supports=True)
        await bed.idle()
        await bed.create(bed.pod("late"))
        assert (await bed.mirrored("late"))["spec"]["hostUsers"] is False
        # A pod stays as it was made, whatever nodes report later.
        await report(host_client, second, supports=False)
        await bed.idle()
        await bed.create(bed.pod("after"))
        assert "hostUsers" not in (await bed.mirrored("after"))["spec"]
        assert (await bed.mirrored("late"))["spec"]["hostUsers"] is False
        await host_client.delete(NODES, second)


async def report(host: Client, node: str, *, supports: bool) -> None:
    handlers = [{"name": "", "features": {"userNamespaces": supports}}]
    await host.patch(NODES, node, {"status": {"runtimeHandlers": handlers}}, subresource="status")
