"""Fixtures: the host with Bulkhead's kinds and the class that most tenants here have."""

import pytest

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from tests.kit.crds import install
from tests.kit.tenantsamples import tenant_class


@pytest.fixture
async def client(host_client: Client) -> Client:
    """The host's admin; a file whose host differs has a fixture of its own by this name."""
    await install(host_client)
    await host_client.apply(kinds.TENANT_CLASSES, tenant_class() | {"metadata": {"name": "standard"}})
    return host_client
