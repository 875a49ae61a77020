"""What others hold on a node is not shown to a tenant: controller and syncer together, between two real API servers."""

from collections.abc import AsyncIterator

import pytest

from bulkhead.api import labels as marks
from bulkhead.api.accelerators import HELD
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.resources import NAMESPACES, NODES, PODS, TENANT_CLASSES
from controller.host.accelerators import Accelerators
from tests.kit.crds import install
from tests.kit.leading import leading
from tests.kit.syncerbed import SyncerBed, empty, until
from tests.kit.tenantsamples import tenant_class

GPU = "nvidia.com/gpu"


class Shared:
    """A tenant with a limit of 4 on a node of 8, and others there."""

    def __init__(self, bed: SyncerBed) -> None:
        self.bed = bed
        self.others = f"others-{bed.tenant}"

    async def take(self, name: str, gpus: int, node: str | None = None) -> None:
        """Bind a pod of another tenant."""
        made = self.bed.gpu_pod(name, gpus)
        spec = made["spec"] | {"nodeName": node or self.bed.node}
        await self.bed.host.create(PODS, {"metadata": {"name": name}, "spec": spec}, self.others)

    async def leave(self, name: str) -> None:
        await self.bed.host.delete(PODS, name, self.others, grace_seconds=0)

    async def sees(self, *gpus: int) -> None:
        """The tenant sees so many on its nodes, by name, wherever it reads them."""

        async def so() -> bool:
            found = [each for each in (await self.bed.plane.list(NODES)).items if self.bed.tenant in each["metadata"]["name"]]
            assert HELD not in str(found)
            return [_shown(each) for each in found] == [{str(count)} for count in gpus]

        await until(so, f"{gpus} GPUs shown")


def _shown(node: Obj) -> set[str]:
    status = node.get("status") or {}
    return {(status.get(part) or {}).get(GPU, "") for part in ("capacity", "allocatable")}


@pytest.fixture
async def shared(host_client: Client, plane_client: Client) -> AsyncIterator[Shared]:
    await install(host_client)
    async with SyncerBed.open(host_client, plane_client) as bed:
        made = Shared(bed)
        await host_client.create(NAMESPACES, {"metadata": {"name": made.others}})
        await host_client.apply(TENANT_CLASSES, tenant_class() | {"metadata": {"name": made.others}})
        try:
            yield made
        finally:
            await empty(host_client, made.others)
            await host_client.delete(TENANT_CLASSES, made.others)


async def test_item_49_a_tenant_sees_what_others_leave_and_what_it_uses_itself(shared: Shared) -> None:
    bed = shared.bed
    async with leading(Accelerators(bed.host)):
        await shared.sees(4)
        await shared.take("a", 6)
        await shared.sees(2)
        own = await bed.running("own", bed.gpu_pod("own", 2))
        await shared.take("b", 1)
        await shared.sees(2)
        await bed.make_node(f"{bed.node}-z")
        await shared.sees(2, 2)
        await shared.take("c", 7, f"{bed.node}-z")
        await shared.sees(2, 1)
        await shared.leave("a")
        await shared.sees(4, 0)
        await bed.run(own, "Succeeded")
        await shared.take("d", 7)
        await shared.sees(0, 1)


async def test_item_49_a_restart_of_either_changes_nothing_and_a_late_note_is_put_right(shared: Shared) -> None:
    bed = shared.bed
    async with leading(Accelerators(bed.host)):
        await shared.take("a", 6)
        await shared.sees(2)
    await bed.stop()
    await bed.start()
    await shared.sees(2)
    # No tenant in the cohort is left, and the pod is gone.
    await shared.leave("a")
    async with leading(Accelerators(bed.host)):
        await shared.sees(4)


async def test_item_49_a_note_that_makes_no_sense_counts_for_nothing(shared: Shared, caplog: pytest.LogCaptureFixture) -> None:
    bed = shared.bed
    for note, seen in (('{"nvidia.com/gpu":7}', 1), ("[[[", 4), ('{"nvidia.com/gpu":"7"}', 4), ('{"nvidia.com/gpu":6}', 2)):
        await bed.host.patch(NODES, bed.node, {"metadata": {"annotations": {HELD: note}}})
        await shared.sees(seen)
    assert len([each for each in caplog.records if "cannot be read" in each.message]) == 1
    await bed.host.patch(NODES, bed.node, {"metadata": {"annotations": {HELD: None}}})
    await shared.sees(4)


async def test_item_49_a_tenant_cannot_touch_what_is_noted(shared: Shared) -> None:
    bed = shared.bed
    async with leading(Accelerators(bed.host)):
        await shared.take("a", 6)
        await shared.sees(2)
        forged = {"metadata": {"annotations": {HELD: '{"nvidia.com/gpu":0}'}, "labels": {marks.GPU_COUNT: "64"}}}
        await bed.plane.patch(NODES, bed.node, forged)
        await bed.plane.patch(NODES, bed.node, {"status": {"allocatable": {GPU: "64"}}}, subresource="status")

        async def repaired() -> bool:
            node = await bed.virtual_node()
            return node is not None and _shown(node) == {"2"}

        await until(repaired, "the tenant's own idea of its node is put right")
        assert (await bed.host.get(NODES, bed.node))["metadata"]["annotations"][HELD] == '{"nvidia.com/gpu":6}'
