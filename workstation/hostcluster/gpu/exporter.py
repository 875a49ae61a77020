"""The exporter process of a real node: its GPUs in dcgm-exporter's format, each with the pod that the kubelet gave it to.

The GPUs of the embedded host are simulated, and so is all that they do; each series says so by `simulated="true"`. A GPU that
no pod has is idle. One with a pod works at 60 to 95 %, or at the percentage in `nvidia<index>.load` beside its device node.
With `--nvml` it measures the machine's real GPUs instead, for nodes on which no dcgm-exporter runs.

    kubelet's pod resources ──> device ──> pod ──┐
    load, or NVML ──> readings ──────────────────┴─> GET /metrics
"""

import argparse
import asyncio
import logging
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
from aiohttp import web

from bulkhead.gpus.exposition import render
from bulkhead.gpus.fields import ABOUT
from workstation.hostcluster.gpu import podresources_pb2 as messages
from workstation.hostcluster.gpu.devices import Gpu
from workstation.hostcluster.gpu.nvml import Nvml
from workstation.hostcluster.gpu.reading import Owner, Reading, samples_of

PORT: Final = 9400
_DEADLINE: Final = 5.0
_MODEL: Final = "Simulated GPU"
_MEMORY_MIB: Final = 81_559
_RESERVED_MIB: Final = 551

log = logging.getLogger("bulkhead.gpu.exporter")


async def owners(socket: Path) -> dict[str, Owner]:
    """The pod of each device ID, as the kubelet says now."""
    async with grpc.aio.insecure_channel(f"unix://{socket}") as channel:
        call: Any = channel.unary_unary(
            "/v1.PodResourcesLister/List",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=messages.ListPodResourcesResponse.FromString,
        )
        listed = await call(messages.ListPodResourcesRequest(), timeout=_DEADLINE)
    return {
        identity: Owner(pod.namespace, pod.name, container.name)
        for pod in listed.pod_resources
        for container in pod.containers
        for devices in container.devices
        if devices.resource_name.startswith("nvidia.com/")
        for identity in devices.device_ids
    }


class Simulation:
    """The activity of simulated GPUs; energy adds up over time."""

    def __init__(self, gpus: Sequence[Gpu], clock: Callable[[], float] = time.monotonic) -> None:
        self._gpus = gpus
        self._clock = clock
        self._energy = dict.fromkeys((gpu.identity for gpu in gpus), 0.0)
        self._at = clock()

    def read(self, owned: Mapping[str, Owner]) -> list[Reading]:
        """Each GPU that is intact."""
        now = self._clock()
        passed, self._at = now - self._at, now
        found = []
        for gpu in self._gpus:
            load = _load(gpu) if gpu.identity in owned else 0.0
            power = 70.0 + 6.0 * load
            self._energy[gpu.identity] += power * passed * 1000
            if gpu.healthy():
                found.append(_reading(gpu, load, power, self._energy[gpu.identity]))
        return found


def _load(gpu: Gpu) -> float:
    try:
        return min(max(float(gpu.node.with_suffix(".load").read_text()), 0.0), 100.0)
    except (OSError, ValueError):
        return 60.0 + gpu.minor % 8 * 5


def _reading(gpu: Gpu, load: float, power: float, energy: float) -> Reading:
    used = round(load * 700)
    return Reading(
        gpu.index,
        gpu.identity,
        _MODEL,
        utilisation=load,
        copy_utilisation=load // 2,
        memory_used=used,
        memory_free=_MEMORY_MIB - _RESERVED_MIB - used,
        memory_reserved=_RESERVED_MIB,
        power=power,
        energy=float(round(energy)),
        temperature=30.0 + load // 2,
        sm_clock=345.0 if load == 0 else 1980.0,
        memory_clock=2619.0,
        xid=0.0,
        simulated=True,
    )


async def serve(host: str, address: str, socket: Path, read: Callable[[Mapping[str, Owner]], Sequence[Reading]]) -> None:
    """Serve until cancelled. A kubelet that does not answer makes the page fail: without pods it would be wrong."""

    async def page(_: web.Request) -> web.Response:
        try:
            owned = await owners(socket)
        except grpc.aio.AioRpcError as error:
            return web.Response(status=503, text=f"the kubelet does not say which pod has which device: {error.details()}\n")
        samples = [sample for reading in read(owned) for sample in samples_of(reading, host, owned.get(reading.uuid))]
        return web.Response(body=render(samples, ABOUT), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    app = web.Application()
    app.add_routes([web.get("/metrics", page), web.get("/healthz", alive)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, address, PORT).start()
        log.info("serving address=%s port=%d", address, PORT)
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


async def _main(options: argparse.Namespace) -> None:
    if options.nvml:
        nvml = Nvml()
        read: Callable[[Mapping[str, Owner]], Sequence[Reading]] = lambda _: nvml.read()  # noqa: E731 - one of two
    else:
        gpus = [Gpu(index, options.nodes / f"nvidia{index}", options.first_minor) for index in range(options.count)]
        read = Simulation(gpus).read
    task = asyncio.create_task(serve(options.host, options.address, options.socket, read))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        log.info("stopping")


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(description="Exporter of a node's GPUs in dcgm-exporter's format")
    parser.add_argument("--host", required=True, help="the node's name")
    parser.add_argument("--address", required=True, help="the address to listen on")
    parser.add_argument("--socket", type=Path, required=True, help="the kubelet's socket of pod resources")
    parser.add_argument("--nvml", action="store_true", help="measure real GPUs by NVML; needs nvidia-ml-py")
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--first-minor", type=int, default=0, help="device number of the first GPU")
    parser.add_argument("--nodes", type=Path, default=Path("/dev"), help="folder of the device nodes")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(_main(options))


if __name__ == "__main__":
    main()
