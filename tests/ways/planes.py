"""A tenant's API server as a plain process, with the keys that the controller made for it, and who asks it by a Gateway.

It plays the pod of the plane: an EndpointSlice leads the plane's Service to it, at an address of this machine that is not a
loopback one, as API servers refuse those in EndpointSlices.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from controller.pki.issue import issue
from controller.plane.pki import CertSpec, Pair, Usage, authority_secret
from tests.kit import machine
from tests.kit.servers import ApiServer, ServerOptions
from tests.ways.asking import files

EVERYWHERE = "0.0.0.0"  # noqa: S104 -- also at the address that is not a loopback one
_SECONDS = 10.0


@contextlib.asynccontextmanager
async def plane(client: Client, tenant: str, folder: Path) -> AsyncIterator[ApiServer]:
    """The API server of a tenant; its `admin` goes to it directly."""
    server = ApiServer(f"plane-{tenant}", folder, ServerOptions(flags=(f"--bind-address={EVERYWHERE}",)))
    given = await files(client, tenant, "pki-apiserver")
    signs = await files(client, tenant, authority_secret("client"))
    admin = CertSpec("client", "admin", Usage.CLIENT, groups=("system:masters",))
    pair = issue(admin, Pair(signs["tls.crt"], signs["tls.key"]), datetime.now(UTC))
    for name, file in (("ca.crt", "client-ca.crt"), ("serving.crt", "server.crt"), ("serving.key", "server.key")):
        (folder / name).write_bytes(given[file])
    server.admin = KubeConfig(server.url, given["serving-ca.crt"], pair.certificate, pair.key)
    try:
        server.start()
        await asyncio.to_thread(server.wait)
        await client.apply(kinds.ENDPOINT_SLICES, _slice(tenant, server.port))
        yield server
    finally:
        server.stop()


def _slice(tenant: str, port: int) -> Obj:
    return {
        "metadata": {
            "name": "plane-0",
            "namespace": f"bh-{tenant}",
            "labels": {"kubernetes.io/service-name": "plane", "endpointslice.kubernetes.io/managed-by": "tests"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [machine.address("a plane behind a Gateway")], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }


def through(tenant: Obj, server: ApiServer) -> KubeConfig:
    """The tenant's endpoint and authority as its status has them; the name leads to this machine, as no DNS does it here."""
    status = tenant["status"]
    endpoint = urlsplit(status["endpoint"])
    config = replace(server.admin, server=f"https://127.0.0.1:{endpoint.port}", tls_server_name=endpoint.hostname)
    return replace(config, ca=status["certificateAuthority"].encode())


async def answers(port: int, name: str | None, authority: bytes | None) -> bool:
    """Whether the server under a name has a certificate of this authority for that name; False if no server answers."""
    context = ssl.create_default_context(cadata=(authority or b"").decode())
    context.check_hostname = name is not None
    try:
        async with asyncio.timeout(_SECONDS):
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name or "")
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
