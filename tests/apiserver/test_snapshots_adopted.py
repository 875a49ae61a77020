"""A syncer on a plane that was made from a snapshot: which running pods survive, and what decides about the others.

pod "known" ──> snapshot ──> pod "younger" ──> the plane is lost ──> restored ──> a syncer starts on it
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyrage
import pytest

from bulkhead.api import planeidentity, planerecord
from bulkhead.api.planerecord import PlaneRecord
from bulkhead.kube.client import Client
from bulkhead.kube.resources import CONFIG_MAPS
from bulkhead.snapshots import reading
from bulkhead.snapshots.judge import Taker
from bulkhead.snapshots.place import Place
from bulkhead.snapshots.target import Target
from bulkhead.work.clock import SystemClock
from controller.inside.etcdaccess import EtcdAccess
from controller.pki.material import files_of
from controller.plane.secrets import authority_secrets
from controller.plane.spec import API_SERVER, ETCD_HTTP_PORT
from controller.snapshots.spec import Order
from controller.snapshots.take import Means, take
from tests.kit.controllerhost import FixedKeys
from tests.kit.planeprocess import ETCD, POD_IP, PlaneProcesses, answering
from tests.kit.restoring import restored
from tests.kit.syncerbed import SyncerBed, until
from tests.kit.tenantsamples import plane_spec

pytestmark = [pytest.mark.apiserver, pytest.mark.stores]
ID = "99999999-8888-7777-6666-555555555555"
SPEC = plane_spec(tenant="red", identity=ID)
KEY = pyrage.x25519.Identity.generate()
RING = FixedKeys.held


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[PlaneProcesses]:
    with answering(tmp_path / "plane", SPEC) as processes:
        yield processes


async def copied(plane: PlaneProcesses, folder: Path) -> PlaneProcesses:
    """A snapshot of the plane, and a plane of it."""
    (folder / "backups").mkdir()
    target = Target(Place("file", str(folder / "backups")))

    async def ring() -> Any:
        return RING

    etcds = EtcdAccess(SystemClock(), port=plane.ports[ETCD_HTTP_PORT])
    record = RING.sign(planerecord.PURPOSE, PlaneRecord(ID, SPEC.tenant, SPEC.uid, "2026-06-01T12:00:00Z").text())
    secrets = {str(secret["metadata"]["name"]): files_of(secret) for secret in authority_secrets(SPEC, plane.keys)}
    tenant = {"metadata": {"name": "red", "uid": SPEC.uid}, "spec": {}}
    order = Order({"metadata": {"name": "one", "uid": "u"}}, tenant, SPEC, plane.keys, record, secrets, {"plane-0": POD_IP})
    means = Means(etcds.client, lambda: target, (str(KEY.to_public()),), ring)
    await take(order, means, datetime.now(UTC), lambda *_: None)
    found = await reading.inspect(target, RING, ID, "one", Taker(1 << 30, ID))
    store = b"".join([chunk async for chunk in reading.store(target, found, [KEY])])
    return restored(folder / "again", SPEC, store, await reading.plane(target, found, [KEY]))


async def ending(bed: SyncerBed, uid: str) -> bool:
    """Whether a host pod is gone, or on its way."""
    found = [pod for pod in await bed.host_pods() if pod["metadata"]["uid"] == uid]
    return not found or "deletionTimestamp" in found[0]["metadata"]


async def test_pods_that_the_snapshot_knows_run_on_and_a_note_decides_about_the_younger_ones(
    host_client: Client, plane: PlaneProcesses, tmp_path: Path
) -> None:
    async with Client(plane.admin, user_agent="tests", field_manager="tests") as before:
        bed = SyncerBed(host_client, before)
        await bed.prepare()
        await bed.start()
        known = str((await bed.running("known"))["metadata"]["uid"])
        await bed.idle()
        again = await copied(plane, tmp_path)
        younger = str((await bed.running("younger"))["metadata"]["uid"])
        await bed.idle()
        await bed.stop()
        plane.kill()
    space = bed.settings.plane_namespace
    noted = dict((await host_client.get(CONFIG_MAPS, planeidentity.NAME, space))["data"])
    try:
        again.start(ETCD, API_SERVER)
        again.wait()
        async with Client(again.admin, user_agent="tests", field_manager="tests") as after:
            bed.plane = after
            # As a restore has to begin: nothing is deleted until an admin has looked.
            note = {planeidentity.QUARANTINE_KEY: "restored from snapshot one"}
            await host_client.patch(CONFIG_MAPS, planeidentity.NAME, {"data": note}, space)
            session = await bed.start()
            assert session.identity.quarantine == "restored from snapshot one"
            await bed.patrolled()
            assert (await bed.mirrored("known"))["metadata"]["uid"] == known
            assert not await ending(bed, known)
            assert not await ending(bed, younger)
            virtual = await bed.virtual("known")
            assert virtual is not None
            assert virtual["status"]["phase"] == "Running"
            # New pods start meanwhile.
            await bed.create(bed.pod("newer"))
            await bed.mirrored("newer")
            await bed.stop()
            # The control: without the note the bumped revision looks like progress, and what the snapshot does not know ends.
            await host_client.patch(CONFIG_MAPS, planeidentity.NAME, {"data": {planeidentity.QUARANTINE_KEY: None}}, space)
            assert dict((await host_client.get(CONFIG_MAPS, planeidentity.NAME, space))["data"]).keys() == noted.keys()
            session = await bed.start()
            assert not session.identity.quarantine

            async def ended() -> bool:
                session.patrol.round()
                return await ending(bed, younger)

            await until(ended, "the younger pod to end")
            assert not await ending(bed, known)
            assert (await bed.mirrored("known"))["metadata"]["uid"] == known
            await bed.stop()
            await bed.clean()
    finally:
        await bed.stop()
        again.stop()
