"""A snapshot of a plane that runs as plain processes: taken as the controller takes it, and read as a command does."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyrage

from bulkhead.api import planerecord
from bulkhead.api.objects import Obj
from bulkhead.api.planerecord import PlaneRecord
from bulkhead.snapshots import reading
from bulkhead.snapshots.judge import Taker
from bulkhead.snapshots.manifest import Manifest
from bulkhead.snapshots.place import Place
from bulkhead.snapshots.target import Target
from bulkhead.work.clock import SystemClock
from controller.inside.etcdaccess import EtcdAccess
from controller.pki.material import files_of
from controller.plane.secrets import KeyMaterial, authority_secrets
from controller.plane.spec import ETCD_HTTP_PORT, PlaneSpec
from controller.snapshots.source import EtcdOpened
from controller.snapshots.spec import Order
from controller.snapshots.take import Means, take
from tests.kit.controllerhost import FixedKeys
from tests.kit.planeprocess import POD_IP, PlaneProcesses

KEY: Final = pyrage.x25519.Identity.generate()
RING: Final = FixedKeys.held


def in_folder(folder: Path) -> Target:
    """A place for snapshots in a directory."""
    folder.mkdir(parents=True, exist_ok=True)
    return Target(Place("file", str(folder)))


async def taken(plane: PlaneProcesses, target: Target, name: str, tenant: Obj | None = None) -> Manifest:
    """Take a snapshot of a plane of one, and return its manifest as it was verified."""
    etcds = EtcdAccess(SystemClock(), port=plane.ports[ETCD_HTTP_PORT])
    members = Members(plane.spec, plane.keys, {"plane-0": POD_IP}, etcds.client)
    return await taken_of(members, target, name, tenant)


@dataclass(frozen=True)
class Members:
    """The etcds of a plane: their addresses by pod, and what opens one of them."""

    spec: PlaneSpec
    keys: KeyMaterial
    addresses: Mapping[str, str]
    opened: EtcdOpened


async def taken_of(members: Members, target: Target, name: str, tenant: Obj | None = None) -> Manifest:
    """Take a snapshot of these, and return its manifest as it was verified."""

    async def ring() -> Any:
        return RING

    spec = members.spec
    record = RING.sign(planerecord.PURPOSE, PlaneRecord(spec.identity, spec.tenant, spec.uid, "2026-06-01T12:00:00Z").text())
    of = tenant or {"metadata": {"name": spec.tenant, "uid": spec.uid}, "spec": {}}
    order = Order(
        {"metadata": {"name": name, "uid": str(uuid.uuid4())}},
        of,
        spec,
        members.keys,
        record,
        {str(secret["metadata"]["name"]): files_of(secret) for secret in authority_secrets(spec, members.keys)},
        members.addresses,
    )
    means = Means(members.opened, lambda: target, (str(KEY.to_public()),), ring)
    await take(order, means, datetime.now(UTC), lambda *_: None)
    return await reading.inspect(target, RING, spec.identity, name, Taker(1 << 30, spec.identity))


async def store_of(plane: PlaneProcesses) -> bytes:
    """The snapshot file of a plane's store."""
    target = in_folder(plane.folder / "backups")
    return await read_back(target, await taken(plane, target, f"copy-{uuid.uuid4()}"))


async def read_back(target: Target, found: Manifest) -> bytes:
    """The snapshot file that is stored."""
    return b"".join([chunk async for chunk in reading.store(target, found, [KEY])])
