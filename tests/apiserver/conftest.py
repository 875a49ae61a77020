"""What several files of this folder need; the API servers' own fixtures live in tests/conftest.py."""

import pytest

from bulkhead.kube.client import Client
from tests.apiserver.snapshotting import with_classes


@pytest.fixture
async def snapshot_sides(host_client: Client, plane_client: Client) -> tuple[Client, Client]:
    """Host and plane with the snapshot API, the host with two classes."""
    return await with_classes(host_client, plane_client)
