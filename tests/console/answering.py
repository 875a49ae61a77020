"""What a plane's API server leads to: a kubelet with pages of GPUs, and a slurmrestd; played, on an address of this machine.

API servers proxy to no loopback address.
"""

import base64
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from bulkhead.api.slurmtoken import sign
from bulkhead.gpus import fields
from tests.controller.slurm_runtime.slurmrestd import KEY, job, number
from tests.kit.pki import Authority
from tests.kit.ports import free_port


@dataclass
class Answering:
    """Where it listens, and what it says."""

    address: str
    kubelet_port: int = field(default_factory=free_port)
    slurm_port: int = field(default_factory=free_port)
    gpus: str = ""
    jobs: list[dict[str, Any]] = field(default_factory=list)

    async def page(self, request: web.Request) -> web.Response:
        """The page of one node, of those that are in the text."""
        node = request.headers.get("X-Forwarded-Uri", "").split("/")[4]
        lines = [line for line in self.gpus.splitlines() if f'Hostname="{node}"' in line]
        return web.Response(text="\n".join(lines) + "\n")

    async def listed(self, request: web.Request) -> web.Response:
        """The jobs, for a token that the cluster's key signed."""
        token = request.headers.get("X-SLURM-USER-TOKEN", "")
        good = token.count(".") == 2 and token == _signed_again(token)
        body = {"jobs": self.jobs, "errors": []} if good else {"errors": [{"error": "Authentication failure"}]}
        return web.json_response(body, status=200 if good else 401)


def _signed_again(token: str) -> str:
    claims = token.split(".")[1]
    found = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    return sign(KEY, found["sun"], issued=found["iat"], expires=found["exp"])


@contextlib.asynccontextmanager
async def answering(made: Answering, folder: Path) -> AsyncIterator[Answering]:
    """Serve until the block ends."""
    cert, key = Authority("kubelet").issue("shim", addresses=(made.address,))
    (folder / "shim.pem").write_bytes(cert + key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "shim.pem")
    async with contextlib.AsyncExitStack() as stack:
        for port, context, route in (
            (made.kubelet_port, tls, web.get("/metrics/gpus", made.page)),
            (made.slurm_port, None, web.get("/slurm/v0.0.45/jobs/", made.listed)),
        ):
            app = web.Application()
            app.add_routes([route])
            runner = web.AppRunner(app)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, made.address, port, ssl_context=context).start()
        yield made


def gpu(pod: str, node: str, number_: int, **values: float) -> str:
    """Lines of one device of a pod of namespace ml."""
    labels = f'UUID="GPU-{pod}-{number_}",namespace="ml",pod="{pod}",Hostname="{node}"'
    names = {
        "busy": fields.UTILISATION,
        "used": fields.MEMORY_USED,
        "free": fields.MEMORY_FREE,
        "watts": fields.POWER,
        "xid": fields.XID,
    }
    return "\n".join(f"{names[name]}{{{labels}}} {value}" for name, value in values.items())


def waiting_job(at: int, name: str, **more: Any) -> dict[str, Any]:
    return job(at, name=name, user_name="alice", tres_req_str="cpu=8,gres/gpu=4", node_count=number(1), **more)
