"""Fixtures: the command as a process of its own, on a real API server; the tests play the controller by writing status."""

import contextlib
import secrets
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
from tests.kit.background import background
from tests.kit.commandline import Cli, Controller, Outcome, finish, start
from tests.kit.crds import install
from tests.kit.kubeconfigs import to_yaml
from tests.kit.servers import Pair
from tests.kit.storedsnapshot import backups

__all__ = ["backups"]

_BOUNDS = {"quota": {"resources": {"nvidia.com/gpu": {"maxNominal": 1000}, "memory": {"maxNominal": "1Ti"}}}}
_CLASS = {"apiVersion": names.API_VERSION, "kind": "TenantClass"}


@pytest.fixture
def host_file(host_config: KubeConfig, tmp_path: Path) -> Path:
    path = tmp_path / "host.kubeconfig"
    path.write_bytes(to_yaml(host_config))
    return path


@pytest.fixture
async def cli(host_client: Client, host_file: Path) -> AsyncIterator[Cli]:
    """Run the command against the host and return what it printed. The host has one class, `standard`."""
    await install(host_client)
    made = False
    with contextlib.suppress(AlreadyExists):
        await host_client.create(kinds.TENANT_CLASSES, _CLASS | {"metadata": {"name": "standard"}, "spec": _BOUNDS})
        made = True

    async def run(*arguments: str, **environment: str) -> Outcome:
        return await finish(await start(*arguments, environment={"KUBECONFIG": str(host_file)} | environment))

    yield run
    # Reconciles of Tenants share the server, and have another class of that name.
    if made:
        await host_client.delete(kinds.TENANT_CLASSES, "standard")


@pytest.fixture
async def bounded(cli: Cli, host_client: Client) -> AsyncIterator[str]:
    """The name of a class with 1000 GPUs and 1Ti of memory at the most: other tests may have made `standard` another."""
    assert cli is not None  # the definitions are installed
    name = f"bounded-{secrets.token_hex(4)}"
    await host_client.create(kinds.TENANT_CLASSES, _CLASS | {"metadata": {"name": name}, "spec": _BOUNDS})
    yield name
    await host_client.delete(kinds.TENANT_CLASSES, name)


@pytest.fixture
async def controller(apiservers: Pair, host_client: Client, plane_client: Client) -> AsyncIterator[Controller]:
    binding = {
        "metadata": {"name": "bulkhead:tenant-admins"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": names.ADMIN_GROUP}],
    }
    await plane_client.apply(kinds.CLUSTER_ROLE_BINDINGS, binding)
    async with background(Logins(host_client, SystemClock()).run()):
        yield Controller(host_client, apiservers.plane.authority)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Credentials of a test are that test's alone."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.fixture
def name() -> str:
    return f"t-{secrets.token_hex(4)}"
