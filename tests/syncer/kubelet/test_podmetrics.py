"""What is asked of the host, how often, and what is answered when it has nothing to tell."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.codec import encode
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.kube.objects import Key, ObjList, Resource
from syncer.http1 import BadRequestError
from syncer.kubelet.metrics import FRESH_SECONDS, MOST_SELECTIONS, PodMetrics
from syncer.kubelet.metricsroutes import Question
from syncer.kubelet.turns import Turns
from tests.kit.fakeclock import FakeClock


def pod(namespace: str, name: str, node: str = "n1") -> Obj:
    return {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"nodeName": node, "containers": [{"name": "main"}]},
    }


def measured(name: str, cpu: str) -> Obj:
    return {"metadata": {"name": name}, "containers": [{"name": "main", "usage": {"cpu": cpu, "memory": "1Mi"}}]}


class Side:
    """One API server, as far as lists go."""

    def __init__(self, *items: Obj) -> None:
        self.items = list(items)
        self.asked: list[tuple[str, str | None, str | None]] = []
        self.error: KubeError | None = None
        self.lists = self.most_lists = 0

    async def list(
        self, r: Resource, namespace: str | None = None, *, label_selector: str | None = None, field_selector: str | None = None
    ) -> ObjList:
        self.asked.append((r.kind, namespace, label_selector))
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return ObjList(self.items, "1")

    async def pages(
        self,
        r: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        metadata_only: bool = False,
    ) -> AsyncIterator[Any]:
        assert metadata_only, "of what is chosen the names are enough"
        self.asked.append((r.kind, namespace, label_selector))
        self.lists += 1
        self.most_lists = max(self.most_lists, self.lists)
        try:
            for item in self.items:
                await asyncio.sleep(0)
                yield SimpleNamespace(items=[encode(item)])
        finally:
            self.lists -= 1


class Bench:
    def __init__(self) -> None:
        self.host = Side(measured("web-host", "1"), measured("db-host", "2"), measured("of-nobody", "3"))
        self.plane = Side()
        self.clock = FakeClock()
        pods = [pod("a", "web"), pod("b", "db"), pod("b", "new", ""), pod("b", "unmeasured")]
        names = {Key("a", "web"): "web-host", Key("b", "db"): "db-host", Key("b", "unmeasured"): "other-host"}
        self.metrics = PodMetrics(
            cast("Client", self.host), cast("Client", self.plane), "work", self.clock,
            pods=lambda: pods,
            host_name=names.get,
            turns=Turns(self.clock),
        )  # fmt: skip

    async def names(self, asked: Question) -> list[str]:
        return [item["metadata"]["name"] for item in (await self.metrics.answer(asked))["items"]]


async def test_item_87_only_the_tenants_own_pods_are_told() -> None:
    bench = Bench()
    assert await bench.names(Question("pods")) == ["web", "db"]
    assert await bench.names(Question("pods", "b")) == ["db"]
    assert (await bench.metrics.answer(Question("pods", "b", "db")))["kind"] == "PodMetrics"
    (node,) = (await bench.metrics.answer(Question("nodes")))["items"]
    assert node["usage"]["cpu"] == "3000000000n"
    assert {namespace for _, namespace, _ in bench.host.asked} == {"work"}


async def test_item_87_selectors_are_the_planes_affair() -> None:
    bench = Bench()
    bench.plane.items = [pod("b", "db"), pod("b", "unmeasured")]
    assert await bench.names(Question("pods", "b", label_selector="app in (db)")) == ["db"]
    assert bench.plane.asked == [("Pod", "b", "app in (db)")]


async def test_however_many_select_few_lists_of_the_plane_are_open_and_each_is_of_names() -> None:
    bench = Bench()
    bench.plane.items = [pod("b", "db"), pod("b", "unmeasured")]
    found = await asyncio.gather(*(bench.names(Question("pods", "b", label_selector=f"at={n}")) for n in range(200)))
    assert found == [["db"]] * 200
    assert bench.plane.most_lists == MOST_SELECTIONS


async def test_the_host_is_asked_once_however_many_ask() -> None:
    bench = Bench()
    await asyncio.gather(*(bench.metrics.answer(Question("pods")) for _ in range(20)))
    assert len(bench.host.asked) == 1
    bench.clock.advance(FRESH_SECONDS)
    await bench.metrics.answer(Question("nodes"))
    assert len(bench.host.asked) == 2


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (NotFound(404, "NotFound", "the server could not find the requested resource"), "install metrics-server"),
        (KubeError("https://10.0.0.1: refused"), "cannot read them now"),
    ],
)
async def test_item_87_discovery_goes_on_where_the_host_measures_nothing(error: KubeError, text: str) -> None:
    """An API that is announced and does not answer keeps namespaces from ending."""
    bench = Bench()
    bench.host.error = error
    with pytest.raises(BadRequestError, match=text) as refused:
        await bench.metrics.answer(Question("pods"))
    assert refused.value.status == 503
    assert "10.0.0.1" not in str(refused.value)
    assert (await bench.metrics.answer(Question("resources")))["groupVersion"] == "metrics.k8s.io/v1beta1"
    bench.host.error = None
    bench.clock.advance(FRESH_SECONDS)
    assert await bench.names(Question("pods")) == ["web", "db"]


async def test_a_host_that_measures_nothing_is_asked_once_however_many_ask() -> None:
    """Otherwise a tenant that asks without end asks the host without end, in the trouble that the host has already."""
    bench = Bench()
    bench.host.error = KubeError("away")
    for _ in range(3):
        refused = await asyncio.gather(*(bench.metrics.answer(Question("pods")) for _ in range(100)), return_exceptions=True)
        assert {str(error) for error in refused} == {"metrics: the platform cannot read them now; try again"}
    assert len(bench.host.asked) == 1
    bench.clock.advance(FRESH_SECONDS)
    bench.host.error = None
    assert await bench.names(Question("pods")) == ["web", "db"]


async def test_a_host_that_measures_nothing_is_asked_as_seldom() -> None:
    """A tenant whose tools ask in a loop would otherwise load the host's API server where metrics-server is missing."""
    bench = Bench()
    bench.host.error = NotFound(404, "NotFound", "the server could not find the requested resource")
    for _ in range(20):
        with pytest.raises(BadRequestError, match="install metrics-server"):
            await bench.metrics.answer(Question("pods"))
    assert len(bench.host.asked) == 1


async def test_item_87_a_pod_that_is_not_measured_is_not_found() -> None:
    bench = Bench()
    for name in ("unmeasured", "nobody"):
        with pytest.raises(BadRequestError) as refused:
            await bench.metrics.answer(Question("pods", "b", name))
        assert refused.value.status == 404


def test_the_documents_of_discovery_name_each_other() -> None:
    bench = Bench()
    group: dict[str, Any] = asyncio.run(bench.metrics.answer(Question("group")))
    assert group["preferredVersion"]["groupVersion"] == "metrics.k8s.io/v1beta1"
