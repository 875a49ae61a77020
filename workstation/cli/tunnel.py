"""A connection to a tenant's API server if there is no route: through the host's API, by port-forward to a pod of its plane.

    kubectl ──> 127.0.0.1:PORT ──> websocket ──> host's API ──> kubelet ──> kube-apiserver in pod plane-N

The tunnel carries bytes and does not terminate TLS: the certificate is the plane's own, for the name in the kubeconfig. When a
connection ends, its client opens a new one. Each connection looks for a ready pod, so it finds a plane that was restarted or
moved. The tunnel ends with the command that it serves.
"""

import asyncio
import contextlib
import socket
import ssl
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from bulkhead.api import labels, names
from bulkhead.api.podphase import serves
from bulkhead.kube import portforward
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ConfigError, Forbidden, KubeError, Timeout, Unauthorized
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.proxy import RawConnection
from workstation.cli import connection
from workstation.cli.arguments import Host, Tunnelling
from workstation.cli.failures import CliError
from workstation.cli.renewal import LastingClient

_API_PORT: Final = 6443  # of kube-apiserver in the pod
_PROBE_SECONDS: Final = 3.0
_START_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 30.0  # how long a connection looks for a ready pod before it fails
_PAUSE_SECONDS: Final = 0.5
_POD_SECONDS: Final = 5.0  # of a plane of several; each may be on a node that has just died


@contextlib.contextmanager
def reachable(host: Host, tenant: str, tunnelling: Tunnelling, kubeconfig: bytes) -> Iterator[bytes]:
    """The kubeconfig unchanged if its server answers from here; otherwise, or on request, one that leads through a tunnel."""
    if tunnelling == "never" or (tunnelling == "auto" and answers(kubeconfig)):
        yield kubeconfig
        return
    with contextlib.ExitStack() as stack:
        try:
            port = stack.enter_context(_running(host, tenant))
        except CliError as error:
            if tunnelling == "always":
                raise
            # The command may need no server, or reach it in a way that this machine does not.
            sys.stderr.write(f"{error}\n")
            yield kubeconfig
            return
        sys.stderr.write(f"tenant {tenant}: connected through the host's API, by 127.0.0.1:{port}\n")
        yield through(kubeconfig, port)


def answers(kubeconfig: bytes) -> bool:
    """Whether the tenant's server answers here. Another server may have its address in this network."""
    server, authority = _cluster(_document(kubeconfig))
    address = urlsplit(server["server"])
    try:
        context = ssl.create_default_context(cadata=authority)
        with (
            socket.create_connection((address.hostname or "", address.port or 443), _PROBE_SECONDS) as raw,
            context.wrap_socket(raw, server_hostname=server.get("tls-server-name") or address.hostname),
        ):
            return True
    except (OSError, ValueError):
        return False


def authority_of(kubeconfig: bytes) -> str:
    """The CA by which the tenant's server is verified. Raises CliError for a kubeconfig without one."""
    return _cluster(_document(kubeconfig))[1]


def through(kubeconfig: bytes, port: int) -> bytes:
    """The same kubeconfig with the address of a local port; the server keeps its name."""
    import json  # noqa: PLC0415

    document = _document(kubeconfig)
    cluster, _ = _cluster(document)
    cluster["tls-server-name"] = cluster.get("tls-server-name") or urlsplit(cluster["server"]).hostname
    cluster["server"] = f"https://127.0.0.1:{port}"
    return json.dumps(document, indent=1).encode()


@contextlib.contextmanager
def _running(host: Host, tenant: str) -> Iterator[int]:
    """Run a tunnel in its own thread; returns its local port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    tunnel = Tunnel(host, tenant)
    try:
        starting = asyncio.run_coroutine_threadsafe(tunnel.start(), loop)
        try:
            port = starting.result(_START_SECONDS)
        except TimeoutError:
            starting.cancel()
            raise _no_way(tenant, f"no answer within {_START_SECONDS:g} s") from None
        yield port
    finally:
        asyncio.run_coroutine_threadsafe(tunnel.stop(), loop).result(_START_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_START_SECONDS)


class Tunnel:
    """A local port that leads to one tenant's plane.

    With an open `client` it asks the host through that one. Without, it has its own, and asks the user's plugin for credentials
    at once, which blocks.
    """

    def __init__(self, host: Host, tenant: str, client: LastingClient | None = None) -> None:
        self._client = client or connection.host_client(host)
        self._owned = client is None
        self._namespace = names.plane_namespace(tenant)
        self._tenant = tenant
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        """Open the local port. A first connection reports at once what is wrong, because a later report might not be read."""
        if self._owned:
            await self._client.__aenter__()
        await (await self._open(looking=0.0)).close()
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        """Close everything."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._owned:
            await self._client.__aexit__(None, None, None)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            await portforward.carry(await self._open(), reader, writer)
        except (CliError, KubeError, OSError) as error:
            sys.stderr.write(f"tenant {self._tenant}: tunnel: {error}\n")
        finally:
            writer.close()

    async def _open(self, *, looking: float = _LOOK_SECONDS) -> RawConnection:
        """A connection to a ready pod of the plane; retries until there is one."""
        why = "no pod of its plane is ready"
        until = asyncio.get_running_loop().time() + looking
        while True:
            try:
                return await self._through_any(await _ready(self._client, self._namespace))
            except _NoPodError:
                pass
            except KubeError as error:
                why = str(error)
                if isinstance(error, Forbidden) or (isinstance(error, Unauthorized) and not self._client.renews):
                    break
                if isinstance(error, Unauthorized):
                    self._client.refused()
            if asyncio.get_running_loop().time() >= until:
                break
            await asyncio.sleep(_PAUSE_SECONDS)
        raise _no_way(self._tenant, why)

    async def _through_any(self, pods: Sequence[str]) -> RawConnection:
        """A connection to the first of these pods that takes one. A pod stays ready for a while after its node has died."""
        failure: Exception = _NoPodError()
        for pod in pods:
            try:
                async with asyncio.timeout(_POD_SECONDS if len(pods) > 1 else None):
                    return await portforward.open_port(self._client, pod, self._namespace, _API_PORT)
            except (Forbidden, Unauthorized):
                raise
            except TimeoutError:
                failure = Timeout(f"pod {pod} did not answer within {_POD_SECONDS:g} s")
            except KubeError as error:
                failure = error
        raise failure


def _no_way(tenant: str, why: str) -> CliError:
    return CliError(
        f"tenant {tenant}: no connection through the host's API: {why}",
        next_step=f"you need the rights to get and create pods/portforward in {names.plane_namespace(tenant)}",
    )


class _NoPodError(Exception):
    """No pod of the plane is ready."""


async def _ready(client: Client, namespace: str) -> list[str]:
    listed = await client.list(kinds.PODS, namespace, label_selector=f"{labels.COMPONENT}=plane")
    return [str(pod["metadata"]["name"]) for pod in listed.items if serves(pod)]


def _document(kubeconfig: bytes) -> dict[str, Any]:
    import yaml  # noqa: PLC0415 - slow to load

    document = yaml.safe_load(kubeconfig)
    if not isinstance(document, dict):
        raise CliError("the tenant's kubeconfig is malformed")
    return document


def _cluster(document: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The only cluster of a tenant's kubeconfig, as a part of the document, and its CA."""
    try:
        cluster: dict[str, Any] = document["clusters"][0]["cluster"]
        authority = KubeConfig.from_bytes(_anonymous(cluster)).ca or b""
        return cluster, authority.decode("ascii")
    except (KeyError, IndexError, TypeError, ConfigError, UnicodeDecodeError) as error:
        raise CliError("the tenant's kubeconfig has no cluster with a CA certificate") from error


def _anonymous(cluster: dict[str, Any]) -> bytes:
    import json  # noqa: PLC0415

    return json.dumps(
        {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": cluster}],
            "users": [{"name": "x", "user": {}}],
        }
    ).encode()
