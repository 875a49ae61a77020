"""The device plugin against a kubelet of its own making, in a process of its own, as on a host; an assertion ends it.

gRPC keeps threads and locks of its own in a process, and the tests' process is forked and runs a hundred event loops: together
they hang now and then, which says nothing about the plugin.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest import mock

import grpc
import grpc.aio
import pytest

from workstation.hostcluster.gpu import deviceplugin_pb2 as messages
from workstation.hostcluster.gpu import plugin
from workstation.hostcluster.gpu.devices import Gpu


class Kubelet:
    """Listens where the kubelet listens and keeps what is registered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registered: asyncio.Queue[messages.RegisterRequest] = asyncio.Queue()

    async def _register(self, request: messages.RegisterRequest, _context: Any) -> messages.Empty:
        await self.registered.put(request)
        return messages.Empty()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        for path in self.folder.iterdir():
            path.unlink()
        handler = grpc.unary_unary_rpc_method_handler(
            self._register,
            request_deserializer=messages.RegisterRequest.FromString,
            response_serializer=lambda answer: answer.SerializeToString(),
        )
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": handler}),))
        server.add_insecure_port(f"unix://{self.folder}/kubelet.sock")
        await server.start()
        try:
            yield
        finally:
            await server.stop(grace=None)


class FakeGpu(Gpu):
    """Healthy while its file is there: a test needs no right to make devices."""

    def healthy(self) -> bool:
        return self.node.exists()


async def exchange(place: Path) -> None:
    """Registration, stream, allocation, restart."""
    folder, nodes = place / "plugins", place / "nodes"
    folder.mkdir()
    nodes.mkdir()
    gpus = [FakeGpu(index, nodes / f"nvidia{index}") for index in range(2)]
    for gpu in gpus:
        gpu.node.write_bytes(b"")
    kubelet = Kubelet(folder)
    task = asyncio.create_task(plugin.run(gpus, folder))
    try:
        async with asyncio.timeout(120), kubelet.running():
            request = await kubelet.registered.get()
            assert (request.version, request.resource_name) == ("v1beta1", "nvidia.com/gpu")
            async with grpc.aio.insecure_channel(f"unix://{folder}/{request.endpoint}") as channel:
                await _check_health_follows_the_files(channel, gpus)
                await _check_allocation(channel)
        async with asyncio.timeout(120), kubelet.running():
            assert (await kubelet.registered.get()).endpoint == request.endpoint
    finally:
        await _ended(task)


async def cancellation(place: Path) -> None:
    """Found: gRPC answers a cancellation that meets a failing call with the call's error, and the plugin went on for ever."""

    async def failing(_gpus: Any, _folder: Path) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata()) from None

    with mock.patch.object(plugin, "_serve_until_kubelet_changes", failing):
        task = asyncio.create_task(plugin.run([], place))
        await asyncio.sleep(0)
        await _ended(task)


async def _ended(task: asyncio.Task[None]) -> None:
    """Cancelled once, as the plugin's own signals do it, it ends."""
    task.cancel()
    async with asyncio.timeout(120):
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _check_health_follows_the_files(channel: grpc.aio.Channel, gpus: list[FakeGpu]) -> None:
    stream = channel.unary_stream(
        "/v1beta1.DevicePlugin/ListAndWatch",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=messages.ListAndWatchResponse.FromString,
    )(messages.Empty())
    first = await stream.read()
    assert [device.health for device in first.devices] == ["Healthy", "Healthy"]
    gpus[1].node.unlink()
    second = await stream.read()
    assert [device.health for device in second.devices] == ["Healthy", "Unhealthy"]
    stream.cancel()


async def _check_allocation(channel: grpc.aio.Channel) -> None:
    allocate = channel.unary_unary(
        "/v1beta1.DevicePlugin/Allocate",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=messages.AllocateResponse.FromString,
    )
    one = messages.ContainerAllocateRequest(devices_ids=["bulkhead-gpu-1"])
    answer = await allocate(messages.AllocateRequest(container_requests=[one]), timeout=60)
    response = answer.container_responses[0]
    assert dict(response.envs) == {"NVIDIA_VISIBLE_DEVICES": "1"}
    assert [(device.container_path, device.permissions) for device in response.devices] == [("/dev/nvidia1", "rw")]
    unknown = messages.ContainerAllocateRequest(devices_ids=["other"])
    with pytest.raises(grpc.aio.AioRpcError, match="unknown device"):
        await allocate(messages.AllocateRequest(container_requests=[unknown]), timeout=60)


if __name__ == "__main__":
    asyncio.run(exchange(Path(sys.argv[1])))
    asyncio.run(cancellation(Path(sys.argv[1])))
