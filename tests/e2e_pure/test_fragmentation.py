"""The fragmentation study without servers: its trace, its virtual time, its figures and its picture."""

import itertools
from collections.abc import Mapping
from xml.etree import ElementTree as ET

import pytest

from bulkhead.api.labels import GPU
from bulkhead.ledger.model import Stage
from bulkhead.ledger.read import node_of, pod_of
from e2e.performance.fragmentation import figures, plot, trace
from e2e.performance.fragmentation.deciding import Alone
from e2e.performance.fragmentation.figures import KINDS, Waits
from e2e.performance.fragmentation.moving import Moving
from e2e.performance.fragmentation.timeline import History, play
from e2e.performance.fragmentation.trace import Job
from e2e.performance.ledger_core import measure


def test_a_trace_follows_from_its_seed_and_offers_the_load_that_was_asked_for() -> None:
    jobs = trace.make(3, nodes=20, jobs=200, load=0.8)
    assert jobs == trace.make(3, nodes=20, jobs=200, load=0.8)
    assert jobs != trace.make(4, nodes=20, jobs=200, load=0.8)
    assert [job.arrives for job in jobs] == sorted(job.arrives for job in jobs)
    offered = sum(job.asks * job.lasts for job in jobs)
    assert offered / (jobs[-1].arrives * 20 * trace.PER_NODE) == pytest.approx(0.8, rel=0.05)
    assert max(job.asks for job in jobs) <= 20 * trace.PER_NODE // 4
    assert {1, 2, 4, 8} == {job.gpus for job in jobs}
    assert any(job.is_whole for job in jobs)
    assert any(job.is_gang and not job.is_whole for job in jobs)


@pytest.mark.parametrize("gated", [True, False])
def test_pods_and_nodes_of_a_trace_are_read_as_what_they_stand_for(gated: bool) -> None:
    job = Job(7, 0.0, 60.0, pods=2, gpus=4, says=True)
    obj = trace.pod(job, job.names[1], gated=gated)
    obj["metadata"]["uid"] = "1"
    pod = pod_of(obj)
    assert pod is not None
    assert pod.gang is not None
    assert (pod.tenant, pod.gang.name, pod.gang.size, pod.asks[GPU], pod.lasts, pod.plain) == (
        "research",
        "job-00007",
        2,
        4,
        60.0,
        True,
    )
    assert pod.stage is (Stage.WAITING if gated else Stage.ADMITTED)
    assert node_of(trace.node(11)).allocatable[GPU] == trace.PER_NODE


class First:
    """A fixed number of GPUs for the first pods to come, pod by pod."""

    def __init__(self, gpus: int) -> None:
        self.free = gpus
        self.waiting: list[tuple[str, int]] = []
        self.placed: dict[str, int] = {}

    async def begin(self, job: Job, now: float) -> None:
        self.waiting += [(name, job.gpus) for name in job.names]

    async def end(self, job: Job) -> None:
        self.free += sum(self.placed.pop(name) for name in job.names)

    async def settle(self, now: float) -> Mapping[str, str]:
        found = {}
        while self.waiting and self.waiting[0][1] <= self.free:
            name, gpus = self.waiting.pop(0)
            self.free -= gpus
            self.placed[name] = gpus
            found[name] = "node-000"
        return found


JOBS = (
    Job(0, 0.0, 100.0, pods=1, gpus=4, says=False),
    Job(1, 10.0, 50.0, pods=2, gpus=4, says=False),
    Job(2, 20.0, 10.0, pods=2, gpus=1, says=False),
    Job(3, 120.0, 5.0, pods=1, gpus=8, says=False),
)


async def test_a_workload_runs_for_its_time_from_when_all_its_pods_are_placed() -> None:
    run = await play(JOBS, First(8), 8)
    assert run.started == {0: 0.0, 1: 100.0, 2: 150.0, 3: 160.0}
    seen = [(each.at, each.held, each.used, each.gangs, each.blocked) for each in run.samples]
    assert seen == [
        (0.0, 4, 4, 0, 0),
        (10.0, 8, 4, 1, 0),
        (20.0, 8, 4, 2, 0),
        (100.0, 8, 8, 1, 0),
        (120.0, 8, 8, 1, 0),
        (150.0, 2, 2, 0, 0),
        (160.0, 8, 8, 0, 0),
        (165.0, 0, 0, 0, 0),
    ]
    assert run.placed[1] == (10.0, "job-00001-000", "node-000")
    found = figures.summary(run)
    assert found["used_share"] == pytest.approx((4 * 100 + 8 * 20) / (8 * 120), abs=1e-4)
    assert found["held_share"] == pytest.approx((4 * 10 + 8 * 110) / (8 * 120), abs=1e-4)
    assert (found["never_started"], found["all_ended_after_s"]) == (0, 165.0)
    assert found["waits"]["other_gangs"] == {"workloads": 2, "never": 0, "p50_s": 90.0, "p90_s": 130.0, "max_s": 130.0}


async def test_gangs_that_wait_while_enough_is_free_are_seen_and_so_is_who_never_starts() -> None:
    class Nothing(First):
        async def settle(self, now: float) -> Mapping[str, str]:
            return {}

    run = await play(JOBS, Nothing(8), 8)
    assert [each.blocked for each in run.samples] == [0, 1, 2, 2]
    found = figures.summary(run)
    assert (found["never_started"], found["all_ended_after_s"]) == (4, None)
    table = figures.table({"nothing": [found], "either": [found, figures.summary(await play(JOBS, First(8), 8))]})
    assert "| workloads that never started | 4 | 0 to 4 |" in table.splitlines()
    assert "| everything ended after | never | 0.0 h to never |" in table.splitlines()


async def test_runs_that_decide_the_same_are_the_same_only_where_something_was_decided() -> None:
    class Nothing(First):
        async def settle(self, now: float) -> Mapping[str, str]:
            return {}

    one, other, slower = [await play(JOBS, First(gpus), 8) for gpus in (8, 8, 16)]
    assert figures.same_decisions(one, other)
    assert not figures.same_decisions(one, slower)
    nothing = await play(JOBS, Nothing(8), 8)
    assert not figures.same_decisions(nothing, nothing)


def test_parts_of_waits() -> None:
    waits = Waits((30.0, None, 10.0, 20.0))
    assert [waits.part(share) for share in (0.25, 0.5, 0.75, 0.9, 1.0)] == [10.0, 20.0, 30.0, None, None]
    assert waits.never == 1
    assert Waits(()).part(0.5) is None


async def test_the_core_alone_starts_gangs_whole_and_gives_no_gpu_twice() -> None:
    jobs = trace.make(5, nodes=6, jobs=40, load=1.1)
    run = await play(jobs, Alone([trace.node(number) for number in range(6)]), 6 * trace.PER_NODE)
    assert len(run.started) == len(jobs)
    by_pod = {name: job for job in jobs for name in job.names}
    assert all(each.held == each.used <= run.capacity for each in run.samples), "no gang is ever there in part"
    for at in {each.at for each in run.samples}:
        held: dict[str, int] = {}
        for since, name, node in run.placed:
            if since <= at < since + by_pod[name].lasts:
                held[node] = held.get(node, 0) + by_pod[name].gpus
        assert max(held.values(), default=0) <= trace.PER_NODE


async def test_of_several_runs_the_one_in_the_middle_is_drawn() -> None:
    runs = [await play(JOBS, First(gpus), 8) for gpus in (16, 8, 10)]
    used = [figures.summary(run)["used_share"] for run in runs]
    assert figures.summary(figures.median(runs))["used_share"] == sorted(used)[1]


async def test_the_picture_shows_each_run_in_each_panel() -> None:
    runs: dict[str, History] = {name: await play(JOBS, First(8), 8) for name in ("one", "two <b>")}
    drawn = ET.fromstring(plot.svg(runs, "a & b"))  # noqa: S314 - our own text
    space = "{http://www.w3.org/2000/svg}"
    lines = [each for each in drawn.iter(f"{space}path") if each.get("stroke") in {style[0] for style in plot.STYLES}]
    assert len(lines) == 2 + 3 * 2, "a legend and three panels for two runs"
    words = {each.text for each in drawn.iter(f"{space}text")}
    assert {"a & b", "one", "two <b>", "hours", "minutes"} <= words


@pytest.mark.parametrize(("most", "step"), [(800, 200), (6.6, 1), (1, 0.2), (35, 5), (135, 20), (0.03, 0.005)])
def test_axes_have_round_numbers(most: float, step: float) -> None:
    found = plot.ticks(most)
    assert 4 <= len(found) <= 11
    assert [pytest.approx(right - left) for left, right in itertools.pairwise(found)] == [step] * (len(found) - 1)
    assert found[-1] <= most + 1e-9


def test_every_workload_is_of_one_kind() -> None:
    for job in trace.make(1, nodes=100, jobs=200, load=1):
        assert sum(kind(job) for kind in KINDS.values()) == 1


def test_the_benchmark_of_the_core_admits_everything_at_any_size() -> None:
    found = measure(workloads=60, nodes=16)
    assert found["core_gangs"] == 60
    assert found["core_gangs_per_s"] > 0


async def test_pods_that_move_lose_their_work_and_nothing_else() -> None:
    jobs = trace.make(7, nodes=20, jobs=150, load=1.1)
    nodes = [trace.node(number) for number in range(20)]
    alone = await play(jobs, Alone(nodes), 20 * trace.PER_NODE)
    still, moving = Moving(jobs, nodes, most=0), Moving(jobs, nodes)
    assert still.run().started == alone.started
    assert still.cost() == {"moves": 0, "most_of_one": 0, "gpu_hours_lost": 0.0}
    history, cost = moving.run(), moving.cost()
    assert len(history.started) == len(jobs)
    assert history.samples[-1].held == 0
    assert cost["moves"] > 0 < cost["gpu_hours_lost"]
