"""A host, a console on it, and a browser; each made once for a file."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.browser import Browser, browsing
from tests.console.site import Site, made_on
from tests.kit.beside import beside
from tests.kit.kubeconfigs import to_yaml
from tests.kit.servers import ApiServer, running, with_pod_groups

# Where pictures are left to be looked at.
PICTURES = Path(os.environ.get("BULKHEAD_PICTURES", "build/results/console"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A host of a file's own: tests stop it."""
    with running("console", tmp_path_factory.mktemp("console"), with_pod_groups("10.96.0.0/16")) as started:
        yield started


@pytest.fixture(scope="module")
def site(server: ApiServer) -> Iterator[Site]:
    with beside(lambda: made_on(server)) as made:
        yield made


@pytest.fixture(scope="module")
def kubeconfig(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kubeconfig") / "host.yaml"
    path.write_bytes(to_yaml(server.admin))
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("profile")) as opened:
        yield opened
