"""Metrics of virtual nodes through a plane's real API server: its proxy names the node, and a real Prometheus scrapes them.

The syncer's kubelet listens with TLS on an address of this machine, because API servers proxy to no loopback address.
"""

import asyncio
import contextlib
import json
import ssl
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bulkhead.api import labels as marks
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, ApiError, KubeError, NotServed
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, POD_METRICS
from tests.apiserver.test_sync_metrics import PLAYED, measure
from tests.kit import machine
from tests.kit.background import background
from tests.kit.pki import Authority
from tests.kit.ports import free_port
from tests.kit.promtool import promtool
from tests.kit.syncerbed import SyncerBed, until

CANARY = "canary-of-another-tenant"


@pytest.fixture
async def bed(host_client: Client, plane_client: Client, tmp_path: Path) -> AsyncIterator[SyncerBed]:
    """A tenant whose kubelet listens at an address of this machine, which its nodes have."""
    address = machine.address("a kubelet")
    cert, key = Authority("kubelet").issue("shim", addresses=(address,))
    (tmp_path / "shim.pem").write_bytes(cert + key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "shim.pem")
    port = free_port()
    async with SyncerBed.open(host_client, plane_client, shimAddress=address, shimPort=port) as opened:
        assert opened.session is not None
        async with background(opened.session.kubelet.serve(address, port, tls)):
            yield opened


@pytest.fixture
async def measured(bed: SyncerBed) -> AsyncIterator[None]:
    """The host's metrics API, played, with figures of one own pod and of one that is not the tenant's."""
    with contextlib.suppress(AlreadyExists):
        await bed.host.create(CUSTOM_RESOURCE_DEFINITIONS, PLAYED)

    async def served() -> bool:
        with contextlib.suppress(KubeError):
            return (await bed.host.list(POD_METRICS, bed.work)).items == []
        return False

    await until(served, "the played API to be served")
    marked = {marks.SYNCED: marks.SYNCED_BY_SYNCER}
    await measure(bed, (await bed.running("web"))["metadata"]["name"], **marked)
    await measure(bed, CANARY, **marked)
    await bed.caught_up()
    yield
    await bed.host.delete(CUSTOM_RESOURCE_DEFINITIONS, "pods.metrics.k8s.io")


@pytest.mark.usefixtures("measured")
async def test_item_100_through_the_planes_own_api_server(bed: SyncerBed, plane_config: KubeConfig, tmp_path: Path) -> None:
    other = f"node-b-{bed.tenant}"
    await bed.make_node(other)

    async def page(node: str, about: str) -> str:
        return (await bed.plane.get_raw(f"/api/v1/nodes/{node}/proxy/metrics{about}")).decode()

    async def shown() -> str:
        with contextlib.suppress(ApiError):
            return await page(bed.node, "/cadvisor") and await page(other, "/cadvisor") and await page(bed.node, "/cadvisor")
        return ""

    text = await until(shown, "the pages of both nodes")
    assert f'namespace="{bed.space}",pod="web"' in text
    assert CANARY not in text
    assert bed.work not in text
    # The same address, another node: none of its pods.
    assert "pod=" not in await page(other, "/cadvisor")
    assert "pod_memory_working_set_bytes" in await page(bed.node, "/resource")
    assert "no series" in await page(bed.node, "/probes")
    assert f'kubelet_node_name{{node="{bed.node}"}} 1' in await page(bed.node, "")
    with pytest.raises(ApiError) as missing:
        await page(bed.node, "/slis")
    assert missing.value.status == 404
    # The platform measures no GPUs here, and a user's tools say so.
    with pytest.raises(NotServed, match="the platform does not measure them"):
        await page(bed.node, "/gpus")

    program = promtool().with_name("prometheus")
    if not program.is_file():
        pytest.skip("promtool is installed here without its Prometheus")
    await _scraped(bed, program, plane_config, tmp_path)


async def _scraped(bed: SyncerBed, program: Path, plane: KubeConfig, folder: Path) -> None:
    """Let a real Prometheus scrape the node through the API server, and ask it."""
    for name, data in (("ca", plane.ca), ("cert", plane.client_cert), ("key", plane.client_key)):
        assert data is not None
        (folder / f"{name}.pem").write_bytes(data)
    server, port = urllib.parse.urlsplit(plane.server), free_port()
    job = {
        "job_name": "kubelet",
        "scheme": "https",
        "metrics_path": f"/api/v1/nodes/{bed.node}/proxy/metrics/cadvisor",
        "static_configs": [{"targets": [server.netloc]}],
        "tls_config": {f"{name}_file": str(folder / f"{name}.pem") for name in ("ca", "cert", "key")},
    }
    (folder / "prometheus.yml").write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}))
    running = await asyncio.create_subprocess_exec(
        program,
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        stderr=asyncio.subprocess.DEVNULL,
    )

    def asked() -> str:
        query = urllib.parse.quote('container_memory_working_set_bytes{pod="web"}')
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={query}") as answer,
        ):
            return str(answer.read())
        return ""

    async def found() -> bool:
        return f'"namespace":"{bed.space}"' in await asyncio.to_thread(asked)

    try:
        await until(found, "Prometheus to have the pod's memory")
    finally:
        running.terminate()
        await running.wait()
