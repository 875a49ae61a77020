"""The plane's API server dies under a running pod: the host pod does not notice, and the status catches up afterwards."""

import asyncio

from bulkhead.kube.client import Client
from tests.kit.servers import ApiServer
from tests.kit.syncerbed import SyncerBed, until


async def test_item_89_a_dead_plane_leaves_the_host_alone(host_client: Client, own_server: ApiServer) -> None:
    async with (
        Client(own_server.admin, user_agent="tests", field_manager="tests") as plane,
        SyncerBed.open(host_client, plane) as bed,
    ):
        host = await bed.running("web")
        await asyncio.to_thread(own_server.kill, "kube-apiserver")
        await bed.run(host, phase="Succeeded")
        assert bed.session is not None
        session = bed.session

        async def tried() -> bool:
            return any(each.last_error is not None for each in session.caches.virtual.values())

        await until(tried, "outage noticed")
        session.patrol.round()
        found = await bed.mirrored("web")
        assert found["metadata"]["uid"] == host["metadata"]["uid"]
        assert "deletionTimestamp" not in found["metadata"]
        await asyncio.to_thread(own_server.start_apiserver)
        await asyncio.to_thread(own_server.wait)

        async def caught_up() -> bool:
            return ((await bed.virtual("web")) or {"status": {}})["status"].get("phase") == "Succeeded"

        await until(caught_up, "status caught up", seconds=120)
        assert not session.identity.quarantine
        assert [each["metadata"]["uid"] for each in await bed.host_pods()] == [host["metadata"]["uid"]]
