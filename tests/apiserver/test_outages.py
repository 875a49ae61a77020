"""Minutes without an API: the host's under twenty syncers, a tenant's plane, and both back from older backups. `make outages`.

The syncers are processes; each tenant has a plane of its own. BULKHEAD_OUTAGE_SECONDS and BULKHEAD_OUTAGE_SYNCERS make a try
shorter. What was seen of twenty syncers is written to build/results/outages.json.
"""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.resources import CONFIG_MAPS, PODS
from tests.apiserver.tenancy import Tenancy, backup, restore, summed, tenancies
from tests.kit.servers import ApiServer, ServerOptions, running
from tests.kit.syncerbed import until

SECONDS = float(os.environ.get("BULKHEAD_OUTAGE_SECONDS", "300"))
SYNCERS = int(os.environ.get("BULKHEAD_OUTAGE_SYNCERS", "20"))
RESULTS = Path("build/results")
QUIET = 30.0  # seconds in which all must be caught up
PODS_EACH = 5
REVISIONS = 500
# What one syncer may ask of a host that has just come back, until all is caught up: some dozen watches, a read before each, its
# leases and quotas, and the writes of one pod. Ten times that would be a herd.
REQUESTS_EACH = 150

pytestmark = [pytest.mark.outage, pytest.mark.apiserver, pytest.mark.timeout(SECONDS + 900)]


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ApiServer]:
    """A host that counts what priority and fairness rejects."""
    with running("own", tmp_path / "own", ServerOptions(fairness=True)) as server:
        yield server


async def test_twenty_syncers_hear_a_host_that_was_away_and_do_not_trample_it(own_server: ApiServer, tmp_path: Path) -> None:
    own_server.kill("kube-apiserver")
    own_server.start_apiserver()
    await asyncio.to_thread(own_server.wait)
    alone = await requests(own_server)
    async with tenancies(SYNCERS, own_server, tmp_path) as tenants:
        for each in tenants:
            for number in range(PODS_EACH):
                await each.bed.create(each.bed.pod(f"before-{number}"))
        before = [await each.host_pods(PODS_EACH) for each in tenants]

        own_server.kill("kube-apiserver")
        for each in tenants:
            await each.bed.create(each.bed.pod("meanwhile"))
        await pass_time(SECONDS, tenants)
        own_server.start_apiserver()
        await asyncio.to_thread(own_server.wait)

        began = time.monotonic()
        after = [await each.host_pods(PODS_EACH + 1, QUIET) for each in tenants]
        took = time.monotonic() - began
        assert all(set(old) < set(new) for old, new in zip(before, after, strict=True)), "what ran before runs on"
        asked = await requests(own_server) - alone
        write_down(syncers=SYNCERS, outage_s=SECONDS, caught_up_s=round(took, 1), requests_to_host=int(asked))
        assert await requests(own_server, "apiserver_flowcontrol_rejected_requests_total") == 0
        assert 0 < asked <= SYNCERS * REQUESTS_EACH


async def test_a_plane_that_was_away_catches_up_and_nothing_was_deleted(own_server: ApiServer, tmp_path: Path) -> None:
    async with tenancies(1, own_server, tmp_path) as (tenant,):
        await tenant.bed.create(tenant.bed.pod("web"))
        (host,) = (await tenant.host_pods(1)).values()
        tenant.plane.kill("kube-apiserver")
        await tenant.bed.bind(host)
        await tenant.bed.run(host)
        await pass_time(SECONDS, [tenant])
        assert set(await tenant.host_pods(1)) == {host["metadata"]["uid"]}
        tenant.plane.start_apiserver()
        await asyncio.to_thread(tenant.plane.wait)
        await until(lambda: runs_in_the_plane(tenant, "web"), "what happened meanwhile to be seen in the plane", QUIET)
        assert set(await tenant.host_pods(1)) == {host["metadata"]["uid"]}
        assert await tenant.metric("bulkhead_syncer_quarantined") == 0


async def test_a_plane_from_an_older_backup_deletes_nothing(own_server: ApiServer, tmp_path: Path) -> None:
    async with tenancies(1, own_server, tmp_path) as (tenant,):
        await tenant.bed.create(tenant.bed.pod("old"))
        await tenant.host_pods(1)
        await asyncio.to_thread(backup, tenant.plane, tmp_path / "copy")
        await tenant.bed.create(tenant.bed.pod("young"))
        await move_on(tenant.bed.plane, tenant.bed.space)
        before = await tenant.host_pods(2, 60)
        # The record of how far the plane was is written every five seconds.
        await pass_time(10, [tenant])

        tenant.plane.stop()
        await pass_time(SECONDS, [tenant])
        await asyncio.to_thread(restore, tenant.plane, tmp_path / "copy")
        # Noticed where it matters, before a deletion: after the next try, at most 24 s later, and a fresh look.
        await until(lambda: is_one(tenant, "bulkhead_syncer_quarantined"), "the older plane to be noticed", 2 * QUIET)
        assert (await tenant.bed.virtual("young")) is None
        await tenant.bed.create(tenant.bed.pod("new"))
        after = await tenant.host_pods(3, QUIET)
        await holds(QUIET, lambda: same_pods(tenant, set(after)))
        assert set(before) < set(after), "the pod that the backup does not know runs on"


async def test_a_host_from_an_older_backup_keeps_what_it_knows_and_gets_the_rest_again(
    own_server: ApiServer, tmp_path: Path
) -> None:
    async with tenancies(1, own_server, tmp_path) as (tenant,):
        await tenant.bed.create(tenant.bed.pod("old"))
        known = await tenant.host_pods(1)
        await asyncio.to_thread(backup, own_server, tmp_path / "copy")
        await tenant.bed.create(tenant.bed.pod("young"))
        await move_on(tenant.bed.host, tenant.bed.work)
        both = await tenant.host_pods(2, 60)

        own_server.stop()
        await pass_time(SECONDS, [tenant])
        await asyncio.to_thread(restore, own_server, tmp_path / "copy")
        after = await tenant.host_pods(2, QUIET)
        assert set(known) < set(after)
        assert set(after) != set(both), "the host knew nothing of the second pod: this is another one"
        await holds(QUIET, lambda: same_pods(tenant, set(after)))
        for name in ("old", "young"):
            found = await tenant.bed.virtual(name)
            assert found is not None, name
            assert "deletionTimestamp" not in found["metadata"], name


async def requests(server: ApiServer, metric: str = "apiserver_request_total") -> float:
    """What a server has been asked since its start, its own requests to itself included."""
    async with Client(server.admin, user_agent="tests", field_manager="tests") as client:
        return summed((await client.get_raw("/metrics")).decode(), metric)


async def move_on(client: Client, namespace: str) -> None:
    """Let a server's revision run on by more than it writes by itself at a start: a younger backup cannot be known by that."""
    await client.create(CONFIG_MAPS, {"metadata": {"name": "counter"}}, namespace)
    for number in range(REVISIONS):
        await client.patch(CONFIG_MAPS, "counter", {"data": {"count": str(number)}}, namespace)


def write_down(**figures: float) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "outages.json").write_text(json.dumps(figures, indent=2) + "\n")


async def pass_time(seconds: float, tenants: Sequence[Tenancy]) -> None:
    """Let an outage last; every syncer lives through it."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        for each in tenants:
            each.alive()
        await asyncio.sleep(min(2.0, left))


async def holds(seconds: float, check: Callable[[], Awaitable[None]]) -> None:
    """Something stays true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await check()
        await asyncio.sleep(0.5)


async def same_pods(tenant: Tenancy, wanted: set[str]) -> None:
    found: list[Obj] = (await tenant.bed.host.list(PODS, tenant.bed.work)).items
    assert {each["metadata"]["uid"] for each in found} == wanted
    assert not [each["metadata"]["name"] for each in found if each["metadata"].get("deletionTimestamp")]


async def runs_in_the_plane(tenant: Tenancy, name: str) -> bool:
    pod = await tenant.bed.virtual(name)
    return ((pod or {}).get("status") or {}).get("phase") == "Running"


async def is_one(tenant: Tenancy, metric: str) -> bool:
    return await tenant.metric(metric) == 1
