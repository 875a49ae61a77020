"""A host of thousands of nodes and pods of real size, written into etcd itself: the API server validates one of each kind.

    one node, one pod, created through the API ── as etcd has them ──> copies with other names, nodes, racks and UIDs

Every name has one length, because the stored form says how long each text is.
"""

import asyncio
import base64
import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from bulkhead.api import labels, ledger, names
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.ledger import given
from bulkhead.ledger.model import Share, Tenant
from tests.kit.crds import install
from tests.kit.servers import ApiServer

GPU: Final = "nvidia.com/gpu"
_TRANSACTION_BYTES: Final = 1 << 20
_READY_SINCE: Final = "2026-01-01T00:00:00Z"
_NODES_IN_A_RACK: Final = 10


@dataclass(frozen=True, slots=True)
class Size:
    """How large the host is."""

    nodes: int = 5000
    tenants: int = 100
    # Pods that run, and pods that wait.
    running: int = 19_000
    waiting: int = 1000


async def fill(server: ApiServer, client: Client, size: Size) -> None:
    """Fill an empty host."""
    await install(client)
    for number in range(size.tenants):
        await _tenant(client, number, size)
    node, running, waiting = await _node(client), await _pod(client, "run"), await _pod(client, "wait")
    await asyncio.to_thread(_put, server, _nodes(server, node, size.nodes))
    await asyncio.to_thread(_put, server, _pods(server, running, "run", range(1, size.running), size))
    await asyncio.to_thread(_put, server, _pods(server, waiting, "wait", range(1, size.waiting), size))


def tenant_name(number: int) -> str:
    return f"team-{number:03}"


def _node_name(number: int) -> str:
    return f"gpu-node-{number:05}"


async def _tenant(client: Client, number: int, size: Size) -> None:
    name, cohort = tenant_name(number), f"cohort-{number % 10}"
    spec = {"class": "standard", "quota": {"cohort": cohort, "resources": {GPU: {"nominal": 8 * size.nodes // size.tenants}}}}
    made = await client.apply(kinds.TENANTS, {"metadata": {"name": name}, "spec": spec})
    about = {"status": "True", "reason": "Ready", "message": "", "lastTransitionTime": _READY_SINCE}
    about |= {"observedGeneration": made["metadata"]["generation"]}
    kinds_of = ("NamespacesReady", "PKIReady", "PlaneReady", "SyncerReady", "QuotaApplied", "Ready")
    status = {
        "observedGeneration": made["metadata"]["generation"],
        "conditions": [{"type": kind, **about} for kind in kinds_of],
    }
    await client.patch(kinds.TENANTS, name, {"status": status}, subresource="status")
    space = names.work_namespace(name)
    await client.create(kinds.NAMESPACES, {"metadata": {"name": space}})
    share = Tenant(name, cohort, shares={("", GPU): Share(8 * size.nodes // size.tenants, None)})
    nominal = 8 * size.nodes // size.tenants
    counts = {"nominal": nominal, "ceiling": 8 * size.nodes // 10, "borrowed": 0, "lent": 0, "borrowable": 0}
    standing = ledger.write_standing({("", GPU): counts | {"used": 2 * size.running // size.tenants}})
    noted = {ledger.GIVEN: given.write(share), ledger.STANDING: standing}
    meta = {"name": names.POD_QUOTA, "labels": {labels.TENANT: name}, "annotations": noted}
    await client.create(
        kinds.RESOURCE_QUOTAS, {"metadata": meta, "spec": {"hard": {f"requests.{GPU}": str(8 * size.nodes)}}}, space
    )


async def _node(client: Client) -> Obj:
    """A node as a cloud's GPU node is: 40 labels, 50 images, 6 conditions; about 20 KiB."""
    name = _node_name(0)
    marks = {f"feature.node.kubernetes.io/cpu-feature-number-{at}": "true" for at in range(40)}
    marks |= {"kubernetes.io/hostname": name, labels.RACK: "rack-0000", labels.NVLINK_DOMAIN: "nvl-0000"}
    notes = {f"volumes.kubernetes.io/note-{at}": "x" * 80 for at in range(10)}
    node = await client.create(kinds.NODES, {"metadata": {"name": name, "labels": marks, "annotations": notes}})
    room = {"cpu": "192", "memory": "2Ti", "pods": "250", "ephemeral-storage": "6Ti", "hugepages-2Mi": "0", GPU: "8"}
    times = {"lastTransitionTime": _READY_SINCE, "lastHeartbeatTime": _READY_SINCE}
    conditions = [
        {
            "type": kind,
            "status": status,
            "reason": f"Kubelet{kind}",
            "message": f"kubelet has something to say about {kind}",
            **times,
        }
        for kind, status in (
            ("Ready", "True"),
            ("MemoryPressure", "False"),
            ("DiskPressure", "False"),
            ("PIDPressure", "False"),
        )
    ]
    images = [
        {
            "names": [f"registry.example/team/image-{at}@sha256:{at:064}", f"registry.example/team/image-{at}:v1.{at}"],
            "sizeBytes": at,
        }
        for at in range(50)
    ]
    status = {"capacity": room, "allocatable": room, "conditions": conditions, "images": images}
    await client.patch(kinds.NODES, name, {"status": status}, subresource="status")
    await client.patch(kinds.NODES, name, {"spec": {"taints": None}})
    return node


async def _pod(client: Client, kind: str) -> Obj:
    """A pod as the syncer creates a training pod: environment, volumes, notes; about 8 KiB. It waits, or runs."""
    name, tenant = _pod_name(kind, 0), tenant_name(0)
    space = names.work_namespace(tenant)
    notes = {labels.VIRTUAL_NAMESPACE: "ml", labels.VIRTUAL_NAME: name, labels.VIRTUAL_UID: str(uuid.uuid4())}
    notes |= {f"example.com/note-{at}": "x" * 100 for at in range(8)}
    container = {
        "name": "main",
        "image": "registry.example/team/train:v1",
        "env": [{"name": f"SETTING_NUMBER_{at}", "value": "v" * 40} for at in range(30)],
        "resources": {"limits": {GPU: "2", "cpu": "16", "memory": "128Gi"}},
        "volumeMounts": [{"name": f"v{at}", "mountPath": f"/mnt/{at}"} for at in range(6)],
    }
    body: Obj = {"containers": [container], "volumes": [{"name": f"v{at}", "emptyDir": {}} for at in range(6)]}
    if kind == "wait":
        body["schedulingGates"] = [{"name": ledger.GATE}]
        notes[ledger.VERDICT] = ledger.write_verdict("CohortExhausted", "requests 2 nvidia.com/gpu; 0 can be borrowed now")
    else:
        body["nodeName"] = _node_name(0)
    meta = {"name": name, "labels": {labels.TENANT: tenant}, "annotations": notes}
    pod = await client.create(kinds.PODS, {"metadata": meta, "spec": body}, space)
    if kind == "run":
        told = [
            {"type": kind, "status": "True", "lastTransitionTime": _READY_SINCE}
            for kind in ("PodScheduled", "Ready", "Initialized")
        ]
        status = {
            "phase": "Running",
            "conditions": told,
            "startTime": _READY_SINCE,
            "podIP": "10.0.0.1",
            "podIPs": [{"ip": "10.0.0.1"}],
        }
        await client.patch(kinds.PODS, name, {"status": status}, space, subresource="status")
    return pod


def _pod_name(kind: str, number: int) -> str:
    return f"{kind}-{number:05}"


def _nodes(server: ApiServer, node: Obj, count: int) -> Iterator[tuple[str, bytes]]:
    stored = _stored(server, f"/registry/minions/{_node_name(0)}")
    for number in range(1, count):
        rack = number // _NODES_IN_A_RACK
        swaps = {_node_name(0): _node_name(number), "rack-0000": f"rack-{rack:04}", "nvl-0000": f"nvl-{number // 5:04}"}
        yield f"/registry/minions/{_node_name(number)}", _swapped(stored, node, swaps)


def _pods(server: ApiServer, pod: Obj, kind: str, numbers: Iterable[int], size: Size) -> Iterator[tuple[str, bytes]]:
    space = names.work_namespace(tenant_name(0))
    stored = _stored(server, f"/registry/pods/{space}/{_pod_name(kind, 0)}")
    for number in numbers:
        tenant = tenant_name(number % size.tenants)
        # Four pods of two GPUs fill a node; what is left of the nodes is free.
        swaps = {_pod_name(kind, 0): _pod_name(kind, number), tenant_name(0): tenant, _node_name(0): _node_name(number // 4)}
        yield f"/registry/pods/{names.work_namespace(tenant)}/{_pod_name(kind, number)}", _swapped(stored, pod, swaps)


def _swapped(stored: bytes, obj: Obj, swaps: dict[str, str]) -> bytes:
    made = stored.replace(obj["metadata"]["uid"].encode(), str(uuid.uuid4()).encode())
    for old, new in swaps.items():
        assert len(old) == len(new), (old, new)
        made = made.replace(old.encode(), new.encode())
    return made


def _put(server: ApiServer, objects: Iterable[tuple[str, bytes]]) -> None:
    puts: list[dict[str, dict[str, str]]] = []
    size = 0
    for key, value in objects:
        puts.append({"request_put": {"key": _text(key.encode()), "value": _text(value)}})
        size += len(value)
        if size > _TRANSACTION_BYTES // 2 or len(puts) >= 100:
            server.etcd_call("kv/txn", json.dumps({"success": puts}))
            puts, size = [], 0
    if puts:
        server.etcd_call("kv/txn", json.dumps({"success": puts}))


def _stored(server: ApiServer, key: str) -> bytes:
    answer = json.loads(server.etcd_call("kv/range", json.dumps({"key": _text(key.encode())})))
    (pair,) = answer["kvs"]
    return base64.b64decode(pair["value"])


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
