"""The client of the benchmark of planes that survive, on a real API server that goes and comes back; how a store is filled."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.api import Api
from e2e.performance.durable_client import working
from e2e.performance.durable_figures import noticed
from e2e.performance.durable_sizes import config_map, fill
from tests.kit.kubeconfigs import to_yaml
from tests.kit.servers import ApiServer, running

pytestmark = [pytest.mark.apiserver, pytest.mark.planes]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A server of this file's own, because it is killed."""
    with running("durable", tmp_path_factory.mktemp("durable")) as made:
        yield made


@pytest.fixture(scope="module")
def kubeconfig(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kubeconfig") / "admin.yaml"
    path.write_bytes(to_yaml(server.admin))
    return path


def test_a_client_notices_a_server_that_is_away_for_longer_than_a_retry_waits(server: ApiServer, kubeconfig: Path) -> None:
    api = Api(kubeconfig, timeout=60)
    api.create(config_map("mark", "here"))
    with working(kubeconfig, "mark") as client:
        begin = time.monotonic()
        time.sleep(1.5)
        well = noticed(client.since(begin))
        server.kill()
        away = time.monotonic()
        time.sleep(2.5)
        server.start_apiserver()
        server.wait()
        back = time.monotonic()
        found = noticed(client.since(away))
        time.sleep(1.5)
        again = noticed(client.since(back + 0.5))
    # The control: a server that is there is not noticed, before and after.
    assert (well["failed"], again["failed"]) == (0, 0)
    assert well["requests"] >= 5
    assert again["requests"] >= 5
    # Two seconds and more without a server are noticed by a client that tries again after one; its last requests are not.
    assert found["failed"] > found["failed_retry"] >= 1
    assert found["failed"] >= found["failed_at_once"] >= found["failed_retry"]
    assert 2.0 <= found["longest_s"] <= back - away + 6


def test_a_store_is_filled_with_as_many_large_objects_as_asked_for_and_filling_goes_on(
    server: ApiServer, kubeconfig: Path
) -> None:
    api = Api(kubeconfig, timeout=60)
    fill(api, 0, 3)
    fill(api, 1, 3)  # two are there already
    sizes = [
        len(obj["data"]["text"]) for obj in api.list("ConfigMap", "default") if obj["metadata"]["name"].startswith("large-")
    ]
    assert sizes == [960_000] * 4
    assert server.pid("kube-apiserver")
