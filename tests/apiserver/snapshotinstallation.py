"""An installation's snapshot tasks on a real host and a plane of real processes: asked for, waited for, and read back.

The keys and the identity are those of one tenant, `red`.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyrage

from bulkhead.api import planerecord
from bulkhead.api.conditions import SnapshotReason, find_condition
from bulkhead.api.objects import Obj
from bulkhead.api.planerecord import PlaneRecord
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.snapshots import reading
from bulkhead.snapshots.judge import Taker
from bulkhead.snapshots.manifest import Manifest
from bulkhead.snapshots.target import Target
from bulkhead.work.clock import SystemClock
from controller.inside.etcdaccess import EtcdAccess
from controller.pki.material import files_of
from controller.plane.secrets import authority_secrets
from controller.plane.spec import ETCD_HTTP_PORT
from controller.snapshots.loop import SnapshotTasks
from controller.snapshots.places import Places
from controller.snapshots.spec import Order
from controller.snapshots.take import Means
from tests.kit.controllerhost import FixedKeys
from tests.kit.crds import install
from tests.kit.planeprocess import POD_IP, PlaneProcesses
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import plane_spec

ID = "99999999-8888-7777-6666-555555555555"
SPEC = plane_spec(tenant="red", identity=ID)
KEY = pyrage.x25519.Identity.generate()
RING = FixedKeys.held
RECORD = RING.sign(planerecord.PURPOSE, PlaneRecord(ID, SPEC.tenant, SPEC.uid, "2026-06-01T12:00:00Z").text())
MOST = 1 << 30


@dataclass
class Installation:
    """What the controller takes snapshots with, on a host."""

    host: Client
    plane: PlaneProcesses
    target: Target
    tasks: SnapshotTasks
    addresses: Mapping[str, str]
    place: str = ""

    async def ask(self, name: str) -> Obj:
        """A TenantSnapshot, ordered as the tenant's reconcile does."""
        body = {
            "apiVersion": "bulkhead.dev/v1alpha1",
            "kind": "TenantSnapshot",
            "metadata": {"name": name},
            "spec": {"tenant": "red"},
        }
        request = await self.host.create(kinds.TENANT_SNAPSHOTS, body)
        self.order(request)
        return request

    def order(self, request: Obj) -> None:
        keys = self.plane.keys
        tenant = {"metadata": {"name": "red", "uid": SPEC.uid}, "spec": {"class": "standard"}}
        secrets = {str(secret["metadata"]["name"]): files_of(secret) for secret in authority_secrets(SPEC, keys)}
        spec = replace(SPEC, backup=replace(SPEC.backup, target=self.place))
        self.tasks.order(Order(request, tenant, spec, keys, RECORD, secrets, self.addresses))

    async def reason(self, name: str) -> tuple[str, str]:
        found = await self.host.get(kinds.TENANT_SNAPSHOTS, name)
        told = find_condition((found.get("status") or {}).get("conditions") or [], "Complete") or {}
        return str(told.get("reason")), str(told.get("message"))

    async def ends(self, name: str, reason: SnapshotReason, seconds: float = 120) -> str:
        async def check() -> str:
            found, message = await self.reason(name)
            assert found == reason or found not in {SnapshotReason.STORED, SnapshotReason.FAILED}, message
            return message if found == reason else ""

        return str(await until(check, f"{name} to be {reason}", seconds))


def means(plane: PlaneProcesses, target: Target) -> Means:
    async def ring() -> Any:
        return RING

    etcds = EtcdAccess(SystemClock(), port=plane.ports[ETCD_HTTP_PORT])
    return Means(etcds.client, lambda: target, (str(KEY.to_public()),), ring)


@contextlib.asynccontextmanager
async def installed(
    host: Client,
    plane: PlaneProcesses,
    target: Target,
    addresses: Mapping[str, str] | None = None,
    places: Places | None = None,
) -> AsyncIterator[Installation]:
    await install(host)
    tasks = SnapshotTasks(host, SystemClock(), places or Places(means(plane, target)))
    try:
        yield Installation(host, plane, target, tasks, addresses or {"plane-0": POD_IP})
    finally:
        await tasks.close()


async def manifest_of(target: Target, name: str) -> Manifest:
    return await reading.inspect(target, RING, ID, name, Taker(MOST, ID, SPEC.version, "v3.6.16"))


async def store_of(target: Target, found: Manifest, key: Any = KEY) -> bytes:
    return b"".join([chunk async for chunk in reading.store(target, found, [key])])
