"""One API server for all tests of this folder that kill, freeze and restart one: it is started again before each of them."""

import asyncio
from collections.abc import Iterator

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.resources import CONFIG_MAPS
from tests.kit.servers import ApiServer, running


@pytest.fixture(scope="package")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running("mortal", tmp_path_factory.mktemp("mortal")) as server:
        yield server


@pytest.fixture
def own_server(mortal: ApiServer) -> Iterator[ApiServer]:
    """In place of one for each test; what the last one left in namespace default is gone."""
    options = mortal.options
    mortal.start()
    mortal.wait()
    asyncio.run(_empty(mortal))
    yield mortal
    if mortal.options is not options:
        mortal.kill("kube-apiserver")
        mortal.options = options


async def _empty(server: ApiServer) -> None:
    async with Client(server.admin, user_agent="tests", field_manager="tests") as client:
        for each in (await client.list(CONFIG_MAPS, "default")).items:
            await client.delete(CONFIG_MAPS, each["metadata"]["name"], "default")
