"""The host whose pods the tests of this folder meter, and series that begin empty."""

from collections.abc import AsyncIterator

import pytest

from bulkhead.kube.client import Client
from controller.metering import metrics
from tests.controller.metering.bed import MeteredHost


@pytest.fixture
async def host(host_client: Client) -> AsyncIterator[MeteredHost]:
    made = MeteredHost(host_client)
    await made.begin()
    yield made
    await made.clear()


@pytest.fixture(autouse=True)
def quiet() -> None:
    """Forget the series of earlier tests: one process counts for one installation."""
    metrics._series.clear()
