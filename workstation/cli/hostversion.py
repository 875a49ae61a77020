"""The release of Bulkhead that a host runs, from the Deployment of its controller; None if it cannot be read."""

import asyncio

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import KubeError
from workstation.cli import connection, eventloop
from workstation.cli.arguments import Host
from workstation.cli.failures import CliError

_CHART = "app.kubernetes.io/version"


def read(host: Host, seconds: float) -> dict[str, str | None] | None:
    """The versions of controller and chart, if they arrive within `seconds`; the user is never asked to sign in for it."""
    try:
        return eventloop.run(_read(host, seconds))
    except (CliError, KubeError, OSError, TimeoutError):
        return None


async def _read(host: Host, seconds: float) -> dict[str, str | None] | None:
    async with asyncio.timeout(seconds), connection.host_client(host, seconds=seconds, quiet=True) as client:
        found = (await client.list(kinds.DEPLOYMENTS, label_selector=labels.CONTROLLER)).items
    return versions(found[0]) if found else None


def versions(deployment: Obj) -> dict[str, str | None]:
    """The tag of the controller's image, and the chart's release that wrote the Deployment."""
    containers = deployment["spec"]["template"]["spec"]["containers"]
    image = next((str(item.get("image")) for item in containers if item.get("name") == "controller"), "")
    # HOST:PORT/PATH:TAG@DIGEST
    _, _, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
    return {
        "controllerVersion": tag or None,
        "chartVersion": (deployment["metadata"].get("labels") or {}).get(_CHART),
    }
