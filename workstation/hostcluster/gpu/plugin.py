"""The device plugin process: reports the fake GPUs to the kubelet and answers its allocations.

It creates the nodes, serves on a socket in the kubelet's plugin folder, registers, and streams health. When the kubelet
restarts (its socket changes, or the folder is emptied), all but the nodes is set up again. It never reads pods or the API.
"""

import argparse
import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from workstation.hostcluster.gpu import deviceplugin_pb2 as messages
from workstation.hostcluster.gpu.devices import RESOURCE, Gpu, grant, make_nodes, prefer, remove_nodes

PLUGIN_FOLDER = Path("/var/lib/kubelet/device-plugins")  # fixed in the kubelet, whatever its root folder is
_SOCKET = "bulkhead-gpu.sock"
_API = "v1beta1"
_DEADLINE = 5.0
_POLL_SECONDS = 0.5

log = logging.getLogger("bulkhead.gpu")


@dataclass(slots=True)
class DevicePlugin:
    """Answers the kubelet's calls."""

    gpus: Sequence[Gpu]
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def options(self, _request: messages.Empty, _context: Any) -> messages.DevicePluginOptions:
        """The capabilities of this plugin."""
        return messages.DevicePluginOptions(get_preferred_allocation_available=True)

    async def list_and_watch(self, _request: messages.Empty, _context: Any) -> AsyncIterator[messages.ListAndWatchResponse]:
        """The devices now, and again whenever their health changes."""
        sent: list[bool] | None = None
        while not self.stopping.is_set():
            health = [gpu.healthy() for gpu in self.gpus]
            if health != sent:
                sent = health
                log.info("health resource=%s healthy=%d of=%d", RESOURCE, sum(health), len(health))
                yield messages.ListAndWatchResponse(
                    devices=[
                        messages.Device(ID=gpu.identity, health="Healthy" if good else "Unhealthy")
                        for gpu, good in zip(self.gpus, health, strict=True)
                    ]
                )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_SECONDS):
                    await self.stopping.wait()

    async def preferred(
        self, request: messages.PreferredAllocationRequest, _context: Any
    ) -> messages.PreferredAllocationResponse:
        """A preference for devices that belong together."""
        return messages.PreferredAllocationResponse(
            container_responses=[
                messages.ContainerPreferredAllocationResponse(
                    deviceIDs=prefer(self.gpus, one.available_deviceIDs, one.must_include_deviceIDs, one.allocation_size)
                )
                for one in request.container_requests
            ]
        )

    async def allocate(self, request: messages.AllocateRequest, context: Any) -> messages.AllocateResponse:
        """Device nodes and environment for each container."""
        answers = []
        for one in request.container_requests:
            try:
                given = grant(self.gpus, one.devices_ids)
            except KeyError as error:
                await context.abort(grpc.StatusCode.NOT_FOUND, f"unknown device: {error}")
                raise
            devices = [
                messages.DeviceSpec(container_path=gpu.container_path, host_path=str(gpu.node), permissions="rw")
                for gpu in given.gpus
            ]
            answers.append(messages.ContainerAllocateResponse(envs=given.environment, devices=devices))
        return messages.AllocateResponse(container_responses=answers)


def _handlers(plugin: DevicePlugin) -> grpc.GenericRpcHandler:
    def unary(method: Any, request: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(
            method, request_deserializer=request.FromString, response_serializer=lambda answer: answer.SerializeToString()
        )

    watch = grpc.unary_stream_rpc_method_handler(
        plugin.list_and_watch,
        request_deserializer=messages.Empty.FromString,
        response_serializer=lambda answer: answer.SerializeToString(),
    )
    methods = {
        "GetDevicePluginOptions": unary(plugin.options, messages.Empty),
        "ListAndWatch": watch,
        "GetPreferredAllocation": unary(plugin.preferred, messages.PreferredAllocationRequest),
        "Allocate": unary(plugin.allocate, messages.AllocateRequest),
    }
    return grpc.method_handlers_generic_handler(f"{_API}.DevicePlugin", methods)


async def register(folder: Path) -> None:
    """Register the plugin with the kubelet."""
    request = messages.RegisterRequest(
        version=_API,
        endpoint=_SOCKET,
        resource_name=RESOURCE,
        options=messages.DevicePluginOptions(get_preferred_allocation_available=True),
    )
    async with grpc.aio.insecure_channel(f"unix://{folder}/kubelet.sock") as channel:
        call = channel.unary_unary(
            f"/{_API}.Registration/Register",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=messages.Empty.FromString,
        )
        await call(request, timeout=_DEADLINE)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    return facts.st_ino, facts.st_ctime_ns


async def _serve_until_kubelet_changes(gpus: Sequence[Gpu], folder: Path) -> None:
    """One run of the server: from registration to the kubelet's restart."""
    own = folder / _SOCKET
    kubelet = _identity(folder / "kubelet.sock")
    if kubelet is None:
        return
    own.unlink(missing_ok=True)
    plugin = DevicePlugin(gpus)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_handlers(plugin),))
    server.add_insecure_port(f"unix://{own}")
    await server.start()
    try:
        await register(folder)
        log.info("registered resource=%s devices=%d", RESOURCE, len(gpus))
        served = _identity(own)
        while _identity(own) == served and _identity(folder / "kubelet.sock") == kubelet:  # noqa: ASYNC110  files give no event
            await asyncio.sleep(_POLL_SECONDS)
        log.info("kubelet restarted, registering again")
    finally:
        plugin.stopping.set()
        await server.stop(grace=1)


async def run(gpus: Sequence[Gpu], folder: Path) -> None:
    """Serve forever, through any number of kubelet restarts."""
    while True:
        try:
            await _serve_until_kubelet_changes(gpus, folder)
        except grpc.aio.AioRpcError as error:
            log.warning("registration failed: %s: %s", error.code().name, error.details())
            # If a cancellation arrives just as a call fails, it appears as the call's error, and is not raised again.
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise asyncio.CancelledError from error
        await asyncio.sleep(_POLL_SECONDS)


async def _main(count: int, first_minor: int, nodes: Path, folder: Path) -> None:
    gpus = make_nodes(nodes, count, first_minor)
    task = asyncio.create_task(run(gpus, folder))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        log.info("stopping")
    finally:
        (folder / _SOCKET).unlink(missing_ok=True)
        remove_nodes(gpus)


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(description="Device plugin for fake GPUs")
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--first-minor", type=int, default=0, help="device number of the first GPU")
    parser.add_argument("--nodes", type=Path, required=True, help="folder for the device nodes")
    parser.add_argument("--plugin-folder", type=Path, default=PLUGIN_FOLDER)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    options.plugin_folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(_main(options.count, options.first_minor, options.nodes, options.plugin_folder))


if __name__ == "__main__":
    main()
