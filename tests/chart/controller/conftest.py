"""A host with the chart's roles and policies, and the controller there: with its own rights, and with all of them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from tests.chart.controller.requests import CONTROLLER, LEVEL, TIGHT, in_force, space
from tests.chart.policed import policies
from tests.kit.applying import apply_all
from tests.kit.crds import install
from tests.kit.helmchart import rendered
from tests.kit.known import all_known
from tests.kit.servers import ApiServer, by_token, running
from tests.kit.tenantsamples import tenant_class

INSTALLED = {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Secret", "ServiceAccount"}


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with running("controlled", tmp_path_factory.mktemp("controlled")) as made:
        yield made


@pytest.fixture
async def admin(server: ApiServer) -> AsyncIterator[Client]:
    async with Client(by_token(server.admin), user_agent="tests", field_manager="tests") as client:
        await install(client)
        await client.apply(kinds.TENANT_CLASSES, tenant_class() | {"metadata": {"name": "standard"}})
        names = ("bulkhead-system", "bulkhead-shared", "somebodys", "bh-somebodys")
        objects = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]
        for tenant in ("team-a", "team-b"):
            objects += [space(f"bh-{tenant}", tenant, **TIGHT), space(f"bh-{tenant}-work", tenant, **LEVEL)]
        objects += [obj for obj in rendered() if obj["kind"] in INSTALLED]
        await apply_all(client, objects + policies())
        await all_known(client)
        yield client


@pytest.fixture
async def limited(server: ApiServer, admin: Client) -> AsyncIterator[Client]:
    """The controller with its own rights."""
    async with Client(server.config_for(CONTROLLER), user_agent="tests", field_manager="bulkhead-controller") as client:
        yield client


@pytest.fixture
async def mighty(server: ApiServer, admin: Client) -> AsyncIterator[Client]:
    """The controller with every right: only policies say no."""
    async with Client(server.config_for(CONTROLLER, "system:masters"), user_agent="tests", field_manager="tests") as client:
        await in_force(client, admin)
        yield client
