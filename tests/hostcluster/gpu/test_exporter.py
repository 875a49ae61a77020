"""The exporter of simulated GPUs: what it shows of each, and whose the kubelet says that it is."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import grpc.aio
import pytest

from bulkhead.gpus.exposition import parse
from bulkhead.gpus.fields import ENERGY, FIELDS, MEMORY_USED, POWER, UTILISATION
from tests.hostcluster.gpu.exchange import FakeGpu
from tests.kit.ports import free_port
from workstation.hostcluster.gpu import exporter
from workstation.hostcluster.gpu import podresources_pb2 as messages
from workstation.hostcluster.gpu.exporter import Simulation, owners, serve
from workstation.hostcluster.gpu.reading import Owner


def gpus(folder: Path, count: int = 2) -> list[FakeGpu]:
    made = [FakeGpu(index, folder / f"nvidia{index}") for index in range(count)]
    for gpu in made:
        gpu.node.touch()
    return made


class Kubelet:
    """The kubelet's API of pod resources on a socket."""

    def __init__(self, *held: tuple[str, str, str]) -> None:
        self.held = held  # namespace, pod, device

    async def list(self, _: Any, _context: Any) -> Any:
        pods = []
        for namespace, name, device in self.held:
            other = messages.ContainerDevices(resource_name="example.com/fpga", device_ids=["fpga-1"])
            own = messages.ContainerDevices(resource_name="nvidia.com/gpu", device_ids=[device])
            container = messages.ContainerResources(name="main", devices=[own, other])
            pods.append(messages.PodResources(name=name, namespace=namespace, containers=[container]))
        return messages.ListPodResourcesResponse(pod_resources=pods)

    async def start(self, socket: Path) -> grpc.aio.Server:
        handler = grpc.unary_unary_rpc_method_handler(
            self.list,
            request_deserializer=messages.ListPodResourcesRequest.FromString,
            response_serializer=lambda answer: answer.SerializeToString(),
        )
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": handler}),))
        server.add_insecure_port(f"unix://{socket}")
        await server.start()
        return server


def test_a_gpu_of_no_pod_is_idle_and_one_with_a_pod_does_what_its_file_says(tmp_path: Path) -> None:
    at = [0.0]
    first, second = gpus(tmp_path)
    simulation = Simulation([first, second], clock=lambda: at[0])
    owned = {second.identity: Owner("bh-red-work", "x", "main")}
    idle, busy = simulation.read(owned)
    assert (idle.utilisation, idle.memory_used, idle.power) == (0, 0, 70)
    assert busy.utilisation is not None
    assert busy.utilisation >= 60
    assert idle.simulated
    assert busy.simulated
    (tmp_path / "nvidia1.load").write_text("3")
    at[0] = 10.0
    idle, busy = simulation.read(owned)
    assert busy.utilisation == 3
    assert idle.energy == 70 * 10 * 1000
    (tmp_path / "nvidia1.load").write_text("nonsense")
    assert (simulation.read(owned)[1].utilisation or 0) >= 60
    second.node.unlink()
    assert [reading.uuid for reading in simulation.read(owned)] == [first.identity]


async def test_the_kubelet_says_which_pod_has_a_device(tmp_path: Path) -> None:
    server = await Kubelet(("bh-red-work", "x", "bulkhead-gpu-1")).start(tmp_path / "kubelet.sock")
    try:
        assert await owners(tmp_path / "kubelet.sock") == {"bulkhead-gpu-1": Owner("bh-red-work", "x", "main")}
    finally:
        await server.stop(0)


async def test_a_page_has_every_gpu_and_fails_where_the_kubelet_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter, "PORT", free_port())
    socket = tmp_path / "kubelet.sock"
    server = await Kubelet(("bh-red-work", "x", "bulkhead-gpu-1")).start(socket)
    task = asyncio.create_task(serve("node-1", "127.0.0.1", socket, Simulation(gpus(tmp_path)).read))
    url = f"http://127.0.0.1:{exporter.PORT}"
    try:
        async with aiohttp.ClientSession() as session:
            for _ in range(200):
                try:
                    assert (await session.get(f"{url}/healthz")).status == 200
                    break
                except aiohttp.ClientConnectionError:
                    await asyncio.sleep(0.05)
            page = parse(await (await session.get(f"{url}/metrics")).read(), FIELDS)
            named = {sample.labels["UUID"]: sample.labels.get("pod") for sample in page.samples}
            assert named == {"bulkhead-gpu-0": None, "bulkhead-gpu-1": "x"}
            assert {UTILISATION, POWER, ENERGY, MEMORY_USED} <= {sample.name for sample in page.samples}
            assert {sample.labels["simulated"] for sample in page.samples} == {"true"}
            await server.stop(0)
            assert (await session.get(f"{url}/metrics")).status == 503
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
