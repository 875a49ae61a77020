"""Fixtures: an API server that plays the host, with Bulkhead's CRDs and a class that offers load balancers and Gateways."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from tests.kit.crds import install
from tests.kit.servers import ApiServer, running
from tests.kit.tenantsamples import tenant_class

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make test` leaves them out: the first of them may have to build Contour or MetalLB."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.ways)
            item.add_marker(pytest.mark.timeout(600, func_only=True))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """The host."""
    with running("host", tmp_path_factory.mktemp("ways")) as made:
        yield made


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    """Its admin; the class lets tenants choose."""
    async with Client(server.admin, user_agent="tests", field_manager="tests") as made:
        await install(made)
        offer = tenant_class(exposure={"allowedTypes": ["LoadBalancer", "Gateway"]})
        await made.apply(kinds.TENANT_CLASSES, offer | {"metadata": {"name": "standard"}})
        yield made
