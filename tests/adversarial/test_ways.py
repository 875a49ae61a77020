"""The ways by which a tenant's admin tries to have their API server connect anywhere: each connects where nothing stops it.

On a host, e2e/scenarios/core/test_canaries.py shows that none reaches a place of the host. Without this here, a way that a
newer Kubernetes closes, or that is written wrongly, would look like one that is refused.
"""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e import ways
from e2e.api import Api
from tests.kit import machine
from tests.kit.kubeconfigs import to_yaml
from tests.kit.ports import free_port
from tests.kit.servers import ServerOptions, running

pytestmark = pytest.mark.apiserver
FLAGS = ("--kubelet-preferred-address-types=InternalIP",)
# No kube-proxy leads from a Service to its endpoint: an API server with this flag asks the endpoint itself.
ROUTES = (*FLAGS, "--enable-aggregator-routing=true")
BY_SERVICE = "an extension server"


def served(folder: Path, flags: tuple[str, ...]) -> Iterator[Api]:
    with running("plane-ways", folder / "server", ServerOptions(flags=flags)) as server:
        config = folder / "kubeconfig"
        config.write_bytes(to_yaml(server.admin))
        yield Api(config)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    yield from served(tmp_path_factory.mktemp("ways"), FLAGS)


@pytest.fixture(scope="module")
def routing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    yield from served(tmp_path_factory.mktemp("routing"), ROUTES)


@pytest.fixture(scope="module")
def address() -> str:
    """An address of this machine that is not loopback, which no endpoint may have."""
    return machine.address("a way out of a plane")


@pytest.mark.parametrize("way", ways.WAYS)
def test_each_way_connects_where_nothing_stops_it(way: str, plain: Api, routing: Api, address: str) -> None:
    api = routing if way == BY_SERVICE else plain
    port, heard = free_port(), threading.Event()
    with socket.create_server((address, port)) as server:
        server.settimeout(60)

        def listen() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                heard.set()
                connection.close()

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        ways.WAYS[way](api, f"way-{list(ways.WAYS).index(way)}", address, port)
        assert heard.wait(10), f"{way}: nothing came"
        server.shutdown(socket.SHUT_RDWR)
    thread.join()
