"""A plane of three as plain processes: three real etcds, and an API server in front of each, with a plane's own flags and keys.

Each pod has a loopback address of its own, and all listen at the same port there, as pods do. `service` is what kube-proxy does
with the plane's Service: new connections go to a member that serves.
"""

import asyncio
import contextlib
import time
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from controller.plane.secrets import authority_secrets, leaf_secrets
from controller.plane.spec import API_PORT, API_SERVER, ETCD_PORT, PlaneSpec
from tests.kit.etcdmembers import PODS, EtcdMembers
from tests.kit.planeprocess import PlaneProcesses
from tests.kit.ports import free_port

ADDRESSES: Final = {pod: f"127.0.0.{11 + number}" for number, pod in enumerate(PODS)}


class _ApiServer(PlaneProcesses):
    """The API server of one pod, at the pod's address."""

    address = ""

    def _here(self, text: str, pki: Path) -> str:
        return super()._here(text, pki).replace("--bind-address=127.0.0.1", f"--bind-address={self.address}")

    def wait(self, seconds: float = 240.0) -> None:
        """Return once the API server is ready at the pod's address, which no certificate has. Raises if it has ended."""
        context = self.admin.ssl_context()
        assert context is not None
        context.check_hostname = False
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if trouble := self.ended(API_SERVER):
                raise RuntimeError(trouble)
            with contextlib.suppress(OSError):
                opener.open(f"{self.admin.server}/readyz", timeout=5).close()
                return
            time.sleep(0.2)
        raise RuntimeError(f"not ready after {seconds:g} s: {self.log_tail(API_SERVER)}")

    @property
    def admin(self) -> KubeConfig:
        """The controller's own access, to this pod."""
        return replace(super().admin, server=f"https://{self.address}:{self.ports[API_PORT]}", tls_server_name="plane")


class PlaneOfThree:
    """The plane; tests kill members for good, and start them on other volumes."""

    def __init__(self, folder: Path, spec: PlaneSpec) -> None:
        self.port = free_port()
        first = _ApiServer(folder / PODS[0], spec)
        given = (*authority_secrets(spec, first.keys), *leaf_secrets(spec, first.keys))
        secrets = {str(secret["metadata"]["name"]): secret for secret in given}
        self.servers = {PODS[0]: first} | {pod: _ApiServer(folder / pod, spec, secrets=secrets) for pod in PODS[1:]}
        self.keys = first.keys
        (folder / "etcd").mkdir()
        self.members = EtcdMembers(folder / "etcd", spec, secrets["pki-etcd"]["data"])
        self.members.keys = first.keys
        for pod, server in self.servers.items():
            server.address = ADDRESSES[pod]
            server.ports |= {API_PORT: self.port, ETCD_PORT: self.members.ports[pod][ETCD_PORT]}

    def serve(self, *pods: str) -> None:
        """Start API servers, and return once they are ready."""
        for pod in pods:
            self.servers[pod].start(API_SERVER)
        for pod in pods:
            self.servers[pod].wait()

    def serves(self, pod: str) -> bool:
        """Whether a pod is ready, as its kubelet sees it."""
        return self.servers[pod].runs(API_SERVER) and self.members.runs(pod)

    def stop(self) -> None:
        """End everything."""
        for server in self.servers.values():
            server.stop()
        self.members.kill()

    @contextlib.asynccontextmanager
    async def service(self) -> AsyncIterator[Client]:
        """A client of the plane's Service."""

        async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            pod = next((pod for pod in PODS if self.serves(pod)), "")
            with contextlib.suppress(OSError):
                if pod:
                    theirs, ours = await asyncio.open_connection(ADDRESSES[pod], self.port)
                    await asyncio.wait(
                        {asyncio.create_task(_copy(reader, ours)), asyncio.create_task(_copy(theirs, writer))},
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                    ours.close()
            writer.close()

        proxy = await asyncio.start_server(connect, "127.0.0.1", 0)
        config = replace(self.servers[PODS[0]].admin, server=f"https://127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
        try:
            async with Client(config, user_agent="tests", field_manager="tests") as client:
                yield client
        finally:
            proxy.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
