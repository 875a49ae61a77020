"""The last scan of a chaos run finds what should not be on the host: the policies judge each object again as its syncer's."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from e2e.api import Api
from e2e.chaos import scan
from tests.chart.admission_objects import MARKS, mirrored, pod
from tests.chart.policed import named, of
from tests.kit.applying import apply_all
from tests.kit.kubeconfigs import to_yaml
from tests.kit.servers import ApiServer
from tests.kit.syncerbed import until

pytestmark = pytest.mark.charts

RIGHTS = {
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "Group", "name": "system:serviceaccounts:bh-team-a", "apiGroup": "rbac.authorization.k8s.io"}],
}


@pytest.fixture
async def host(policed: ApiServer, admin: Client, tmp_path: Path) -> Api:
    """The host as its admin, with rights for the syncer, so that only the policies can refuse it something."""
    await apply_all(admin, [of(kinds.CLUSTER_ROLE_BINDINGS, "test-syncer", **RIGHTS)])
    path = tmp_path / "kubeconfig"
    path.write_bytes(to_yaml(policed.admin))
    return Api(path)


async def judged(host: Api, made: dict[str, Any], admin: Client) -> str | None:
    """What the host says to an object that is there already; it is made by the admin, who is held to no policy."""
    obj = named(made)
    kind = next(kind for kind in (kinds.PODS, kinds.CONFIG_MAPS) if kind.kind == obj["kind"])
    there = await admin.create(kind, obj)
    as_syncer = host.impersonating("system:serviceaccount:bh-team-a:syncer")
    try:
        return await asyncio.to_thread(scan.judge, as_syncer, obj["kind"], {**there, "kind": obj["kind"]})
    finally:
        await admin.delete(kind, obj["metadata"]["name"], obj["metadata"]["namespace"], grace_seconds=0)


async def test_what_a_syncer_may_create_passes(host: Api, admin: Client) -> None:
    async def may() -> bool:
        return await judged(host, pod(), admin) == ""

    await until(may, "the syncer to have its rights")
    assert await judged(host, mirrored("ConfigMap", data={"x": "y"}), admin) == ""


async def test_a_pod_that_the_host_has_placed_passes(host: Api, admin: Client) -> None:
    labels = {"topology.kubernetes.io/zone": "zone-a", "topology.kubernetes.io/region": "local"}
    await apply_all(admin, [of(kinds.NODES, "placed", metadata={"name": "placed", "labels": labels})])
    obj = named(pod())
    name, space = obj["metadata"]["name"], obj["metadata"]["namespace"]
    await admin.create(kinds.PODS, obj)
    target = {"apiVersion": "v1", "kind": "Node", "name": "placed"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    await asyncio.to_thread(host.request, "POST", f"/api/v1/namespaces/{space}/pods/{name}/binding", body=binding)
    placed = await asyncio.to_thread(host.get, "Pod", name, space)
    assert placed["spec"]["nodeName"] == "placed"
    assert placed["metadata"]["labels"].items() >= labels.items()
    as_syncer = host.impersonating("system:serviceaccount:bh-team-a:syncer")
    assert await asyncio.to_thread(scan.judge, as_syncer, "Pod", placed) == ""
    await admin.delete(kinds.PODS, name, space, grace_seconds=0)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (pod(priorityClassName="of-the-host"), "priority"),
        (pod(runtimeClassName="of-the-host"), "runtime"),
        (pod(labels=MARKS | {"istio-injection": "enabled"}), "label that means something to others"),
        (pod({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}), "seccomp"),
    ],
    ids=["priority", "runtime class", "label", "seccomp"],
)
async def test_what_is_against_the_policies_is_found(host: Api, admin: Client, made: dict[str, Any], text: str) -> None:
    async def refused() -> bool:
        return text in (await judged(host, made, admin) or "")

    await until(refused, f"the host to refuse it: {text}")


async def test_nothing_is_left_by_the_scan(host: Api, admin: Client) -> None:
    before = {item["metadata"]["name"] for item in await asyncio.to_thread(host.list, "Pod", "bh-team-a-work")}
    await judged(host, pod(), admin)
    after = {item["metadata"]["name"] for item in await asyncio.to_thread(host.list, "Pod", "bh-team-a-work")}
    assert after <= before
