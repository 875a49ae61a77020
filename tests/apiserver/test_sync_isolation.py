"""What a tenant's class says about isolation, from the syncer's settings to the pods on a real API server."""

from typing import Any

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
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
