"""Tenants behind the installation's proxy on the embedded host: the chart's values for it, and TLS as its clients use it.

No name resolves here, so kubeconfigs contain the proxy's address and the server name to send.
"""

import socket
import ssl

from e2e.api import Api, Obj
from e2e.poll import NotYetError
from workstation.hostcluster.component import NODE_ADDRESS

DOMAIN = "k8s.test"
PORT = 30443
MOST = 40  # connections of a tenant to one proxy pod
VALUES = {
    "exposure.domains": f"{{{DOMAIN}}}",
    "exposure.proxy.address": NODE_ADDRESS,
    "exposure.proxy.port": str(PORT),
    "exposure.proxy.service.type": "NodePort",
    "exposure.proxy.service.nodePort": str(PORT),
    "exposure.proxy.limits.tenantConnections": str(MOST),
    # All clients here have the same address.
    "exposure.proxy.limits.sourceConnections": "0",
    "exposure.proxy.limits.sourceRate": "0",
}


def at_the_proxy(host: Api, name: str) -> Obj:
    status: Obj = host.get("Tenant", name)["status"]
    if status.get("endpoint") != f"https://{NODE_ADDRESS}:{PORT}" or status.get("tlsServerName") != f"{name}.{DOMAIN}":
        raise NotYetError(f"{status.get('endpoint')} {status.get('tlsServerName')}")
    certified(host, name, f"{name}.{DOMAIN}")
    return status


def authority(host: Api, name: str) -> ssl.SSLContext:
    """A TLS context that trusts only one tenant's plane."""
    return ssl.create_default_context(cadata=host.get("Tenant", name)["status"]["certificateAuthority"])


def certified(host: Api, name: str, asked: str) -> None:
    """Raises `NotYetError` until the proxy leads to the tenant's plane under this name, which its certificate must include."""
    try:
        dial(authority(host, name), asked).close()
    except OSError as error:
        raise NotYetError(f"{asked}: {error}") from error


def dial(context: ssl.SSLContext, asked: str | None) -> ssl.SSLSocket:
    raw = socket.create_connection((NODE_ADDRESS, PORT), 5.0)
    try:
        return context.wrap_socket(raw, server_hostname=asked)
    except BaseException:
        raw.close()
        raise
