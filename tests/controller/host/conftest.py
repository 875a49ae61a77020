"""A host for the files of this folder that need one without tenants, whose notifications would depend on all of theirs."""

from collections.abc import Iterator

import pytest

from tests.kit.servers import ApiServer, running


@pytest.fixture(scope="package")
def quiet_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server in which no test leaves a tenant's object."""
    with running("quiet", tmp_path_factory.mktemp("quiet")) as made:
        yield made
