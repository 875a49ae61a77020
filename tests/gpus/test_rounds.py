"""Rounds over an exporter that writes the labels of pods, which tenants choose, on every line."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

import aiohttp
import pytest
from aiohttp import web

from bulkhead.gpus.attribution import Name, Node, Pod
from bulkhead.gpus.fields import FIELDS
from bulkhead.work.clock import SystemClock
from gpumetrics.exporters import Exporter
from gpumetrics.rounds import Rounds, page_of
from gpumetrics.settings import Settings
from tests.kit.ports import free_port

RED, BLUE = Name("bh-red-work", "train"), Name("bh-blue-work", "serve")


@dataclass
class Host:
    """A node with a device for each of two tenants' pods."""

    deaf: bool = False

    def pods(self, _: str) -> Mapping[Name, Pod]:
        return {RED: Pod("uid-red", 1), BLUE: Pod("uid-blue", 1)}

    def node(self, _: str) -> Node:
        return Node(2)


@dataclass
class Played:
    """Its exporter, in the form of dcgm-exporter 4 with --kubernetes-enable-pod-labels."""

    rounds: Rounds
    labels: dict[Name, dict[str, str]] = field(default_factory=dict)

    def page(self) -> str:
        return "".join(self._line(metric, at, pod) for metric in FIELDS for at, pod in enumerate((RED, BLUE)))

    def _line(self, metric: str, at: int, pod: Name) -> str:
        device = f'gpu="{at}",UUID="GPU-{at}",device="nvidia{at}",modelName="NVIDIA H100",Hostname="n1"'
        more = "".join(f',{key}="{value}"' for key, value in self.labels.get(pod, {}).items())
        return f'{metric}{{{device}{more},container="main",namespace="{pod.namespace}",pod="{pod.name}"}} {at + 1}\n'

    async def shown(self, pod: Name) -> int:
        """How many lines its tenant gets after a round."""
        async with aiohttp.ClientSession() as session:
            await self.rounds.turn(session)
        return page_of(self.rounds.boards.get(pod.namespace, ())).count(b"\n")


@pytest.fixture
async def played() -> AsyncIterator[Played]:
    port = free_port()
    exporter = Exporter("n1", "127.0.0.1", port)
    made = Played(Rounds(Settings(settle_seconds=0), Host(), lambda: {"n1": exporter}, SystemClock(), lag_seconds=0))

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=made.page())

    app = web.Application()
    app.add_routes([web.get("/metrics", answer)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield made
    await runner.cleanup()


async def test_a_pod_with_as_many_labels_as_it_may_have_hides_no_gpu_of_the_node(played: Played) -> None:
    played.labels[RED] = {f"{'l' * 310}{number}": "x" * 63 for number in range(200)}
    assert len(played.page()) > 2 << 20
    assert [await played.shown(pod) for pod in (RED, BLUE)] == [len(FIELDS), len(FIELDS)]
    played.labels[BLUE] = played.labels[RED]
    assert len(played.page()) > 5 << 20
    assert [await played.shown(pod) for pod in (RED, BLUE)] == [len(FIELDS), len(FIELDS)]


@pytest.mark.parametrize("name", ["pod", "UUID", "namespace"])
async def test_a_label_with_a_name_of_the_exporters_own_hides_its_own_pods_gpu_alone(played: Played, name: str) -> None:
    played.labels[RED] = {name: "x"}
    assert [await played.shown(pod) for pod in (RED, BLUE)] == [0, len(FIELDS)]
