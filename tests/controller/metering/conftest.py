"""The host whose pods the tests of this folder meter, and series that begin empty."""

from collections.abc import AsyncIterator

import pytest

from bulkhead.api import labels
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from controller.metering import metrics
from tests.controller.metering.bed import MeteredHost


@pytest.fixture
async def host(host_client: Client) -> AsyncIterator[MeteredHost]:
    made = MeteredHost(host_client)
    for name in (made.work, made.system):
        await host_client.create(kinds.NAMESPACES, {"metadata": {"name": name}})
    yield made
    for pod in (await host_client.list(kinds.PODS, made.work)).items:
        await made.delete(pod["metadata"]["name"])
    for config_map in (await host_client.list(kinds.CONFIG_MAPS, made.system, label_selector=labels.USAGE)).items:
        await host_client.delete(kinds.CONFIG_MAPS, config_map["metadata"]["name"], made.system)


@pytest.fixture(autouse=True)
def quiet() -> None:
    """Forget the series of earlier tests: one process counts for one installation."""
    metrics._series.clear()
