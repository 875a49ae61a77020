"""Level 2: a plane that never rests costs its syncer few writes on either side, and the host few reads. H1, H3, H14."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Resource
from bulkhead.kube.resources import MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS, PODS
from syncer import session
from syncer.write.budget import WriteBudget
from syncer.write.identity import RECORD_SECONDS
from tests.kit.mutating import mutating
from tests.kit.syncerbed import SyncerBed, until

FLAPS, AT_ONCE = 300, 4
RATE, BURST = 4.0, 20.0  # of writes to the host in a second, and at once
SOON = 30.0  # a syncer that wrote each change would need longer
SECONDS: Final = 8.0


class Counted(Client):
    """A client that knows how much it has written, and how many pods it has read."""

    writes = 0
    reads = 0

    async def get(self, r: Resource, name: str, namespace: str | None = None, *, subresource: str | None = None) -> Obj:
        self.reads += r is PODS
        return await super().get(r, name, namespace, subresource=subresource)

    async def _write(self, *args: Any, **more: Any) -> Obj:
        self.writes += 1
        return await super()._write(*args, **more)


@contextlib.asynccontextmanager
async def counted(host: KubeConfig, plane: KubeConfig) -> AsyncIterator[tuple[SyncerBed, Counted, Counted]]:
    """A tenant, and the clients of its syncer."""
    named: dict[str, Any] = {"user_agent": "syncer", "field_manager": "syncer"}
    async with Counted(host, **named) as above, Counted(plane, **named) as inside, SyncerBed.open(above, inside) as bed:
        yield bed, above, inside


async def test_a_pod_that_never_rests_costs_few_writes(
    host_config: KubeConfig, plane_config: KubeConfig, plane_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a small budget the machine's speed does not count: what is changed while it is spent is one write later."""
    monkeypatch.setattr(session, "WriteBudget", partial(WriteBudget, rate=RATE, burst=BURST))
    async with counted(host_config, plane_config) as (bed, host, _):
        await bed.running("web")
        await bed.quiet()
        host.writes = 0
        slots, begun = asyncio.Semaphore(AT_ONCE), time.monotonic()

        async def flap(number: int) -> None:
            async with slots:
                await plane_client.patch(PODS, "web", {"metadata": {"labels": {"flap": str(number)}}}, bed.space)

        await asyncio.gather(*map(flap, range(FLAPS)))
        await plane_client.patch(PODS, "web", {"metadata": {"labels": {"flap": "last"}}}, bed.space)
        # Its tenant's next pod waits for one turn, not for all of it.
        await bed.create(bed.pod("next"))

        async def last() -> bool:
            return bool((await bed.mirrored("web"))["metadata"]["labels"].get("flap") == "last")

        await until(last, "the last label on the host", SOON)
        await until(lambda: bed.mirror("next"), "the next pod on the host", SOON)
        # One more for what is under way at the end, and one for a write that is stale and made again. The record of the plane
        # is written beside the budget, at a pace of its own.
        writes, seconds = host.writes, time.monotonic() - begun
        assert 0 < writes <= BURST + RATE * seconds + 2 + seconds / RECORD_SECONDS


async def test_statuses_that_are_forged_without_end_cost_the_host_few_reads(
    host_config: KubeConfig, plane_config: KubeConfig, plane_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod that has ended in the plane alone: each time the host is asked what it has, since the caches may be behind."""
    rate, burst = 2.0, 8.0
    monkeypatch.setattr(session, "WriteBudget", partial(WriteBudget, read_rate=rate, read_burst=burst))
    pods = ("web", "db", "ci")
    async with counted(host_config, plane_config) as (bed, host, _):
        for name in pods:
            await bed.running(name)
        await bed.quiet()
        host.reads = 0
        begun, asked = time.monotonic(), 0

        async def asks_without_end() -> bool:
            """Forge once more, until the host would have been asked too often by a syncer that asks each time."""
            nonlocal asked
            for name in pods:
                with contextlib.suppress(KubeError):
                    await plane_client.patch(PODS, name, {"status": {"phase": "Succeeded"}}, bed.space, subresource="status")
                    asked += 1
            return asked > 4 * (burst + rate * (time.monotonic() - begun))

        await until(asks_without_end, "many forged statuses")
        # The test reads host pods by this client too: none meanwhile.
        assert 0 < host.reads <= burst + rate * (time.monotonic() - begun) + 1

        async def told() -> bool:
            found = [await bed.virtual(name) or {} for name in pods]
            return all(pod["status"]["phase"] == "Running" for pod in found)

        await until(told, "the truth of each")


def rewriting(bed: SyncerBed) -> tuple[Obj, Obj]:
    """A policy of the tenant's that makes every status of its pods say that they wait, and the binding of it."""
    again = "Object{status: Object.status{phase: 'Pending', message: 'rewritten'}}"
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": again}}
    return mutating(f"rewrites-{bed.tenant}", bed.space, operation="UPDATE", resources=["pods/status"], mutation=mutation)


async def test_a_plane_that_rewrites_what_is_written_is_not_written_to_without_end(
    host_config: KubeConfig, plane_config: KubeConfig, plane_client: Client
) -> None:
    async with counted(host_config, plane_config) as (bed, host, plane):
        await bed.create(bed.pod("web"))
        made = await bed.mirrored("web")
        await bed.bind(made)

        async def rewritten() -> bool:
            change = {"status": {"message": f"asked-{time.monotonic()}"}}
            found = await plane_client.patch(PODS, "web", change, bed.space, subresource="status")
            return bool(found["status"].get("message") == "rewritten")

        async def believed() -> bool:
            return not await rewritten()

        kinds = (MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS)
        for kind, obj in zip(kinds, rewriting(bed), strict=True):
            await plane_client.create(kind, obj)
        try:
            await until(rewritten, "the policy to be in force")
            plane.writes = host.writes = 0
            await bed.run(made)
            host.writes = 0
            await asyncio.sleep(SECONDS)
            assert 0 < plane.writes <= SECONDS
            assert host.writes <= SECONDS
            # The tenant's own affair: another of its pods is mirrored all the while.
            await bed.create(bed.pod("other"))
            await bed.mirrored("other")
        finally:
            for kind, obj in zip(kinds, rewriting(bed), strict=True):
                await plane_client.delete(kind, obj["metadata"]["name"])

        # No event tells that a policy went: the patrol finds what it left.
        await until(believed, "the policy to be gone")
        await bed.patrolled()

        async def told() -> bool:
            return bool(((await bed.virtual("web")) or {})["status"]["phase"] == "Running")

        await until(told, "the truth once no policy rewrites it")
