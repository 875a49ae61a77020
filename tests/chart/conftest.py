"""An API server with the chart's policies, for the tests of this folder, and clients of it; another for a few policies."""

from typing import Any

import pytest

from bulkhead.kube.client import Client
from tests.chart.policed import OPTIONS, SYNCER, prepare
from tests.kit.servers import ApiServer, by_token, running


@pytest.fixture(scope="package")
def policed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An API server with the chart's policies and the namespaces of two tenants; the syncer may do anything but for them."""
    with running("policed", tmp_path_factory.mktemp("policed"), OPTIONS) as server:
        yield server


@pytest.fixture(scope="package")
def guarded_server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An API server in which each file puts the few policies that it is about; the policies of one file let another's pass."""
    with running("guarded", tmp_path_factory.mktemp("guarded")) as server:
        yield server


@pytest.fixture
async def admin(policed: ApiServer) -> Any:
    async with Client(by_token(policed.admin), user_agent="tests", field_manager="tests") as client:
        await prepare(client)
        yield client


@pytest.fixture
async def syncer(policed: ApiServer, admin: Client) -> Any:
    # Group system:masters gives it every right, so that only the policies can say no.
    async with Client(policed.config_for(SYNCER, "system:masters"), user_agent="tests", field_manager="syncer") as client:
        yield client
