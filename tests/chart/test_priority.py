"""A syncer that floods the host's API does not cost the controller its lease: API Priority and Fairness, on a real API server.

The flood is one syncer's: hundreds of lists at the same time, none of which it reads, so that each keeps its seat. The API
server has a few seats in all, so that the flood takes every seat that it can get.
"""

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    FLOW_SCHEMAS,
    LEASES,
    NAMESPACES,
    resource_of,
)
from tests.kit.helmchart import rendered
from tests.kit.servers import ApiServer, ServerOptions, running
from tests.kit.syncerbed import until

pytestmark = [pytest.mark.apiserver, pytest.mark.charts]
SYSTEM, WORK = "bulkhead-system", "bh-team-a-work"
CONTROLLER = f"system:serviceaccount:{SYSTEM}:bulkhead-controller"
SYNCER = "system:serviceaccount:bh-team-a:syncer"
FLOODING = 300
# Twelve seats: five of them are those of ServiceAccounts.
OPTIONS = ServerOptions(
    fairness=True, flags=("--max-requests-inflight=8", "--max-mutating-requests-inflight=4", "--request-timeout=10m")
)
# The lease is lost if it was not renewed for 10 s (bulkhead/kube/lease.py).
RENEWAL_SECONDS = 5.0
RENEWALS = 20


def groups(user: str) -> tuple[str, ...]:
    """The groups of a ServiceAccount, as its token gives them."""
    return ("system:serviceaccounts", f"system:serviceaccounts:{user.split(':')[2]}", "system:authenticated")


def flow_control() -> list[Obj]:
    found = [obj for obj in rendered() if obj["apiVersion"].startswith("flowcontrol.")]
    return sorted(found, key=lambda obj: obj["kind"], reverse=True)  # levels first: a flow without its level is not known


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running("few-seats", tmp_path_factory.mktemp("few-seats"), OPTIONS) as started:
        yield started


@pytest.fixture
async def admin(server: ApiServer) -> AsyncIterator[Client]:
    """An admin, whose requests are exempt; both accounts may do what they do here."""
    async with Client(server.admin, user_agent="tests", field_manager="tests") as client:
        subjects = [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name} for name in (CONTROLLER, SYNCER)]
        rules = [
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]},
        ]
        head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "both"}}
        await client.apply(CLUSTER_ROLES, head | {"kind": "ClusterRole", "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "both"}
        await client.apply(CLUSTER_ROLE_BINDINGS, head | {"kind": "ClusterRoleBinding", "roleRef": role, "subjects": subjects})
        for name in (SYSTEM, WORK):
            await client.apply(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        there = {item["metadata"]["name"] for item in (await client.list_metadata(CONFIG_MAPS, WORK)).items}
        for name in {f"large-{number}" for number in range(12)} - there:
            await client.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": WORK}, "data": {"x": "x" * 900_000}})
        yield client


@pytest.fixture
async def controller(server: ApiServer, admin: Client) -> AsyncIterator[Client]:
    config = server.config_for(CONTROLLER, *groups(CONTROLLER))
    async with Client(config, user_agent="tests", field_manager="controller") as client:
        yield client


@contextlib.contextmanager
def flood(server: ApiServer, folder: Path, user: str = SYNCER) -> Iterator[None]:
    """One account lists all at once, on hundreds of connections, and reads no answer."""
    config = server.config_for(user, *groups(user))
    cert, key, authority = folder / "crt", folder / "key", folder / "ca"
    for path, content in ((cert, config.client_cert), (key, config.client_key), (authority, config.ca)):
        path.write_bytes(content if isinstance(content, bytes) else str(content).encode())
    context = ssl.create_default_context(cafile=str(authority))
    context.load_cert_chain(cert, key)
    request = f"GET /api/v1/namespaces/{WORK}/configmaps HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:
        for _ in range(FLOODING):
            plain = socket.socket()
            stack.callback(plain.close)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            plain.settimeout(60)
            plain.connect(("127.0.0.1", server.port))
            secure = stack.enter_context(context.wrap_socket(plain, server_hostname="127.0.0.1"))
            secure.sendall(request)
        yield


async def waiting(admin: Client, level: str = "workload-low") -> float:
    """How many requests wait for a seat in a level, by default that of ServiceAccounts."""
    text = (await admin.get_raw("/metrics", timeout=60)).decode()
    metric = rf'^apiserver_flowcontrol_current_inqueue_requests\{{.*priority_level="{level}"\}} (\S+)$'
    lines = re.findall(metric, text, re.MULTILINE)
    return sum(map(float, lines))


async def renewal(controller: Client) -> float:
    """The seconds that one renewal of the lease took; infinite if it was refused or got no answer in time."""
    started = asyncio.get_running_loop().time()
    meta = {"name": "bulkhead-controller", "namespace": SYSTEM, "annotations": {"at": str(started)}}
    try:
        async with asyncio.timeout(RENEWAL_SECONDS):
            await controller.apply(LEASES, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta})
    except (TimeoutError, KubeError):
        return float("inf")
    return asyncio.get_running_loop().time() - started


async def reads(controller: Client) -> None:
    """A list as a reconcile makes it."""
    async with asyncio.timeout(RENEWAL_SECONDS):
        await controller.list(CONFIG_MAPS, SYSTEM)


async def test_a_flood_of_one_syncer_does_not_cost_the_controller_its_lease(
    server: ApiServer, admin: Client, controller: Client, tmp_path: Path
) -> None:
    async def free() -> bool:
        return await renewal(controller) < RENEWAL_SECONDS

    async def full() -> bool:
        return await waiting(admin) > FLOODING // 10

    await until(free, "the API server to know the controller's rights")
    quiet = [await renewal(controller) for _ in range(RENEWALS)]
    assert max(quiet) < RENEWAL_SECONDS
    with flood(server, tmp_path):
        await until(full, "the flood to hold its seats")
        # The positive control: with what Kubernetes has by itself, the flood takes the controller's seats too.
        renewed, read = await asyncio.gather(renewal(controller), reads(controller), return_exceptions=True)
        assert renewed == float("inf")
        assert isinstance(read, TimeoutError | KubeError)

        for obj in flow_control():
            await admin.apply(resource_of(obj["apiVersion"], obj["kind"]), obj)
        await until(free, "the lease to be renewed")
        during = [await renewal(controller) for _ in range(RENEWALS)]
        assert sorted(during)[RENEWALS // 2] < 1.0, f"quiet {quiet}, during the flood {during}"
        assert max(during) < RENEWAL_SECONDS, f"quiet {quiet}, during the flood {during}"
        await reads(controller)
        # The flood is as it was.
        assert await full()


async def test_not_even_its_own_reconciles_cost_the_controller_its_lease(
    server: ApiServer, admin: Client, controller: Client, tmp_path: Path
) -> None:
    for obj in flow_control():
        await admin.apply(resource_of(obj["apiVersion"], obj["kind"]), obj)

    async def full() -> bool:
        return await waiting(admin, "bulkhead-controller") > 10

    async def free() -> bool:
        return await renewal(controller) < RENEWAL_SECONDS

    await until(free, "the API server to know the controller's rights and flows")
    with flood(server, tmp_path, CONTROLLER):
        await until(full, "the flood to hold the controller's seats")
        with pytest.raises((TimeoutError, KubeError)):
            await reads(controller)
        during = [await renewal(controller) for _ in range(RENEWALS)]
        assert max(during) < RENEWAL_SECONDS, during


async def test_an_api_server_takes_the_flows_as_they_are_rendered(admin: Client) -> None:
    for obj in flow_control():
        await admin.apply(resource_of(obj["apiVersion"], obj["kind"]), obj)

    async def known() -> bool:
        """A flow without its level is not in force; the API server says so in a condition."""
        flows = [await admin.get(FLOW_SCHEMAS, name) for name in ("bulkhead-lease", "bulkhead-controller")]
        return all(condition["status"] == "False" for flow in flows for condition in dangling(flow)) and all(
            map(dangling, flows)
        )

    await until(known, "the flows to be in force")


def dangling(flow: Any) -> list[Obj]:
    conditions = flow.get("status", {}).get("conditions", [])
    return [condition for condition in conditions if condition["type"] == "Dangling"]


def test_the_flows_are_the_platforms_alone_and_may_be_off() -> None:
    accounts = {
        (subject["serviceAccount"]["namespace"], subject["serviceAccount"]["name"])
        for obj in rendered("--set", "exposure.domains={a.example.org}")
        if obj["kind"] == "FlowSchema"
        for rule in obj["spec"]["rules"]
        for subject in rule["subjects"]
    }
    assert accounts == {(SYSTEM, "bulkhead-controller"), (SYSTEM, "bulkhead-proxy")}
    assert not [obj for obj in rendered("--set", "apiPriority.enabled=false") if obj["apiVersion"].startswith("flowcontrol.")]
    # They go with the release: without the controller they would reserve seats for nothing.
    assert not [obj for obj in flow_control() if "helm.sh/resource-policy" in obj["metadata"].get("annotations", {})]
    with pytest.raises(AssertionError, match="schema"):
        rendered("--set", "apiPriority.shares.lease=0")
