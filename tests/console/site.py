"""A real host for the console: an API server with the ledger at work, and pods with names that attack a page."""

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from bulkhead.api import labels, names
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists
from bulkhead.metering import usagebook
from bulkhead.metering.meter import HOUR, UsageKey
from bulkhead.metering.usagebook import Page, Sums
from controller.dispatch.loop import Ledger
from tests.console.sample import HOSTILE
from tests.kit.background import background
from tests.kit.ledgerhost import GPU, LedgerHost, leads
from tests.kit.pki import Authority
from tests.kit.servers import ApiServer

# What a quota that is tried in the page would cost.
OVER = {"policy": "Reclaim", "grace": "10m"}
READY_SINCE = "2026-01-01T00:00:00Z"


@dataclass
class Site:
    """What is on the host; `host` lives in another event loop."""

    cohort: str
    borrower: str
    lender: str
    nodes: list[str]
    hostile: list[str] = field(default_factory=list)


@contextlib.asynccontextmanager
async def made_on(server: ApiServer) -> AsyncIterator[Site]:
    """Six nodes in two racks: one tenant borrows, the other lent and waits."""
    async with (
        Client(server.admin, user_agent="tests", field_manager="tests") as client,
        LedgerHost.open(client) as host,
    ):
        cohort = await host.cohort("research", reclaim={"minRuntime": "168h", "within": "1m"}, overQuota=OVER)
        nodes = [await host.node(f"gpu-{number}", 8) for number in range(6)]
        for number, node in enumerate(nodes):
            marks = {labels.RACK: f"rack-{number // 3 + 1}", labels.NVLINK_DOMAIN: f"nvl-{number // 2}"}
            await client.patch(kinds.NODES, node, {"metadata": {"labels": marks}})
        lender = await host.tenant("team-a", 24, cohort, ceiling=48)
        borrower = await host.tenant("team-b", 24, cohort, ceiling=48)
        await controller(client)
        for name in (lender, borrower):
            await tenant(client, name, cohort)
            host.tenants.append(name)
        await tenant(client, host.tenants[0], f"c{host.mark}")
        await plane(client, borrower)
        await usage(client, borrower)
        async with background(Ledger(client, leads).run()):
            for number in range(5):
                await host.run(borrower, f"train-{number}", 8)
            await host.run(lender, "eval", 3)
            await bind_all(client, host, borrower, 5)
            await bind_all(client, host, lender, 1)
            for number, name in enumerate(HOSTILE):
                await host.run(lender, f"hostile-{number}", 8)
                await client.patch(
                    kinds.PODS, f"hostile-{number}", {"metadata": {"annotations": {labels.VIRTUAL_NAME: name}}},
                    names.work_namespace(lender),
                )  # fmt: skip
            await host.told(lender, "hostile-0", "CohortExhausted")
            yield Site(cohort, borrower, lender, nodes, list(HOSTILE))


async def tenant(client: Client, name: str, cohort: str, reason: str = "Ready", message: str = "") -> None:
    """A Tenant with the status that the controller would write."""
    spec = {"class": "standard", "quota": {"cohort": cohort, "resources": {GPU: {"nominal": 24}}}}
    made = await client.apply(kinds.TENANTS, {"metadata": {"name": name}, "spec": spec})
    await report(client, name, made["metadata"]["generation"], reason, message)


async def plane(client: Client, name: str) -> None:
    """What a plane has on the host: a pod, a Secret with a certificate and its key, a warning, and a snapshot."""
    space = names.plane_namespace(name)
    await client.create(kinds.NAMESPACES, {"metadata": {"name": space}})
    container = {"name": "etcd", "image": "etcd"}
    pod = await client.create(kinds.PODS, {"metadata": {"name": "plane-0"}, "spec": {"containers": [container]}}, space)
    told = {
        "phase": "Running",
        "containerStatuses": [{"name": "etcd", "ready": True, "restartCount": 3, "image": "", "imageID": ""}],
    }
    await client.patch(kinds.PODS, "plane-0", {"status": told}, space, subresource="status")
    cert, key = Authority("plane-ca").issue("apiserver-of-the-plane")
    data = {"tls.crt": base64.b64encode(cert).decode(), "tls.key": base64.b64encode(key).decode(), "odd": "AAAA"}
    await client.create(kinds.SECRETS, {"metadata": {"name": "pki-apiserver"}, "data": data}, space)
    subject = {"kind": "Pod", "name": "plane-0", "namespace": space, "uid": pod["metadata"]["uid"]}
    event = {"metadata": {"name": "slow"}, "involvedObject": subject, "type": "Warning", "reason": "SlowDisk"}
    event |= {"message": "an <i>event</i> of the plane", "lastTimestamp": READY_SINCE, "firstTimestamp": READY_SINCE}
    await client.create(kinds.EVENTS, event, space)
    await client.apply(kinds.TENANT_SNAPSHOTS, {"metadata": {"name": f"nightly-{name}"}, "spec": {"tenant": name}})


async def usage(client: Client, name: str) -> None:
    """Three days of metering."""
    now = int(time.time() * 1000)
    hours = {
        now // HOUR - 24 * day: {
            UsageKey(name, "ml", "Job/train", GPU, ""): Sums(used=(9 - day) * 4 * HOUR, idle=day * 4 * HOUR)
        }
        for day in range(1, 4)
    }
    page = Page(1, now - HOUR, "tests", hours)
    await client.create(kinds.CONFIG_MAPS, usagebook.config_map(page, usagebook.write(page), closed=False), "bulkhead-system")


async def controller(client: Client) -> None:
    """A Deployment of the controller that is ready."""
    space, name = "bulkhead-system", "bulkhead-controller"
    marks = dict(pair.split("=") for pair in labels.CONTROLLER.split(","))
    template = {"metadata": {"labels": marks}, "spec": {"containers": [{"name": "main", "image": "bulkhead"}]}}
    body = {"metadata": {"name": name, "labels": marks}, "spec": {"selector": {"matchLabels": marks}, "template": template}}
    with contextlib.suppress(AlreadyExists):
        await client.create(kinds.NAMESPACES, {"metadata": {"name": space}})
    with contextlib.suppress(AlreadyExists):
        await client.create(kinds.DEPLOYMENTS, body, space)
    await client.patch(kinds.DEPLOYMENTS, name, {"status": {"replicas": 1, "readyReplicas": 1}}, space, subresource="status")


async def report(client: Client, name: str, generation: int, reason: str, message: str) -> None:
    """Write a tenant's conditions."""
    about = {"status": "True" if reason == "Ready" else "False", "reason": reason, "message": message}
    about |= {"lastTransitionTime": READY_SINCE, "observedGeneration": generation}
    status = {"observedGeneration": generation, "conditions": [{"type": "PlaneReady", **about}, {"type": "Ready", **about}]}
    await client.patch(kinds.TENANTS, name, {"status": status}, subresource="status")


async def bind_all(client: Client, host: LedgerHost, name: str, number: int) -> None:
    """Play the scheduler: put admitted pods on the nodes that the ledger found."""
    for pod in await host.admitted(name, number):
        meta = pod["metadata"]
        noted = json.loads(meta["annotations"]["ledger.bulkhead.dev/admitted"])
        target = {"apiVersion": "v1", "kind": "Node", "name": noted["node"]}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"]}, "target": target}
        await client.create_subresource(kinds.PODS, meta["name"], "binding", body, meta["namespace"])


def change(server: ApiServer, call: Any) -> None:
    """Change the host from a test that is not asynchronous: `call` gets a client."""

    async def changed() -> None:
        async with Client(server.admin, user_agent="tests", field_manager="tests") as client:
            await call(client)

    asyncio.run(changed())
