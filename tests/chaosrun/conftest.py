"""Fixtures: a bed with one tenant of other people, and the command."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bulkhead.api import names
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.work.clock import SystemClock
from controller.host.logins import Logins
from tests.chaosrun.bed import SYSTEM, TARGET, Bed, finish, labelled
from tests.kit import yamlfiles
from tests.kit.background import background
from tests.kit.commandline import Cli, Outcome, start
from tests.kit.commandline import finish as finished
from tests.kit.crds import install
from tests.kit.kubeconfigs import to_yaml
from tests.kit.servers import Pair

CLASS = Path(__file__).resolve().parents[2] / "examples" / "tenantclass.yaml"


@pytest.fixture
def host_file(host_config: KubeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "host.kubeconfig"
    path.write_bytes(to_yaml(host_config))
    return path


@pytest.fixture
async def bed(apiservers: Pair, host_client: Client, plane_client: Client) -> AsyncIterator[Bed]:
    await install(host_client)
    await host_client.apply(kinds.TENANT_CLASSES, yamlfiles.load(CLASS))
    with contextlib.suppress(AlreadyExists):
        await host_client.create(kinds.NAMESPACES, {"metadata": {"name": SYSTEM}})
    binding = {
        "metadata": {"name": "bulkhead:tenant-admins"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": names.ADMIN_GROUP}],
    }
    for client in (host_client, plane_client):
        await client.apply(kinds.CLUSTER_ROLE_BINDINGS, binding)
    made = Bed(host_client, plane_client, apiservers)
    spec = {"class": "standard"}
    tenant = {"apiVersion": names.API_VERSION, "kind": "Tenant", "metadata": {"name": TARGET}, "spec": spec}
    await host_client.create(kinds.TENANTS, tenant)
    async with background(Logins(host_client, SystemClock()).run()), background(made.run()):
        await made.settle()
        yield made
    await _emptied(host_client, plane_client)


async def _emptied(host: Client, plane: Client) -> None:
    for item in (await host.list(kinds.TENANTS)).items:
        if item["metadata"]["name"] == TARGET or item["metadata"]["name"].startswith("chaos-"):
            await host.delete(kinds.TENANTS, item["metadata"]["name"])
    for name in [item["metadata"]["name"] for item in (await host.list(kinds.NAMESPACES)).items]:
        if name.startswith((f"bh-{TARGET}", "bh-chaos-", "bulkhead-chaos-")):
            await host.delete(kinds.NAMESPACES, name)
            for r in (kinds.SECRETS, kinds.PODS):
                for item in (await host.list_metadata(r, name)).items:
                    await host.delete(r, item["metadata"]["name"], name, grace_seconds=0)
            await finish(host, await host.get(kinds.NAMESPACES, name))
    for r in (kinds.VALIDATING_WEBHOOKS, kinds.CUSTOM_RESOURCE_DEFINITIONS, kinds.NAMESPACES):
        for item in await labelled(plane, r):
            await plane.delete(r, item["metadata"]["name"])
            if r is kinds.NAMESPACES:
                await finish(plane, await plane.get(r, item["metadata"]["name"]))


@pytest.fixture
async def chaos(bed: Bed, host_file: Path) -> Cli:
    """Run `bulkhead chaos` against the bed."""

    async def run(*words: str, **environment: str) -> Outcome:
        return await finished(await start("chaos", *words, environment={"KUBECONFIG": str(host_file)} | environment))

    return run
