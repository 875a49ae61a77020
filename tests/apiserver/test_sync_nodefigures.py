"""Network and disk of a tenant's pods over two real API servers: kubelets are played, and every part up to the page is real."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from bulkhead import podfigures
from bulkhead.api.syncersettings import FIGURES_PATH, GPU_AUDIENCE
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.resources import NODES, PODS, SERVICE_ACCOUNTS
from bulkhead.work.clock import SystemClock
from gpumetrics.__main__ import _serve
from gpumetrics.callers import Callers
from gpumetrics.hostview import HostView
from gpumetrics.kubelets import Kubelets
from gpumetrics.rounds import Rounds
from gpumetrics.settings import Settings
from syncer.kubelet import exposition
from tests.kit import machine
from tests.kit.pki import Authority
from tests.kit.ports import free_port
from tests.kit.syncerbed import SyncerBed, until, virtual_uid
from tests.nodefigures.pages import disk, network, page, slice_of

pytestmark = [pytest.mark.apiserver, pytest.mark.figures]
CANARY = "canary-of-another-tenant"
TOKEN = "token-of-the-program"


class Kubelet:
    """A node's kubelet as far as it is asked for its page; `answer` may be replaced."""

    def __init__(self, address: str, authority: Authority) -> None:
        self.address, self.port = address, free_port()
        self.text = b""
        self.authorizations: list[str] = []
        self.answer: Callable[[], web.Response] = lambda: web.Response(body=self.text)
        self._pem = b"".join(authority.issue("kubelet", addresses=(address,)))

    @contextlib.asynccontextmanager
    async def serving(self, folder: Path) -> AsyncIterator["Kubelet"]:
        (folder / "kubelet.pem").write_bytes(self._pem)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(folder / "kubelet.pem")
        app = web.Application()
        app.add_routes([web.get("/metrics/cadvisor", self._take), web.get("/elsewhere", self._take)])
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, self.address, self.port, ssl_context=tls).start()
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        self.authorizations.append(request.headers.get("Authorization", ""))
        return self.answer()


class Rig:
    """A tenant with a pod, its node's kubelet, and the program between them."""

    def __init__(self, bed: SyncerBed, kubelet: Kubelet, kubelets: Kubelets, view: HostView, port: int) -> None:
        self.bed, self.kubelet, self.kubelets, self.view, self.port = bed, kubelet, kubelets, view, port

    async def turn(self) -> None:
        connector = aiohttp.TCPConnector(ssl=self.kubelets._tls(), force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session:
            await self.kubelets.turn(session)
        assert self.bed.session is not None
        self.bed.session.node_figures._by_node._asked_at = None  # the five seconds of a scrape are over

    async def page(self, node: str = "") -> str:
        assert self.bed.session is not None
        found = await self.bed.session.node_figures.of(node or self.bed.node)
        return exposition.page("cadvisor", node or self.bed.node, exposition.NO_PODS, found).decode()


@pytest.fixture
async def rig(host_client: Client, plane_client: Client, tmp_path: Path) -> AsyncIterator[Rig]:
    authority, address = Authority("cluster"), machine.address("a kubelet")
    async with (
        SyncerBed.open(host_client, plane_client) as bed,
        Kubelet(address, authority).serving(tmp_path) as kubelet,
        contextlib.AsyncExitStack() as stack,
    ):
        where = {
            "addresses": [{"type": "InternalIP", "address": address}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port}},
        }
        await host_client.patch(NODES, bed.node, {"status": where}, subresource="status")
        view, clock, settings = HostView(host_client), SystemClock(), Settings(listen_port=free_port(), kubelets=1)
        config = KubeConfig(server="https://host", ca=authority.pem, token=TOKEN)
        kubelets = Kubelets(settings, view, config, clock, lag_seconds=0.3)
        rounds = Rounds(settings, view, dict, clock)
        stack.push_async_callback((await _serve(settings, rounds, Callers(host_client, clock), kubelets)).cleanup)
        await host_client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "syncer"}}, bed.settings.plane_namespace)
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": [GPU_AUDIENCE]}}
        made = await host_client.create_subresource(SERVICE_ACCOUNTS, "syncer", "token", asked, bed.settings.plane_namespace)
        source = KubeConfig(server=f"http://127.0.0.1:{settings.listen_port}", token=str(made["status"]["token"]))
        assert bed.session is not None
        tasks = [asyncio.create_task(view.run()), asyncio.create_task(bed.session.node_figures.ask_at(source))]
        try:
            await view.synced()
            yield Rig(bed, kubelet, kubelets, view, settings.listen_port)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def shown(rig: Rig) -> str:
    """A pod whose node's kubelet has a page about it and about others; returns its host pod's UID."""
    host = await rig.bed.running("web")
    uid, name = str(host["metadata"]["uid"]), str(host["metadata"]["name"])
    other = "11111111-2222-4333-8444-555555555555"
    rig.kubelet.text = page(
        [
            network(rig.bed.work, name, slice_of(uid), 1234),
            disk(rig.bed.work, name, slice_of(uid, "c"), 4321),
            network(rig.bed.work, CANARY, slice_of(other), 666),
            network(f"bh-{CANARY}-work", name, slice_of(other), 666),
            disk(rig.bed.work, name, slice_of(uid, "c"), 1, container=CANARY),
        ]
    )

    async def seen() -> bool:
        return bool(rig.view.uids(rig.bed.node))

    await until(seen, "the program sees the pod")
    await rig.bed.caught_up()
    return uid


async def test_a_tenant_sees_network_and_disk_of_its_own_pods_in_its_own_names(rig: Rig) -> None:
    await shown(rig)
    await rig.turn()
    text = await rig.page()
    bed = rig.bed
    assert f'container_network_receive_bytes_total{{interface="eth0",namespace="{bed.space}",pod="web"}} 1234' in text
    written = f'container="main",device="/dev/sd-all",namespace="{bed.space}",pod="web"'
    assert f"container_fs_writes_bytes_total{{{written}}} 4321" in text
    for hidden in (CANARY, bed.work, "nvme", "kubepods", "666", "eno1", "limit_bytes"):
        assert hidden not in text, hidden
    assert "container_network" not in await rig.page("another-node")
    assert rig.kubelet.authorizations == [f"Bearer {TOKEN}"]


async def test_a_pod_that_was_replaced_shows_nothing_of_its_predecessor(rig: Rig) -> None:
    before = await shown(rig)
    bed = rig.bed
    host = (await bed.host_pods())[0]
    await bed.plane.delete(PODS, "web", bed.space, grace_seconds=0)
    await bed.kubelet_ends(host)

    async def gone() -> bool:
        return before not in rig.view.uids(bed.node).values()

    await until(gone, "the program sees that the first is gone")
    second = await bed.running("web")
    assert virtual_uid(second) != before

    async def there() -> bool:
        return str(second["metadata"]["uid"]) in rig.view.uids(bed.node).values()

    await until(there, "the program sees the second")
    # The kubelet's page is still about the first, which had the same name.
    await rig.turn()
    assert "container_network" not in await rig.page()


def redirect(url: str) -> Callable[[], web.Response]:
    return lambda: web.Response(status=307, headers={"Location": url})


@pytest.mark.parametrize("kind", ["redirect", "error", "too much", "compressed", "garbage"])
async def test_a_hostile_kubelet_shows_nothing(rig: Rig, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(podfigures, "MAX_PAGE_BYTES", 16 << 20)
    await shown(rig)
    good = rig.kubelet.text
    rig.kubelet.answer = {
        "redirect": redirect(f"https://{rig.kubelet.address}:{rig.kubelet.port}/elsewhere"),
        "error": lambda: web.Response(status=500, body=good),
        "too much": lambda: web.Response(body=good + b"#" * (17 << 20)),
        "compressed": lambda: web.Response(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}),
        "garbage": lambda: web.Response(body=b"\x00\xff{" * 10_000),
    }[kind]
    await rig.turn()
    assert "container_network" not in await rig.page()
    assert len(rig.kubelet.authorizations) == 1, "no redirect is followed"
    # The control: the same page counts once it is answered as it should be.
    rig.kubelet.answer = lambda: web.Response(body=good)
    await rig.turn()
    assert "container_network" in await rig.page()


async def test_the_token_goes_to_no_kubelet_whose_certificate_is_not_the_clusters(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shown(rig)
    other = KubeConfig(server="https://host", ca=Authority("other").pem, token=TOKEN)
    monkeypatch.setattr(rig.kubelets, "config", other)
    await rig.turn()
    assert rig.kubelet.authorizations == []
    assert "container_network" not in await rig.page()
    monkeypatch.setattr(rig.kubelets, "settings", Settings(kubelets=1, verify_kubelets=0))
    await rig.turn()
    assert rig.kubelet.authorizations == [f"Bearer {TOKEN}"]


async def test_only_a_syncer_reads_figures(rig: Rig) -> None:
    await shown(rig)
    await rig.turn()
    url = f"http://127.0.0.1:{rig.port}{FIGURES_PATH}"
    async with aiohttp.ClientSession() as session:
        for header in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": f"Bearer {TOKEN}"}):
            async with session.get(url, headers=header) as answer:
                assert answer.status == 401
                assert "container_" not in await answer.text()


async def test_while_the_source_is_away_the_page_has_the_rest(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await shown(rig)
    await rig.turn()
    assert rig.bed.session is not None
    monkeypatch.setattr(rig.bed.session.node_figures, "_source", None)
    assert "container_network" not in await rig.page()
