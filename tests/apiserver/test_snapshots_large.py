"""A large store: how long a snapshot takes, and that the controller's memory does not follow its size.

BULKHEAD_SNAPSHOT_MIB=500 chooses the size; the figures of docs/backup.md were measured so.
"""

import asyncio
import base64
import json
import os
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import pyrage
import pytest

from bulkhead.api import planerecord
from bulkhead.api.planerecord import PlaneRecord
from bulkhead.kube.errors import KubeError
from bulkhead.snapshots import reading
from bulkhead.snapshots.judge import Taker
from bulkhead.work.clock import SystemClock
from controller.inside.etcdaccess import EtcdAccess
from controller.pki.material import files_of
from controller.plane.secrets import authority_secrets
from controller.plane.spec import ETCD_HTTP_PORT
from controller.snapshots.spec import Order
from controller.snapshots.take import Means, take
from tests.kit.bucket import bucket
from tests.kit.controllerhost import FixedKeys
from tests.kit.planeprocess import ETCD, POD_IP, PlaneProcesses
from tests.kit.tenantsamples import plane_spec

pytestmark = [pytest.mark.apiserver, pytest.mark.stores]
ID = "99999999-8888-7777-6666-555555555555"
MEBIBYTES = int(os.environ.get("BULKHEAD_SNAPSHOT_MIB") or 64)
SPEC = plane_spec(tenant="red", identity=ID, storage={"quota_mib": 4 * MEBIBYTES})
KEY = pyrage.x25519.Identity.generate()
RING = FixedKeys.held
MOST_GROWTH_MIB = 96


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[PlaneProcesses]:
    processes = PlaneProcesses(tmp_path / "plane", SPEC)
    try:
        processes.start(ETCD)
        yield processes
    finally:
        processes.stop()


class Peak:
    """The most memory of this process while it runs, in MiB."""

    def __init__(self) -> None:
        self.most = self.now()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    @staticmethod
    def now() -> float:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / (1 << 20)

    def _look(self) -> None:
        while not self._done.wait(0.05):
            self.most = max(self.most, self.now())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


async def fill(etcds: EtcdAccess, plane: PlaneProcesses) -> None:
    """Values that cannot be compressed."""
    async with etcds.client(plane.keys, POD_IP) as client:
        deadline = time.monotonic() + 120
        for number in range(MEBIBYTES):
            body = {
                "key": base64.b64encode(f"k{number}".encode()).decode(),
                "value": base64.b64encode(os.urandom(1 << 20)).decode(),
            }
            while True:
                try:
                    await client.transport.request("POST", "/v3/kv/put", body=json.dumps(body).encode(), timeout=60)
                    break
                except (KubeError, TimeoutError):
                    assert time.monotonic() < deadline, plane.log_tail(ETCD)
                    await asyncio.sleep(0.5)


async def test_memory_does_not_follow_the_size_of_the_store(plane: PlaneProcesses, tmp_path: Path) -> None:
    etcds = EtcdAccess(SystemClock(), port=plane.ports[ETCD_HTTP_PORT])
    await fill(etcds, plane)

    async def ring() -> Any:
        return RING

    record = RING.sign(planerecord.PURPOSE, PlaneRecord(ID, SPEC.tenant, SPEC.uid, "2026-06-01T12:00:00Z").text())
    secrets = {str(secret["metadata"]["name"]): files_of(secret) for secret in authority_secrets(SPEC, plane.keys)}
    tenant = {"metadata": {"name": "red", "uid": SPEC.uid}, "spec": {}}
    order = Order({"metadata": {"name": "large", "uid": "u"}}, tenant, SPEC, plane.keys, record, secrets, {"plane-0": POD_IP})
    with bucket(tmp_path / "s3") as made:
        target = made.target()
        means = Means(etcds.client, lambda: target, (str(KEY.to_public()),), ring)
        before, began, used = Peak.now(), time.monotonic(), time.process_time()
        with Peak() as peak:
            found, _ = await take(order, means, datetime.now(UTC), lambda *_: None)
        took, cpu = time.monotonic() - began, time.process_time() - used
        size = found.parts["etcd.age"].plain / (1 << 20)
        print(f"\n{size:.0f} MiB: {took:.1f} s, {cpu:.1f} s of CPU, {peak.most - before:.0f} MiB more memory")  # noqa: T201 - the figures
        assert size > MEBIBYTES
        assert peak.most - before < MOST_GROWTH_MIB
        began, total = time.monotonic(), 0
        found = await reading.inspect(target, RING, ID, "large", Taker(1 << 40, ID))
        async for chunk in reading.store(target, found, [KEY]):
            total += len(chunk)
        print(f"read with every check: {time.monotonic() - began:.1f} s")  # noqa: T201
        assert total == found.parts["etcd.age"].plain
