"""A tenant with a running pod on a node whose kubelet a test plays, so that streams go all the way to it.

test ──> plane's API server ──> the syncer's kubelet ──> host's API server ──> the played kubelet
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

from bulkhead.kube.client import Client
from bulkhead.kube.resources import NODES
from tests.kit import machine
from tests.kit.background import background
from tests.kit.pki import Authority
from tests.kit.ports import free_port
from tests.kit.syncerbed import SyncerBed

# What a kubelet answers to an upgrade that it accepts.
SWITCHED: Final = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    b"X-Stream-Protocol-Version: v5.channel.k8s.io\r\n\r\n"
)


class PlayedKubelet(Protocol):
    """What answers at the node's port; `writers` are its open connections, which end with the bed."""

    writers: set[asyncio.StreamWriter]

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None: ...


@asynccontextmanager
async def with_kubelet(host: Client, plane: Client, folder: Path, kubelet: PlayedKubelet, pod: str) -> AsyncIterator[SyncerBed]:
    """A bed whose pod runs on the node of this kubelet; the syncer's own serves."""
    address, port, kubelet_port = machine.address("a kubelet"), free_port(), free_port()
    cert, key = Authority("kubelet").issue("kubelet", addresses=(address,))
    (folder / "kubelet.pem").write_bytes(cert + key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "kubelet.pem")
    async with SyncerBed.open(host, plane, shimAddress=address, shimPort=port) as bed:
        assert bed.session is not None
        status = {
            "addresses": [{"type": "InternalIP", "address": address}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
        }
        await host.patch(NODES, bed.node, {"status": status}, subresource="status")
        listening = await asyncio.start_server(kubelet.answer, address, kubelet_port, ssl=tls)
        async with listening, background(bed.session.kubelet.serve(address, port, tls)):
            await bed.running(pod)
            await bed.caught_up()
            yield bed
            for writer in list(kubelet.writers):
                writer.transport.abort()
