"""`bulkhead tenant recover` against a real API server; the tests play the controller."""

import asyncio
from typing import Any

from bulkhead.api import names, planeidentity, planemembers
from bulkhead.api.conditions import ConditionType, Reason
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from tests.kit.commandline import Cli, Controller
from tests.kit.syncerbed import until

HEARD = "plane-0=1234,plane-2=1200"


async def lost(controller: Controller, name: str, heard: str = HEARD, **more: str) -> None:
    """A tenant whose plane of three has no quorum."""
    await controller.tenant(name)
    await controller.plane(name)
    await controller.say(name, "False", Reason.QUORUM_LOST, "1 of 3 members serves", type_=ConditionType.PLANE_READY)
    await make(controller.client, name, planemembers.NAME, {planemembers.HEARD: heard} | more)
    record = {planeidentity.UID_KEY: "uid", planeidentity.REVISION_KEY: "1250"}
    await make(controller.client, name, planeidentity.NAME, record)


async def make(client: Client, name: str, config_map: str, data: Any) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": config_map}, "data": data}
    await client.create(kinds.CONFIG_MAPS, body, names.plane_namespace(name))


async def asked(client: Client, name: str) -> str:
    found = await client.get(kinds.CONFIG_MAPS, planemembers.NAME, names.plane_namespace(name))
    return planemembers.recovers(found)


async def test_it_shows_what_each_member_has_and_changes_nothing(
    cli: Cli, controller: Controller, host_client: Client, name: str
) -> None:
    await lost(controller, name)
    done = await cli("tenant", "recover", name)
    assert done.code == 0, done.err
    rows = [line.split() for line in done.out.splitlines()]
    assert ["plane-0", "yes", "1234", "16"] in rows
    assert ["plane-1", "no", "-", "-"] in rows
    assert ["plane-2", "yes", "1200", "50"] in rows
    assert "without a quorum since 2026-01-01T00:00:00Z (" in done.out
    assert "has seen revision 1250" in done.out
    dry = await cli("tenant", "recover", name, "--from-member", "2", "--dry-run", "--yes")
    assert dry.code == 0, dry.err
    assert "loses at least 50 changes, up to revision 1250; plane-0 has more: --from-member 0" in dry.err
    assert "loses what plane-1 alone have" in dry.err
    assert "deletes the volumes of plane-0 and plane-1" in dry.err
    assert f"bulkhead tenant accept-data {name}" in dry.err
    assert await asked(host_client, name) == ""


async def test_it_asks_before_anything_is_changed(cli: Cli, controller: Controller, host_client: Client, name: str) -> None:
    await lost(controller, name)
    done = await cli("tenant", "recover", name, "--from-member", "2")
    assert done.code == 2
    assert "deletes the volumes" in done.err
    assert "--yes" in done.err
    assert await asked(host_client, name) == ""


async def test_it_asks_the_controller_and_waits_until_the_plane_serves(
    cli: Cli, controller: Controller, host_client: Client, name: str
) -> None:
    await lost(controller, name)

    async def controls() -> None:
        async def is_asked() -> bool:
            return await asked(host_client, name) == "plane-2"

        await until(is_asked, "the recovery is asked for")
        # Again, by another admin: it waits for the same, and for no other.
        other = await cli("tenant", "recover", name, "--from-member", "0", "--yes")
        assert (other.code, "from plane-2 already" in other.err) == (1, True), other.err
        await controller.say(name, "True", Reason.RECOVERING, "plane-2 starts alone", type_=ConditionType.DEGRADED)
        await controller.say(name, "False", Reason.DATA_LOST, "recovered", type_=ConditionType.PLANE_READY)
        body = {"data": {planemembers.RECOVER: ""}}
        await host_client.patch(kinds.CONFIG_MAPS, planemembers.NAME, body, names.plane_namespace(name))

    done, _ = await asyncio.gather(cli("tenant", "recover", name, "--from-member", "plane-2", "--yes"), controls())
    assert done.code == 0, done.err
    assert "serves from plane-2" in done.out
    assert f"bulkhead tenant accept-data {name}" in done.out


async def test_what_cannot_be_recovered_is_refused(cli: Cli, controller: Controller, host_client: Client, name: str) -> None:
    await lost(controller, name)
    silent = await cli("tenant", "recover", name, "--from-member", "1", "--yes")
    assert (silent.code, "plane-1 does not answer" in silent.err) == (1, True)
    wrong = await cli("tenant", "recover", name, "--from-member", "3", "--yes")
    assert (wrong.code, "must be 0, 1 or 2, not '3'" in wrong.err) == (2, True)
    assert await asked(host_client, name) == ""
    serves = f"{name}-2"
    await lost(controller, serves, heard="")
    await controller.say(serves, "True", Reason.READY, "it answers", type_=ConditionType.PLANE_READY)
    done = await cli("tenant", "recover", serves, "--from-member", "2", "--yes")
    assert (done.code, "nothing to recover" in done.out) == (0, True)
    alone = f"{name}-1"
    await controller.tenant(alone)
    await controller.plane(alone)
    done = await cli("tenant", "recover", alone, "--from-member", "0", "--yes")
    assert (done.code, "a plane of one member" in done.err) == (1, True)
