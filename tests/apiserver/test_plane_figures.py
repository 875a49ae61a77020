"""The figures of a plane's API server, on the real programs with a plane's own flags, and while it is down.

Costs 25 s.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime

import pytest
from prometheus_client import REGISTRY

from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError
from bulkhead.kube.resources import CONFIG_MAPS
from bulkhead.work.clock import SystemClock
from controller import metrics
from controller.inside.access import PlaneAccess
from controller.inside.apifigures import PlaneFigures
from controller.inside.budget import Budget
from controller.inside.planemetrics import METRICS_ANSWER_BYTES
from controller.plane import apifigures
from tests.kit.hostileserver import Answer, endless, fixed, http, serving
from tests.kit.planeprocess import PlaneProcesses, answering
from tests.kit.tenantsamples import plane_spec

pytestmark = [pytest.mark.apiserver, pytest.mark.planes]
SPEC = plane_spec()
READS, WRITES = 200, 40


class Later(SystemClock):
    """The machine's clock, a minute later with each look."""

    added = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.added


class Held:
    """A connection that the controller has."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def kept(self, _now: datetime) -> Client:
        return self.client


@pytest.fixture
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlaneProcesses]:
    with answering(tmp_path_factory.mktemp("plane"), SPEC) as processes:
        yield processes


@pytest.fixture
async def client(plane: PlaneProcesses) -> AsyncIterator[Client]:
    async with Client(plane.admin, user_agent="tests", field_manager="tests") as made:
        yield made


@pytest.fixture
def clean() -> Iterator[None]:
    yield
    metrics.stand_down()


def shown(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"bulkhead_tenant_apiserver_{name}", {"tenant": SPEC.tenant, **labels})


@pytest.mark.usefixtures("clean")
async def test_what_its_clients_ask_is_counted_and_an_outage_leaves_no_latency(
    plane: PlaneProcesses, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, budget, there = Later(), Budget(), {SPEC.tenant}
    access = PlaneAccess(clock, lambda _: None, budget)
    figures = PlaneFigures(access, lambda: there, clock, budget)
    await figures.look()
    assert shown("inflight", way="read") is None, "there is no connection yet"
    monkeypatch.setitem(access._connections, SPEC.tenant, Held(client))

    await figures.look()
    assert shown("answers_total", status="2xx") == 0, "what was before the first look is not this leader's"
    for number in range(WRITES):
        await client.create(CONFIG_MAPS, {"metadata": {"name": f"one-{number}", "namespace": "default"}})
    for _ in range(READS):
        await client.get(CONFIG_MAPS, "one-1", "default")
    for _ in range(3):
        with pytest.raises(ApiError):
            await client.get(CONFIG_MAPS, "none", "default")
    clock.added += 60.0
    began = time.monotonic()
    await figures.look()
    took = time.monotonic() - began
    assert took < 5
    assert (shown("answers_total", status="2xx") or 0) >= READS + WRITES
    assert (shown("answers_total", status="4xx") or 0) >= 3
    for way in apifigures.WAYS:
        assert 0 < (shown("seconds", way=way) or 0) < 10
        assert (shown("inflight", way=way) or 0) >= 0
    assert budget.held == 0

    plane.stop()
    async with asyncio.timeout(30):
        await figures.look()
    counted = shown("answers_total", status="2xx")
    assert [shown("seconds", way="read"), shown("inflight", way="read")] == [None, None]
    assert counted is not None
    assert counted >= READS, "a counter goes on where it was"

    there.clear()
    await figures.look()
    assert shown("answers_total", status="2xx") is None


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize(
    "answer",
    [
        endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"x" * 65536 + b"\r\n"),
        fixed(http("200 OK", b'apiserver_request_total{code="200"} 1e+99\n\xff\xfe' * 1000)),
        fixed(http("500 Internal Server Error", b"no")),
        fixed(b"nothing of HTTP"),
    ],
    ids=["endless", "nonsense", "refused", "no HTTP"],
)
async def test_a_hostile_plane_costs_a_bounded_look(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, budget = SystemClock(), Budget()
    access = PlaneAccess(clock, lambda _: None, budget)
    async with serving(answer) as config, Client(config, user_agent="tests", field_manager="tests") as client:
        monkeypatch.setitem(access._connections, SPEC.tenant, Held(client))
        async with asyncio.timeout(30):
            await PlaneFigures(access, lambda: {SPEC.tenant}, clock, budget).look()
    assert budget.held == 0
    assert budget.most <= METRICS_ANSWER_BYTES + (1 << 20)
    assert not shown("answers_total", status="2xx")
    assert shown("seconds", way="read") is None
