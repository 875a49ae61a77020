"""Reads a host once for the console: what `top` reads, why nodes take no pods, the controller's Deployment, certificates."""

from collections.abc import Mapping
from typing import Any

import yaml

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings, text
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.ledger import read
from bulkhead.ledger.model import Node
from workstation.cli import hostfile
from workstation.cli.arguments import Host
from workstation.cli.console.alarms import Closed, closed_of
from workstation.cli.console.certificates import read_ends
from workstation.cli.console.drawing import Observed
from workstation.cli.quotas import hostview


async def observe(client: Client, source: str) -> Observed:
    """The host now. What this user may not read besides the quotas is named in `unread`."""
    closed: dict[str, Closed] = {}

    def node_of(obj: Obj) -> Node:
        node, why = read.node_of(obj), closed_of(obj)
        if why is not None:
            closed[node.name] = why
        return node

    view = await hostview.observe(client, node_of=node_of)
    unread: list[str] = []
    controllers: tuple[Obj, ...] | None = None
    try:
        controllers = tuple((await client.list(kinds.DEPLOYMENTS, label_selector=labels.CONTROLLER)).items)
    except KubeError as error:
        unread.append(f"whether the controller runs: {error}")
    ends = await read_ends(client)
    if ends.missing:
        unread.append(f"when certificates end: {ends.missing}")
    return Observed(view, source, controllers, closed, tuple(unread), ends.tenants)


def source_of(host: Host) -> str:
    """The name of the cluster for people: the context of the kubeconfig."""
    path = hostfile.find_kubeconfig(host.kubeconfig)
    return _context(host)[0] or path.name


def namespace_of(host: Host) -> str:
    """The namespace of the context; `default` if it names none."""
    return text(mapping(_context(host)[1].get("context")).get("namespace")) or "default"


def _context(host: Host) -> tuple[str, Mapping[str, Any]]:
    """The context that is used: its name, and its entry; empty if there is none."""
    path = hostfile.find_kubeconfig(host.kubeconfig)
    try:
        data = mapping(yaml.safe_load(path.read_bytes()))
    except (OSError, yaml.YAMLError, ValueError):
        return "", {}
    name = host.context or text(data.get("current-context"))
    return name, next((item for item in mappings(data.get("contexts"), 1000) if item.get("name") == name), {})
