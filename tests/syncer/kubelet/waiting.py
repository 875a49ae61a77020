"""A syncer's kubelet as a process of its own, whose streams all wait: what it holds shows in its memory.

Its arguments are the folder with the certificates and the port of the host's API server; it writes its own port.
"""

import asyncio
import sys
from asyncio import sslproto
from pathlib import Path

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import Key
from bulkhead.work.clock import SystemClock
from syncer.__main__ import _TLS_BUFFER
from syncer.http1 import BadRequestError
from syncer.kubelet.metricsroutes import Question
from syncer.kubelet.pace import PIECE_BYTES, Paces
from syncer.kubelet.routes import NodePage
from syncer.kubelet.server import Kubelet, tls_context
from syncer.kubelet.targets import Target
from syncer.kubelet.turns import Turns

VIRTUAL: Obj = {"metadata": {"namespace": "ns", "name": "web", "uid": "u-1"}, "spec": {"containers": [{"name": "main"}]}}


async def _none(_: Question) -> Obj:
    raise BadRequestError(404, "none")


async def _no_page(_: NodePage, __: str) -> bytes:
    raise BadRequestError(404, "none")


async def main(folder: Path, upstream: int) -> None:
    """Serve until killed; the first line of output is the port."""
    ca = (folder / "serving.pem").read_bytes()
    config = KubeConfig(server=f"https://127.0.0.1:{upstream}", ca=ca, token="host-token")
    clock = SystemClock()
    paces, turns = Paces(clock), Turns(clock)
    for allowance in (paces._logs, paces._sessions):
        # A piece of each stream passes in some hours.
        allowance._rate, allowance._burst, allowance._left = 1.0, float(PIECE_BYTES), 0.0
    async with Client(config, user_agent="kubelet", field_manager="kubelet") as client:
        kubelet = Kubelet(client, lambda _: Target(VIRTUAL, Key("work", "web-host")), _none, _no_page, paces=paces, turns=turns)
        listener = await asyncio.start_server(kubelet._accept, "127.0.0.1", 0, ssl=tls_context(folder), limit=65536)
        sys.stdout.write(f"{listener.sockets[0].getsockname()[1]}\n")
        sys.stdout.flush()
        await listener.serve_forever()


if __name__ == "__main__":
    sslproto.SSLProtocol.max_size = _TLS_BUFFER
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
