"""The store of a plane of three members, with real etcd processes: how it opens again, and what a slow disk is reported as."""

import asyncio
import base64
import json
import logging
import os
import re
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from prometheus_client import REGISTRY

from bulkhead.api.conditions import ConditionType, Reason
from bulkhead.kube.errors import KubeError
from bulkhead.work.clock import SystemClock
from controller.inside.etcdaccess import EtcdAccess
from controller.inside.stores import LOOK_PERIOD_SECONDS, Stores
from controller.plane.etcdfigures import LEAST_FSYNCS
from controller.plane.storestate import Store
from controller.tenant.facets.store import report as words
from tests.kit.etcdmembers import ADDRESS, PODS, EtcdMembers
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import plane_spec

pytestmark = [pytest.mark.apiserver, pytest.mark.stores]
SPEC = plane_spec(storage={"quota_mib": 24}, control_plane={"replicas": 3})
QUOTA = SPEC.storage.quota_mib << 20
VALUE = 400_000


class Later(SystemClock):
    """The machine's clock, whose passing seconds a test adds to."""

    added = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.added

    async def sleep(self, seconds: float) -> None:
        """A look follows soon; its period is a constant."""
        await asyncio.sleep(min(seconds, 1.0))


class Bed:
    """Three members, what a tenant writes into them, and the controller's looks."""

    def __init__(self, members: EtcdMembers) -> None:
        self.members, self.clock = members, Later()
        self.access = EtcdAccess(self.clock, ports=members.http_ports)
        self.changed: list[str] = []
        self.stores = Stores(self.clock, self.changed.append, access=self.access)

    async def call(self, path: str, body: dict[str, str], pod: str = PODS[0]) -> bytes:
        etcd = await self.access.etcd("tenant", self.members.keys, pod, ADDRESS)
        return await etcd._client.transport.request("POST", path, body=json.dumps(body).encode(), timeout=20.0)

    async def put(self, key: str, size: int = VALUE, pod: str = PODS[0]) -> None:
        value = base64.b64encode(os.urandom(size)).decode()
        await self.call("/v3/kv/put", {"key": base64.b64encode(key.encode()).decode(), "value": value}, pod)

    async def delete(self, key: str, pod: str = PODS[0]) -> None:
        await self.call("/v3/kv/deleterange", {"key": base64.b64encode(key.encode()).decode()}, pod)

    async def look(self) -> Store:
        self.clock.added += 30.0
        return await self.stores.look(SPEC, self.members.keys, self.members.addresses)

    async def until(self, holds: Callable[[Store], bool], what: str) -> Store:
        async def check() -> Store | None:
            found = await self.look()
            return found if holds(found) else None

        store: Store = await until(check, what, 120.0)
        return store

    async def answers(self) -> None:
        await until(self.quorate, "the members answer")

    async def quorate(self) -> bool:
        return len((await self.look()).members) == len(PODS)


@pytest.fixture
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdMembers]:
    processes = EtcdMembers(tmp_path_factory.mktemp("members"), SPEC)
    try:
        yield processes
    finally:
        processes.kill()


@pytest.fixture
async def bed(members: EtcdMembers) -> AsyncIterator[Bed]:
    made = Bed(members)
    yield made
    await made.stores.close()


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def fill(bed: Bed) -> list[str]:
    made: list[str] = []
    for number in range(200):
        try:
            await bed.put(f"large-{number}")
        except KubeError as error:
            if "database space exceeded" not in str(error):
                raise
            return made
        made.append(f"large-{number}")
    raise AssertionError("the store took everything")


async def test_a_full_store_of_three_opens_member_by_member_and_never_below_a_quorum(
    members: EtcdMembers, bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="controller.inside.stores")
    members.start()
    await bed.answers()
    looking = asyncio.create_task(bed.stores.run())
    made = await fill(bed)

    async def enqueued() -> bool:
        return SPEC.tenant in bed.changed

    # Within one period, without any reconcile.
    assert LOOK_PERIOD_SECONDS <= 30
    await until(enqueued, "the tenant is enqueued")
    looking.cancel()
    full = await bed.until(lambda store: store.full, "the store is full")
    assert words.verdict(SPEC, full).reason is Reason.STORE_FULL
    # One member does not answer: what the others report holds, and nothing is rewritten while it is away.
    members.kill(PODS[2])
    for key in made[: len(made) * 2 // 3]:
        await bed.delete(key)
    await bed.until(lambda store: store.full and len(store.silent) == 1, "two members answer")
    caplog.clear()  # the full store may have got room from its holes before the member was killed
    await bed.until(lambda store: store.used < QUOTA // 2, "the deleted versions are forgotten")
    for _ in range(3):
        assert (await bed.look()).full
    assert not [record for record in caplog.records if "defragmenting" in record.getMessage()]
    members.start(PODS[2])
    opened = await bed.until(lambda store: len(store.members) == 3 and not store.full, "the store opens")
    assert opened.size <= QUOTA * 0.9
    assert value("bulkhead_tenant_store_bytes", tenant=SPEC.tenant, what="quota") == QUOTA
    assert 0 < value("bulkhead_tenant_store_bytes", tenant=SPEC.tenant, what="used") <= opened.size
    assert value("bulkhead_tenant_store_defragmentations_total", tenant=SPEC.tenant) >= 2
    assert value("bulkhead_tenant_store_openings_total", tenant=SPEC.tenant) >= 1
    steps = [record.getMessage() for record in caplog.records if "gets room" in record.getMessage()]
    defragmented = [pod for step in steps for pod in PODS if f"defragmenting {pod}" in step]
    assert set(defragmented) >= {PODS[0], PODS[1]}
    assert any("hands leadership on" in step for step in steps)
    await bed.put("after")
    for pod in PODS:
        await bed.put(f"after-{pod}", pod=pod)


@pytest.mark.skipif(shutil.which("strace") is None, reason="slows the disk by strace")
async def test_a_slow_disk_is_reported_with_its_figure(members: EtcdMembers, bed: Bed) -> None:
    strace = shutil.which("strace")
    assert strace is not None
    inject = "--inject=fsync,fdatasync:delay_enter=250000"
    slow = (strace, "-D", "-f", "--seccomp-bpf", "--trace=fsync,fdatasync", inject, "-o", "/dev/null")
    members.start(PODS[0], PODS[1])
    members.start(PODS[2], command=slow)
    await bed.answers()

    async def measured() -> Store | None:
        # A write by this member waits for its own disk.
        for number in range(LEAST_FSYNCS // 2 + 10):
            await bed.put(f"small-{number}", 10, PODS[2])
        bed.clock.added += 30.0
        found = await bed.look()
        # On a busy machine the disks of the others may be slow as well.
        return found if PODS[2] in {member.name for member in found.slow or ()} else None

    found: Store = await until(measured, "the slow disk is noticed", 240.0)
    condition = words.report(SPEC, found).conditions[ConditionType.STORE_DISK_FAST]
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", Reason.DISK_SLOW)
    figure = re.search(r"pod plane-2: about (\d+) ms", condition.message)
    assert figure is not None
    assert int(figure[1]) >= 200
    assert value("bulkhead_tenant_store_fsync_seconds", tenant=SPEC.tenant, member=PODS[2]) >= 0.2
    assert value("bulkhead_tenant_store_fsync_seconds", tenant=SPEC.tenant, member="plane-3") == 0
