"""`bulkhead tenant accept-data` against a real API server."""

import asyncio
from typing import Any

import pytest

from bulkhead.api import labels, names, planeidentity
from bulkhead.api.conditions import ConditionType, Reason
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from tests.kit.commandline import Cli, Controller
from tests.kit.presence import is_there
from tests.kit.syncerbed import until
from workstation.cli.tenant import acceptdata

SAID = "plane changed identity: cluster UID was old, is new"


async def lost(controller: Controller, name: str, *, quarantine: str = SAID) -> None:
    """A tenant whose plane lost its data, with something of it on the host."""
    await controller.tenant(name)
    await controller.plane(name)
    await controller.say(name, "False", Reason.DATA_LOST, SAID, type_=ConditionType.PLANE_READY)
    record = {planeidentity.UID_KEY: "old"} | ({planeidentity.QUARANTINE_KEY: quarantine} if quarantine else {})
    await make(controller.client, names.plane_namespace(name), planeidentity.NAME, data=record)
    space = names.work_namespace(name)
    await controller.client.create(kinds.NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    for number in range(12):
        await make(controller.client, space, f"c{number:02}", labels={labels.SYNCED: labels.SYNCED_BY_SYNCER})
    # What the platform made stays whatever a plane has.
    await make(controller.client, space, "ours")


async def make(client: Client, space: str, name: str, *, data: Any = None, **meta: Any) -> None:
    noted = {labels.VIRTUAL_NAMESPACE: "default", labels.VIRTUAL_NAME: name}
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "annotations": noted} | meta,
        "data": data or {},
    }
    await client.create(kinds.CONFIG_MAPS, body, space)


async def there(client: Client, name: str) -> bool:
    return await is_there(client, kinds.CONFIG_MAPS, planeidentity.NAME, names.plane_namespace(name))


async def gone(client: Client, name: str) -> bool:
    return not await there(client, name)


async def test_it_says_what_is_at_stake_and_asks_before_anything_is_changed(
    cli: Cli, controller: Controller, host_client: Client, name: str
) -> None:
    await lost(controller, name)
    done = await cli("tenant", "accept-data", name)
    assert (done.code, done.out) == (2, "")
    assert SAID in done.err
    assert "12 ConfigMaps: default/c00, default/c01" in done.err
    assert "default/c09 and 2 more" in done.err
    assert "ours" not in done.err
    assert "--yes" in done.err
    assert await there(host_client, name)


async def test_it_accepts_and_waits_until_the_tenant_says_so(
    cli: Cli, controller: Controller, host_client: Client, name: str
) -> None:
    await lost(controller, name)

    async def recover() -> None:
        await until(lambda: gone(host_client, name), "the record deleted")
        await controller.say(name, "True", Reason.READY, "it answers", type_=ConditionType.PLANE_READY)

    done, _ = await asyncio.gather(cli("tenant", "accept-data", name, "--yes"), recover())
    assert (done.code, done.out) == (0, f"tenant {name}: the plane is accepted as it is\n"), done.err
    # Again: nothing is left to accept.
    again = await cli("tenant", "accept-data", name, "--yes")
    assert (again.code, again.out) == (0, f"tenant {name}: its data is not reported as lost; nothing to accept\n")


async def test_a_mass_deletion_that_the_syncer_holds_back_is_accepted_too(
    cli: Cli, controller: Controller, host_client: Client, name: str
) -> None:
    """The breaker stays open over restarts of the syncer, and nothing else closes it."""
    await lost(controller, name, quarantine="")
    await controller.say(name, "True", Reason.READY, "it answers", type_=ConditionType.PLANE_READY)
    patch = {"data": {planeidentity.BREAKER_KEY: "more than 50 objects vanished"}}
    await host_client.patch(kinds.CONFIG_MAPS, planeidentity.NAME, patch, names.plane_namespace(name))
    asked = await cli("tenant", "accept-data", name)
    assert (asked.code, await there(host_client, name)) == (2, True)
    assert "more than 50 objects vanished" in asked.err
    assert "12 ConfigMaps" in asked.err
    done = await cli("tenant", "accept-data", name, "--yes")
    assert (done.code, await there(host_client, name)) == (0, False), done.err


async def test_a_syncer_that_has_not_looked_yet_is_waited_for(
    cli: Cli, controller: Controller, host_client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would write what it remembers again, and the plane would be lost once more."""
    monkeypatch.setattr(acceptdata, "_LOOK_EVERY", 0.05)
    await lost(controller, name, quarantine="")

    async def look() -> bool:
        await asyncio.sleep(0.5)
        before = await there(host_client, name)
        patch = {"data": {planeidentity.QUARANTINE_KEY: SAID}}
        await host_client.patch(kinds.CONFIG_MAPS, planeidentity.NAME, patch, names.plane_namespace(name))
        return before

    done, before = await asyncio.gather(cli("tenant", "accept-data", name, "--yes", "--no-wait"), look())
    assert (done.code, before, await there(host_client, name)) == (0, True, False), done.err


async def test_a_plane_that_is_lost_once_more_is_told_at_once(
    cli: Cli, controller: Controller, host_client: Client, name: str
) -> None:
    await lost(controller, name)

    async def lost_again() -> None:
        await until(lambda: gone(host_client, name), "the record deleted")
        record = {planeidentity.UID_KEY: "new", planeidentity.QUARANTINE_KEY: "plane went back in time: revision was 9, is 7"}
        await make(host_client, names.plane_namespace(name), planeidentity.NAME, data=record)

    done, _ = await asyncio.gather(cli("tenant", "accept-data", name, "--yes"), lost_again())
    assert done.code == 1
    assert "reported as lost again: plane went back in time: revision was 9, is 7" in done.err
    assert f"accept it as it is now: bulkhead tenant accept-data {name}" in done.err
    assert await there(host_client, name)


async def test_a_syncer_that_does_not_go_on_is_named_in_time(cli: Cli, controller: Controller, name: str) -> None:
    await lost(controller, name)
    done = await cli("tenant", "accept-data", name, "--yes", "--timeout", "1s")
    assert done.code == 4
    assert "still reported as lost" in done.err
    assert f"bulkhead tenant describe {name}" in done.err


async def test_a_tenant_that_is_not_there_is_told(cli: Cli, name: str) -> None:
    assert (await cli("tenant", "accept-data", name, "--yes")).code == 3
