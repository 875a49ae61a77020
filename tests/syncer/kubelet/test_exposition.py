"""Pages of a virtual node in Prometheus' format: read back by Prometheus' own parser; hostile names, and nothing of others."""

from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.objects import Key, ObjList
from syncer.http1 import BadRequestError
from syncer.kubelet import exposition
from syncer.kubelet.cpucount import CpuCount
from syncer.kubelet.exposition import NodePods, Page, Sample
from syncer.kubelet.metrics import FRESH_SECONDS, PodMetrics
from syncer.kubelet.turns import Turns
from tests.kit.fakeclock import FakeClock

CANARY = "canary-of-another-tenant"


def pod(name: str, node: str, *containers: str) -> Obj:
    listed = [{"name": container, "image": "busybox"} for container in containers or ("main",)]
    return {
        "metadata": {"namespace": "team", "name": name, "uid": f"uid-{name}"},
        "spec": {"nodeName": node, "containers": listed},
    }


def measured(name: str, at: int = 0, cpu: str = "500m", **more: Any) -> Obj:
    usage = {"cpu": cpu, "memory": "64Mi"}
    return {
        "metadata": {"name": name},
        "timestamp": f"2026-01-01T00:{at // 60:02}:{at % 60:02}Z",
        "containers": [{"name": "main", "usage": usage}, {"name": CANARY, "usage": usage}],
    } | more


class Host:
    def __init__(self) -> None:
        self.items: list[Obj] = []
        self.asked = 0
        self.error: KubeError | None = None

    async def list(self, _resource: object, _namespace: str, *, label_selector: str) -> ObjList:
        assert label_selector
        self.asked += 1
        if self.error is not None:
            raise self.error
        return ObjList(self.items, "1")


class Bench:
    def __init__(self) -> None:
        self.host = Host()
        self.clock = FakeClock()
        self.pods = [pod("web", "n1"), pod("db", "n2"), pod("new", ""), pod("forged", "n1")]
        names = {Key("team", name): f"{name}-host" for name in ("web", "db", "new")}
        host = cast("Client", self.host)
        self.metrics = PodMetrics(
            host, host, "work", self.clock, pods=lambda: self.pods, host_name=names.get, turns=Turns(self.clock)
        )
        self.at(0)

    def at(self, second: int) -> None:
        self.host.items = [measured("web-host", second), measured("db-host", second, "2"), measured(CANARY, second)]
        self.clock.advance(FRESH_SECONDS)

    async def page(self, about: Page, node: str = "n1") -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
        text = (await self.metrics.page(about, node)).decode()
        assert CANARY not in text
        assert "-host" not in text
        return {
            family.name: {tuple(sorted(sample.labels.items())): sample.value for sample in family.samples}
            for family in text_string_to_metric_families(text)
        }


WEB = (("container", "main"), ("namespace", "team"), ("pod", "web"))


async def test_item_100_a_node_shows_own_containers_in_own_names() -> None:
    bench = Bench()
    found = await bench.page("cadvisor")
    labels = tuple(sorted((*WEB, ("id", "/uid-web/main"), ("image", "busybox"))))
    assert found["container_memory_working_set_bytes"] == {labels: 64 * 1024**2}
    assert found["container_cpu_usage_seconds"] == {labels: 0}
    bench.at(30)
    assert (await bench.page("cadvisor"))["container_cpu_usage_seconds"] == {labels: 15}
    resource = await bench.page("resource", "n2")
    assert resource["node_cpu_usage_seconds"] == {(): 60}
    assert resource["pod_memory_working_set_bytes"] == {(("namespace", "team"), ("pod", "db")): 64 * 1024**2}
    assert (await bench.page(""))["kubelet_running_pods"] == {(): 2}
    assert await bench.page("probes") == {}
    # A positive control for the canary: the host did tell of it.
    assert CANARY in str(bench.host.items)


async def test_item_100_many_scrapes_ask_the_host_once() -> None:
    bench = Bench()
    for node in ("n1", "n2", "nowhere") * 20:
        for about in exposition.PAGES:
            await bench.metrics.page(about, node)
    assert bench.host.asked == 1


async def test_item_100_a_host_that_measures_nothing_is_said() -> None:
    bench = Bench()
    bench.host.error = KubeError("away")
    with pytest.raises(BadRequestError, match="cannot read them now"):
        await bench.metrics.page("cadvisor", "n1")
    assert await bench.page("probes") == {}


def test_hostile_names_stay_within_their_label() -> None:
    nasty = 'x"} 1\nup{job="kubelet"} 0\n# TYPE \\'
    here = NodePods(1, [Sample(nasty, "p" * 10_000, "u", "c\ud800", nasty, 1.0, 1)])
    for about in exposition.PAGES:
        text = exposition.page(about, "n1", here).decode()
        families = {family.name for family in text_string_to_metric_families(text)}
        assert "up" not in families
        assert len(text) < 20_000


def test_a_page_is_bounded() -> None:
    here = NodePods(20_000, [Sample("team", f"p-{number}", "u", "main", "", 1.0, 1) for number in range(20_000)])
    assert exposition.page("cadvisor", "n1", here).count(b"container_memory_working_set_bytes{") == exposition.MOST_SAMPLES


def test_cpu_counts_each_second_once_and_never_backwards() -> None:
    count = CpuCount()
    key = ("uid", "main")
    for at, total in ((0, 0.0), (10, 5.0), (10, 5.0), (5, 5.0), (20, 10.0)):
        count.take([("uid", measured("x", at))])
        assert count.seconds[key] == total
    # Of a long silence only so much is known.
    count.take([("uid", measured("x", 20 + 3000))])
    assert count.seconds[key] == 10 + 60
    count.take([("uid", measured("x", 3021, cpu="lots") | {"timestamp": "yesterday"})])
    assert count.seconds == {}
