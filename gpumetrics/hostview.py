"""The host's pods and nodes as far as attribution needs them, kept by watches."""

import asyncio
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

import msgspec

from bulkhead.api import accelerators, labels, names, podresources
from bulkhead.api.podphase import has_ended, placed_on
from bulkhead.api.untrusted import mapping, mappings, text
from bulkhead.gpus.attribution import Name, Node, Pod
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.codec import decode_meta, decode_obj
from bulkhead.kube.informer import Change, Informer, Shrink
from bulkhead.kube.objects import Key, Meta
from bulkhead.work.supervise import supervise

_MIB: Final = 1 << 20
# Beyond this a copy may show a pod as there that has ended. A watch of an API server sends bookmarks once a minute.
SILENT_AFTER_SECONDS: Final = 150.0
_SHARING: Final = "nvidia.com/gpu.sharing-strategy"  # of GPU feature discovery: none, time-slicing or mps
_DOMAIN: Final = "nvidia.com/"


class HostPod(NamedTuple):
    """A tenant's pod on a node."""

    node: str
    uid: str
    devices: int | None  # the most that it may hold; None if only its claims know
    own_network: bool  # not the node's


class HostNode(NamedTuple):
    """A node, and where its kubelet is."""

    gpus: int
    shares: bool
    address: str = ""
    port: int = 0


def pod_of(pod: Mapping[str, Any]) -> HostPod | None:
    """A tenant's pod; None if it is bound to no node, or has ended."""
    meta = mapping(pod.get("metadata"))
    node = placed_on(pod)
    if not node or has_ended(pod) or not names.tenant_of_work(str(meta.get("namespace") or "")):
        return None
    # The most that it may hold: init containers and sidecars may have devices beside those of containers.
    asked = [mapping(container.get("resources")) for container in podresources.containers(pod)]
    devices = sum(
        max(accelerators.count(mapping(resources.get(part)).get(name)) for part in ("limits", "requests"))
        for resources in asked
        for name in {name for part in ("limits", "requests") for name in mapping(resources.get(part))}
        if name.startswith(_DOMAIN)
    )
    spec = mapping(pod.get("spec"))
    claims = bool(mappings(spec.get("resourceClaims")))
    return HostPod(node, str(meta.get("uid") or ""), None if claims else devices, spec.get("hostNetwork") is not True)


def node_of(node: Mapping[str, Any]) -> HostNode:
    """How many GPUs a node offers, whether it says that several pods share one, and where its kubelet is."""
    offered = mapping(mapping(node.get("status")).get("allocatable"))
    gpus = sum(accelerators.count(number) for name, number in offered.items() if name.startswith(_DOMAIN))
    noted = mapping(mapping(node.get("metadata")).get("labels"))
    status = mapping(node.get("status"))
    named = (text(entry.get("address")) for entry in mappings(status.get("addresses")) if entry.get("type") == "InternalIP")
    port = mapping(mapping(status.get("daemonEndpoints")).get("kubeletEndpoint")).get("Port")
    address = next((address for address in named if _is_address(address)), "")
    shares = noted.get(_SHARING) not in {None, "", "none"}
    return HostNode(gpus, shares, address, port if isinstance(port, int) and 0 < port < 65536 else 0)


def _is_address(value: str) -> bool:
    try:
        return not ip_address(value).is_loopback
    except ValueError:
        return False


def _keeping(keep: Callable[[Mapping[str, Any]], object]) -> Shrink:
    def shrink(raw: bytes | msgspec.Raw, meta: Meta | None) -> tuple[Meta, bytes]:
        known = meta or decode_meta(raw)
        kept = keep(decode_obj(raw))
        bare = Meta(name=known.name, namespace=known.namespace, uid=known.uid, resource_version=known.resource_version)
        return bare, b"" if kept is None else msgspec.json.encode({"kept": kept})

    return shrink


class HostView:
    """Pods of tenants by node, and nodes."""

    def __init__(self, client: Client) -> None:
        self._pods: dict[str, dict[Name, HostPod]] = {}
        self._nodes_of: dict[Key, str] = {}
        self._pod_informer = Informer(
            client,
            kinds.PODS,
            label_selector=labels.MIRRORED,
            shrink=_keeping(pod_of),
            on_change=self._pod_changed,
            max_bytes=64 * _MIB,
        )
        self._node_informer = Informer(client, kinds.NODES, shrink=_keeping(node_of), max_bytes=32 * _MIB)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in (self._pod_informer, self._node_informer):
                group.create_task(supervise(informer.resource.plural, informer.run))

    async def synced(self) -> None:
        """Wait for the first lists."""
        await self._pod_informer.synced()
        await self._node_informer.synced()

    @property
    def deaf(self) -> bool:
        """Whether the host has sent nothing for so long that pods may have ended unseen."""
        return max(self._pod_informer.silence(), self._node_informer.silence()) > SILENT_AFTER_SECONDS

    def pods(self, node: str) -> Mapping[Name, Pod]:
        """A node's pods with devices now; the answer does not change later."""
        here = self._pods.get(node, {})
        return {name: Pod(pod.uid, pod.devices) for name, pod in here.items() if pod.devices != 0}

    def occupied(self) -> list[str]:
        """The nodes that have pods of tenants now."""
        return list(self._pods)

    def uids(self, node: str) -> Mapping[Name, str]:
        """The UIDs of a node's pods that have a network of their own."""
        return {name: pod.uid for name, pod in self._pods.get(node, {}).items() if pod.own_network}

    def kubelet(self, node: str) -> str:
        """The address of a node's page of containers; empty if it is not known."""
        known = self._known(node)
        host = f"[{known.address}]" if ":" in known.address else known.address
        return f"https://{host}:{known.port}/metrics/cadvisor" if host and known.port else ""

    def node(self, name: str) -> Node:
        """A node; one that is not known shares its GPUs, as far as anything is known of it."""
        known = self._known(name)
        return Node(known.gpus, known.shares)

    def _known(self, name: str) -> HostNode:
        body = self._node_informer.store.get(Key("", name))
        return HostNode(0, shares=True) if body is None else msgspec.convert(body["kept"], HostNode)

    def _pod_changed(self, change: Change) -> None:
        name = Name(change.key.namespace, change.key.name)
        before = self._nodes_of.pop(change.key, "")
        if before:
            self._pods[before].pop(name, None)
            if not self._pods[before]:
                del self._pods[before]
        body = None if change.kind == "deleted" else self._pod_informer.store.get(change.key)
        if body is not None:
            pod = msgspec.convert(body["kept"], HostPod)
            self._nodes_of[change.key] = pod.node
            self._pods.setdefault(pod.node, {})[name] = pod
