"""What several files of this folder need; the API servers' own fixtures live in tests/conftest.py."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists
from bulkhead.kube.resources import VOLUME_SNAPSHOT_CLASSES
from tests.apiserver.bed import Bed
from tests.apiserver.snapshotting import KIND, serve_snapshots, snapshot_class


@pytest.fixture
async def bed(host_client: Client, plane_client: Client) -> AsyncIterator[Bed]:
    """One tenant with its session; a file whose tenant is offered more has a fixture of its own."""
    async with Bed.open(host_client, plane_client) as opened:
        yield opened


@pytest.fixture
async def snapshot_sides(host_client: Client, plane_client: Client) -> tuple[Client, Client]:
    """Host and plane with the snapshot API, the host with two classes."""
    await serve_snapshots(host_client, plane_client)
    for name in ("daily", "of-the-host"):
        body = snapshot_class(name, parameters={"secret": "of-the-host"})
        body |= {"apiVersion": KIND["apiVersion"], "kind": "VolumeSnapshotClass"}
        with contextlib.suppress(AlreadyExists):
            await host_client.create(VOLUME_SNAPSHOT_CLASSES, body)
    return host_client, plane_client
