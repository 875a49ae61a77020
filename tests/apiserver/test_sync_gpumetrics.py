"""A tenant's GPU metrics over two real API servers: exporters are played, and every part between them and a scrape is real."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from bulkhead.api.syncersettings import GPU_AUDIENCE
from bulkhead.gpus.exposition import Sample, parse, render
from bulkhead.gpus.fields import ABOUT, ENERGY, FIELDS, POWER, UTILISATION
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, ApiError
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, PODS, SERVICE_ACCOUNTS
from bulkhead.work.clock import SystemClock
from gpumetrics import rounds
from gpumetrics.__main__ import _serve
from gpumetrics.callers import Callers
from gpumetrics.exporters import Exporter
from gpumetrics.hostview import HostView
from gpumetrics.rounds import Rounds
from gpumetrics.settings import Settings
from tests.kit.ports import free_port
from tests.kit.servers import ApiServer
from tests.kit.syncerbed import SyncerBed, until

pytestmark = pytest.mark.figures

CANARY = 87_123.0  # what the other tenant's device does


@dataclass
class Played:
    """The exporter of one node: a page that a test sets."""

    node: str
    port: int = field(default_factory=free_port)
    text: bytes = b""
    asked: int = 0
    pause: float = 0.0

    async def answer(self, _: web.Request) -> web.Response:
        self.asked += 1
        await asyncio.sleep(self.pause)
        return web.Response(body=self.text)

    def show(self, *samples: Sample) -> None:
        self.text = render(samples, ABOUT)


def line(name: str, value: float, gpu: str, *pod_of: str, container: str = "main") -> Sample:
    """A line of an exporter; `pod_of` is a host pod's namespace and name, or nothing."""
    labels = {"gpu": "0", "UUID": gpu, "modelName": "NVIDIA H100", "Hostname": "what-the-exporter-says"}
    owner = {"namespace": pod_of[0], "pod": pod_of[1], "container": container} if pod_of else {}
    return Sample(name, labels | owner, value)


class Rig:
    """Two tenants, each with a node, an exporter, and its syncer's server of GPU metrics."""

    def __init__(self, red: SyncerBed, blue: SyncerBed, folder: Path) -> None:
        self.red, self.blue = red, blue
        self.exporters = {bed.tenant: Played(bed.node) for bed in (red, blue)}
        self.settings = Settings(listen_port=free_port(), settle_seconds=0)
        self.ports = {bed.tenant: free_port() for bed in (red, blue)}
        self.folder = folder
        self.rounds: Rounds

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Rig"]:
        clock, host = SystemClock(), self.red.host
        view = HostView(host)
        found = {played.node: Exporter(played.node, "127.0.0.1", played.port) for played in self.exporters.values()}
        self.rounds = Rounds(self.settings, view, lambda: found, clock, lag_seconds=0.3)
        async with contextlib.AsyncExitStack() as stack:
            for played in self.exporters.values():
                app = web.Application()
                app.add_routes([web.get("/metrics", played.answer)])
                runner = web.AppRunner(app)
                await runner.setup()
                stack.push_async_callback(runner.cleanup)
                await web.TCPSite(runner, "127.0.0.1", played.port).start()
            stack.push_async_callback((await _serve(self.settings, self.rounds, Callers(host, clock))).cleanup)
            tasks = [asyncio.create_task(view.run())]
            for bed in (self.red, self.blue):
                token = self.folder / bed.tenant
                token.write_text(await self.token(host, "syncer", bed.settings.plane_namespace, GPU_AUDIENCE))
                source = KubeConfig(server=f"http://127.0.0.1:{self.settings.listen_port}", token_file=token)
                assert bed.session is not None
                serve = bed.session.gpu_metrics.serve("127.0.0.1", self.ports[bed.tenant], None, source)
                tasks.append(asyncio.create_task(serve))
            try:
                await view.synced()
                yield self
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def token(self, client: Client, account: str, namespace: str, *audiences: str) -> str:
        with contextlib.suppress(AlreadyExists):
            await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": account}}, namespace)
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": list(audiences)}}
        made = await client.create_subresource(SERVICE_ACCOUNTS, account, "token", asked, namespace)
        return str(made["status"]["token"])

    async def turn(self) -> None:
        async with aiohttp.ClientSession() as session:
            await self.rounds.turn(session)
        for bed in (self.red, self.blue):
            assert bed.session is not None
            bed.session.gpu_metrics._samples._asked_at = None  # the five seconds of a scrape are over

    async def scrape(self, bed: SyncerBed, token: str = "") -> tuple[int, str]:
        return await get(f"http://127.0.0.1:{self.ports[bed.tenant]}/metrics", token)


async def get(url: str, token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status, await answer.text()


@pytest.fixture
async def rig(host_client: Client, plane_client: Client, file_server: ApiServer, tmp_path: Path) -> AsyncIterator[Rig]:
    async with (
        Client(file_server.admin, user_agent="tests", field_manager="tests") as another_plane,
        SyncerBed.open(host_client, plane_client) as red,
        SyncerBed.open(host_client, another_plane) as blue,
        Rig(red, blue, tmp_path).running() as made,
    ):
        yield made


async def scraper(bed: SyncerBed, rig: Rig) -> str:
    """A token of the plane whose user may read metrics, as Prometheus' chart gives it."""
    name = f"prometheus-{bed.tenant}"
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    await bed.plane.create(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": bed.space}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    await bed.plane.create(CLUSTER_ROLE_BINDINGS, {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
    token = await rig.token(bed.plane, name, bed.space)

    async def counts() -> bool:
        assert bed.session is not None
        bed.session.gpu_metrics._known.clear()
        return (await rig.scrape(bed, token))[0] == 200

    await rig.turn()
    await until(counts, "the new right counts")
    return token


async def running(bed: SyncerBed, name: str) -> str:
    """A running pod with a GPU; returns its name on the host."""
    await bed.create(bed.gpu_pod(name))
    host = await bed.mirrored(name)
    await bed.bind(host)
    await bed.run(host)
    await bed.caught_up()
    return str(host["metadata"]["name"])


async def seen(rig: Rig, bed: SyncerBed, host_name: str, there: bool = True) -> None:
    async def known() -> bool:
        return any(name.name == host_name for name in rig.rounds.view.pods(bed.node)) is there

    await until(known, f"{host_name} is {'' if there else 'not '}known")


async def test_a_tenant_sees_its_own_devices_by_its_own_names_and_nothing_of_another(rig: Rig) -> None:
    red, blue = rig.red, rig.blue
    mine, theirs = await running(red, "train"), await running(blue, "serve")
    await seen(rig, red, mine)
    await seen(rig, blue, theirs)
    for bed, pod, value in ((red, mine, 55.0), (blue, theirs, CANARY)):
        node = rig.exporters[bed.tenant]
        node.show(
            *(line(UTILISATION, 0, f"{bed.tenant}-{number}") for number in range(1, 8)),
            line(UTILISATION, value, f"{bed.tenant}-0", bed.work, pod),
            # A page that lies: blue's pod is not on red's node, and this container is not red's.
            line(POWER, CANARY, f"{bed.tenant}-1", blue.work if bed is red else red.work, theirs if bed is red else mine),
            line(POWER, CANARY, f"{bed.tenant}-0", bed.work, pod, container="another"),
        )
    token = await scraper(red, rig)
    status, text = await rig.scrape(red, token)
    assert status == 200
    # The container is another than before, so the device is claimed twice, and nothing is certain.
    assert parse(text.encode(), FIELDS).samples == ()
    for bed, pod, value in ((red, mine, 55.0), (blue, theirs, CANARY)):
        rig.exporters[bed.tenant].show(
            *(line(UTILISATION, 0, f"{bed.tenant}-{number}") for number in range(1, 8)),
            line(UTILISATION, value, f"{bed.tenant}-0", bed.work, pod),
            line(POWER, CANARY, f"{bed.tenant}-1", blue.work if bed is red else red.work, theirs if bed is red else mine),
        )
    await rig.turn()
    status, text = await rig.scrape(red, token)
    (sample,) = parse(text.encode(), FIELDS).samples
    assert (sample.name, sample.value) == (UTILISATION, 55)
    assert sample.labels == {
        "gpu": "0",
        "UUID": f"{red.tenant}-0",
        "modelName": "NVIDIA H100",
        "Hostname": red.node,
        "namespace": red.space,
        "pod": "train",
        "container": "main",
    }
    assert red.session is not None
    of_node = (await red.session.gpu_metrics.page(red.node)).decode()
    assert parse(of_node.encode(), FIELDS).samples == (sample,)
    assert (await red.session.gpu_metrics.page(blue.node)).decode() == ""
    for foreign in (blue.tenant, "87123", theirs, red.work, mine, "what-the-exporter-says"):
        assert foreign not in text + of_node
    # The control: what red does not see is there for blue.
    assert "87123" in (await rig.scrape(blue, await scraper(blue, rig)))[1]
    assert {played.asked for played in rig.exporters.values()} == {rig.exporters[red.tenant].asked}


async def test_what_ended_or_changed_hands_is_shown_to_no_tenant(rig: Rig) -> None:
    red = rig.red
    host = await running(red, "train")
    await seen(rig, red, host)
    exporter = rig.exporters[red.tenant]
    devices = [line(UTILISATION, 0, f"gpu-{number}") for number in range(1, 8)]
    exporter.show(*devices, line(UTILISATION, 55, "gpu-0", red.work, host), line(ENERGY, 9_000, "gpu-0", red.work, host))
    token = await scraper(red, rig)
    first = {sample.name: sample.value for sample in parse((await rig.scrape(red, token))[1].encode(), FIELDS).samples}
    assert first == {UTILISATION: 55, ENERGY: 0}

    # It ends while the exporter answers: the page was right when it was asked for.
    exporter.pause = 1.0
    turn = asyncio.create_task(rig.turn())
    await asyncio.sleep(0.3)
    await red.run(await red.mirrored("train"), "Succeeded")
    await seen(rig, red, host, there=False)
    await turn
    assert parse((await rig.scrape(red, token))[1].encode(), FIELDS).samples == ()
    exporter.pause = 0.0
    await rig.turn()
    assert parse((await rig.scrape(red, token))[1].encode(), FIELDS).samples == ()


async def test_an_exporter_that_is_late_or_too_large_shows_nothing_and_no_old_value(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "MAX_PAGE_BYTES", 4 << 20)
    red = rig.red
    host = await running(red, "train")
    await seen(rig, red, host)
    exporter = rig.exporters[red.tenant]
    exporter.show(*(line(UTILISATION, 5, f"gpu-{number}", *((red.work, host) if not number else ())) for number in range(8)))
    token = await scraper(red, rig)
    assert len(parse((await rig.scrape(red, token))[1].encode(), FIELDS).samples) == 1
    good, exporter.text = exporter.text, exporter.text + b"#" * (5 << 20)
    await rig.turn()
    assert parse((await rig.scrape(red, token))[1].encode(), FIELDS).samples == ()
    exporter.text, exporter.pause = good, 7.0
    await rig.turn()
    assert parse((await rig.scrape(red, token))[1].encode(), FIELDS).samples == ()
    exporter.pause = 0.0
    await rig.turn()
    assert len(parse((await rig.scrape(red, token))[1].encode(), FIELDS).samples) == 1


async def test_callers_need_a_token_of_this_plane_and_the_right_to_read_metrics(rig: Rig) -> None:
    red = rig.red
    await rig.turn()
    assert (await rig.scrape(red))[0] == 401
    assert (await rig.scrape(red, "not-a-token"))[0] == 401
    of_host = await rig.token(red.host, "syncer", red.settings.plane_namespace)
    assert (await rig.scrape(red, of_host))[0] == 401
    without = await rig.token(red.plane, "default", red.space)
    status, text = await rig.scrape(red, without)
    assert (status, "non-resource URL /metrics" in text) == (403, True)
    # The control.
    assert (await rig.scrape(red, await scraper(red, rig)))[0] == 200


async def test_the_source_knows_syncers_by_tokens_made_out_to_it_alone(rig: Rig) -> None:
    red, host = rig.red, rig.red.host
    url = f"http://127.0.0.1:{rig.settings.listen_port}/tenant"
    space = red.settings.plane_namespace
    assert (await get(url))[0] == 401
    assert (await get(url, await rig.token(host, "syncer", space)))[0] == 401
    assert (await get(url, await rig.token(host, "another", space, GPU_AUDIENCE)))[0] == 401
    assert (await get(url, await rig.token(host, "syncer", red.work, GPU_AUDIENCE)))[0] == 401
    good = await rig.token(host, "syncer", space, GPU_AUDIENCE)
    assert (await get(url, good))[0] == 503  # no round has ended
    await rig.turn()
    assert (await get(url, good))[0] == 200
    # It opens nothing else.
    config = KubeConfig(server=host.config.server, ca=host.config.ca, token=good)
    async with Client(config, user_agent="tests", field_manager="tests") as stolen:
        with pytest.raises(ApiError) as refused:
            await stolen.list(PODS, red.work)
    assert refused.value.status == 401
