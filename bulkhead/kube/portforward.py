"""One connection to a port of a pod, through an API server: what `kubectl port-forward` does, by websocket.

    local bytes ──> message on channel 0 ──> API server ──> kubelet ──> 127.0.0.1:PORT in the pod, and back

Never looks into the bytes. A websocket of its own for every connection, so that one that ends costs no other.
"""

import asyncio
import base64
import contextlib
import os
from typing import Final

from bulkhead.kube import resources as kinds
from bulkhead.kube import websocket
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ProtocolError
from bulkhead.kube.proxy import RawConnection

_PROTOCOL: Final = "v4.channel.k8s.io"
_DATA: Final = 0
_ERROR: Final = 1
_CHUNK: Final = 32 * 1024


async def open_port(client: Client, pod: str, namespace: str, port: int) -> RawConnection:
    """A websocket that leads to a pod's port; a KubeError where there is none."""
    key = base64.b64encode(os.urandom(16)).decode()
    headers = {
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": key,
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": _PROTOCOL,
    }
    path = f"{kinds.PODS.path(namespace, pod)}/portforward"
    return await client.upgrade(path, [("ports", str(port))], headers.items())


async def carry(there: RawConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy both ways until one side ends, then close both; a ProtocolError says what the kubelet says of the port."""
    up = asyncio.ensure_future(_up(reader, there.writer))
    down = asyncio.ensure_future(_down(there, writer))
    try:
        await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (up, down):
            task.cancel()
        results = await asyncio.gather(up, down, return_exceptions=True)
        writer.close()
        await there.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    for result in results:
        if isinstance(result, ProtocolError):
            raise result


async def _up(reader: asyncio.StreamReader, there: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        there.write(websocket.frame(websocket.BINARY, bytes([_DATA]) + data))
        await there.drain()


async def _down(there: RawConnection, writer: asyncio.StreamWriter) -> None:
    messages = websocket.Messages()
    begun: set[int] = set()
    while data := await there.reader.read(_CHUNK):
        for opcode, content in messages.feed(data):
            if opcode == websocket.CLOSE:
                return
            if opcode == websocket.PING:
                there.writer.write(websocket.frame(websocket.PONG, content))
            elif opcode == websocket.BINARY and content:
                channel, rest = content[0], content[1:]
                if channel not in begun:
                    # The first message of each channel is the number of the port.
                    begun.add(channel)
                elif channel == _ERROR:
                    raise ProtocolError(f"port-forward: {rest.decode(errors='replace').strip()[:300]}")
                elif channel == _DATA:
                    writer.write(rest)
        await writer.drain()
