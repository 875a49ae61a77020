"""Reads and writes each API at a steady rate, and prints how long each request took: a process of its own.

    parent ── a line of JSON: APIs with credentials, period ──> stdin      stdout ──> two lines of JSON for each request:
           │                                                                          it begins, it has ended
           └─ further lines: other credentials for one of them ──┘

It is a process apart so that the work of the faults does not delay its clock. Requests begin at their time, whether or not the
one before has ended: a server that hangs is asked as often as one that does not. It ends when its stdin is closed, and so with
its parent, however that ends. Credentials come by stdin and are written nowhere.
"""

import asyncio
import base64
import contextlib
import json
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.kubeconfig import KubeConfig

_TOGETHER: Final = 60
_ANSWER_BYTES: Final = 1 << 20
_ERROR_CHARACTERS: Final = 200
_LINE_BYTES: Final = 4 << 20
# One request in four is a write.
_WRITE_EACH: Final = 4


def encode(config: KubeConfig) -> Mapping[str, str]:
    """A client's configuration as JSON."""
    return {
        "server": config.server,
        "ca": _text(config.ca),
        "cert": _text(config.client_cert),
        "key": _text(config.client_key),
        "token": config.token or "",
        "name": config.tls_server_name or "",
    }


def decode(found: Mapping[str, str]) -> KubeConfig:
    """The configuration that `encode` wrote."""
    return KubeConfig(
        server=found["server"],
        ca=_bytes(found["ca"]),
        client_cert=_bytes(found["cert"]),
        client_key=_bytes(found["key"]),
        token=found["token"] or None,
        tls_server_name=found["name"] or None,
    )


def _text(value: bytes | None) -> str:
    return base64.b64encode(value).decode() if value else ""


def _bytes(value: str) -> bytes | None:
    return base64.b64decode(value) or None


class Probing:
    """One API: its client, and one ConfigMap that is read and, where it may, written."""

    def __init__(self, order: Mapping[str, Any], client: Client) -> None:
        self.subject: str = order["subject"]
        self._namespace: str = order["namespace"]
        self._name: str = order["configMap"]
        self._writes: bool = order["writes"]
        self._seconds: float = order["seconds"]
        self._client = client
        self._turn = asyncio.Semaphore(_TOGETHER)

    async def run(self, period: float, offset: float) -> None:
        """Ask once in each period, until cancelled."""
        clock = asyncio.get_running_loop().time
        due = clock() + offset
        count = 0
        async with asyncio.TaskGroup() as tasks:
            while True:
                await asyncio.sleep(max(0.0, due - clock()))
                due += period
                count += 1
                tasks.create_task(self._ask(count))

    async def _ask(self, count: int) -> None:
        begin, error = time.monotonic(), ""
        write = self._writes and count % _WRITE_EACH == 0
        self._say({"at": begin})
        try:
            # The wait for its turn counts: each request ends within its time, so that the parent knows when all have.
            async with asyncio.timeout(self._seconds), self._turn:
                if write:
                    await self._client.patch(kinds.CONFIG_MAPS, self._name, {"data": {"count": str(count)}}, self._namespace)
                else:
                    await self._client.get(kinds.CONFIG_MAPS, self._name, self._namespace)
        except TimeoutError:
            error = f"no answer within {self._seconds:g} s"
        except KubeError as failure:
            error = str(failure)[:_ERROR_CHARACTERS] or type(failure).__name__
        self._say({"at": begin, "seconds": time.monotonic() - begin, "error": error, "write": write})

    def _say(self, line: Mapping[str, Any]) -> None:
        sys.stdout.write(json.dumps({"subject": self.subject, **line}) + "\n")
        sys.stdout.flush()


async def _main() -> None:
    reader = asyncio.StreamReader(limit=_LINE_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    order = json.loads(await reader.readline())
    async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        clients = [await stack.enter_async_context(_client(api)) for api in order["apis"]]
        probing = [tasks.create_task(_probe(client, order, place)) for place, client in enumerate(clients)]
        while (line := await reader.readline()).endswith(b"\n"):
            renewed = json.loads(line)
            clients[renewed["place"]].transport.renew(decode(renewed["config"]))
        for task in probing:
            task.cancel()


async def _probe(client: Client, order: Mapping[str, Any], place: int) -> None:
    apis, period = order["apis"], order["period"]
    await Probing(apis[place], client).run(period, period * place / len(apis))


def _client(api: Mapping[str, Any]) -> Client:
    return Client(
        decode(api["config"]),
        user_agent="bulkhead-chaos",
        field_manager="bulkhead-chaos",
        timeout=api["seconds"],
        max_body=_ANSWER_BYTES,
    )


if __name__ == "__main__":
    asyncio.run(_main())
