"""Planes into which tenants may put anything: what reaches the controller's memory is bounded, for one plane and for many.

The servers here answer whatever they like on every path, as a tenant can with its own APIService in place of a kind.
"""

import asyncio
import contextlib
import tracemalloc
from collections.abc import AsyncIterator, Callable

import pytest

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, ProtocolError, TooLarge
from controller.inside.budget import Budget, Turn
from controller.inside.calls import Plane
from controller.slurm.answers import parse, shapes
from controller.slurm.answers.parse import SlurmAnswerError
from controller.slurm.cluster import Order
from controller.slurm.decide.status import verdict
from controller.slurm.loop import SlurmLoops
from controller.slurm.observe import MOST_NODES
from tests.controller.slurm_runtime.bed import KEYS
from tests.controller.slurm_runtime.world import START, node_set, slurm_spec
from tests.kit import hostileserver as hostile
from tests.kit.fakeclock import FakeClock
from tests.kit.hostileserver import http

MIB = 1024 * 1024
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def fat_page(nodes: int, size: int) -> bytes:
    """A page of a list that never ends."""
    one = b'{"metadata": {"name": "n", "annotations": {"x": "' + b"a" * size + b'"}}}'
    return http("200 OK", b'{"items": [' + b", ".join([one] * nodes) + b'], "metadata": {"continue": "more"}}')


# Made where they are played: they are a hundred MiB together.
HOSTILE: dict[str, Callable[[], hostile.Answer]] = {
    "an answer without an end": lambda: hostile.endless(CHUNKED, chunk(b" " * 65_536)),
    "an answer in crumbs": lambda: hostile.endless(CHUNKED, chunk(b" ") * 4096),
    "pages without an end, each of fat nodes": lambda: hostile.fixed(fat_page(100, 60_000)),
    "pages without an end, each of nothing": lambda: hostile.fixed(
        http("200 OK", b'{"items": [], "metadata": {"continue": "more"}}')
    ),
    "pages of more than was asked for": lambda: hostile.fixed(fat_page(60_000, 1)),
    "nothing but brackets": lambda: hostile.fixed(http("200 OK", b'{"items": [' + b", ".join([b"{}"] * 1_000_000) + b"]}")),
    "conditions without number": lambda: hostile.fixed(
        http(
            "200 OK", b'{"items":[{"metadata":{"name":"n"},"status":{"conditions":[' + b",".join([b"{}"] * 1_000_000) + b"]}}]}"
        )
    ),
    "deep nesting": lambda: hostile.fixed(http("200 OK", b'{"items": ' + b"[" * 4_000_000)),
    "an error without an end": lambda: hostile.endless(CHUNKED.replace(b"200 OK", b"500 No"), chunk(b" " * 65_536)),
}


@contextlib.asynccontextmanager
async def opened(answer: hostile.Answer) -> AsyncIterator[Client]:
    async with (
        hostile.serving(answer) as config,
        Client(config, user_agent="tests", field_manager="tests", timeout=60, max_body=16_384, connections=4) as client,
    ):
        yield client


@contextlib.contextmanager
def peak(most: int) -> object:  # type: ignore[misc]
    """No more than so many bytes of memory at once in the whole process."""
    tracemalloc.start()
    try:
        yield
        found = tracemalloc.get_traced_memory()[1]
        assert found < most, f"{found} bytes"
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", HOSTILE)
async def test_no_list_takes_more_than_its_bound(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.inside.calls.LIST_DEADLINE_SECONDS", 2.0)
    budget = Budget(total=24 * MIB, each=12 * MIB)
    async with opened(HOSTILE[name]()) as client:
        with pytest.raises(KubeError), peak(80 * MIB):
            async with budget.turn("a", 20) as turn:
                await Plane(client, turn).list(kinds.NODES, shape=shapes.NODES, most=MOST_NODES)
    assert budget.held == 0
    assert budget.most <= 12 * MIB


async def test_a_write_takes_no_more_of_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    node = {"metadata": {"name": "n"}}
    for name in ("an answer without an end", "an answer in crumbs", "an error without an end"):
        budget = Budget()
        async with opened(HOSTILE[name]()) as client, budget.turn("a", 20) as turn:
            plane = Plane(client, turn)
            for write in (plane.apply(kinds.NODES, node), plane.patch(kinds.NODES, "n", {}), plane.delete(kinds.NODES, "n")):
                with pytest.raises(KubeError):
                    await write
        assert budget.most <= MIB


async def test_many_hostile_planes_at_once_leave_the_others_their_room() -> None:
    """Twenty planes, each of which alone would take half of all there is, and one that answers as it should."""
    budget = Budget(total=16 * MIB, each=8 * MIB)
    page = b'{"items": [{"metadata": {"name": "n", "annotations": {"x": "' + b"a" * 500_000 + b'"}}}]}'
    outcomes: list[str] = []

    async def one(client: Client, name: str) -> None:
        try:
            async with budget.turn(name, 30) as turn:
                plane = Plane(client, turn)
                found = await plane.list(kinds.NODES, shape=shapes.NODES, most=10)
                outcomes.append(f"{name}: {len(found)}")
        except TooLarge as error:
            outcomes.append(f"{name}: {error}")

    endless = HOSTILE["an answer without an end"]()
    async with opened(endless) as bad, opened(hostile.slow_pieces(http("200 OK", page))) as good:
        with peak(64 * MIB):
            async with asyncio.timeout(300):
                await asyncio.gather(*(one(bad, f"bad-{number}") for number in range(20)), one(good, "good"))
    assert "good: 1" in outcomes
    assert len(outcomes) == 21
    assert budget.held == 0
    assert budget.most <= 16 * MIB


async def test_a_hostile_plane_stops_its_own_cluster_and_says_so() -> None:
    for name in ("nothing but brackets", "pages of more than was asked for"):
        clock, changed = FakeClock(START), asyncio.Event()
        async with opened(HOSTILE[name]()) as client:

            def plane(turn: Turn, client: Client = client) -> Plane:
                return Plane(client, turn)

            loops = SlurmLoops(clock, plane, lambda _: {}, lambda _, changed=changed: changed.set())  # type: ignore[misc]
            order = Order(slurm_spec(node_set()), KEYS)
            loops.order("team-a", order)
            async with asyncio.timeout(120):
                await changed.wait()
            found = loops.order("team-a", order)
            assert found is not None
            condition = verdict(found, was=True)
            assert (condition.status, condition.reason) == ("False", "PlaneUnreadable")
            assert "list of pods" in condition.message
            await loops.close()


def crowded(field: bytes, entry: bytes, number: int) -> bytes:
    return b'{"' + field + b'": [' + b",".join([entry] * number) + b"]}"


SLURM: dict[str, Callable[[], tuple[Callable[[bytes], object], bytes]]] = {
    "jobs by the million": lambda: (parse.parse_jobs, crowded(b"jobs", b'{"job_id":1}', 1_000_000)),
    "nodes by the million": lambda: (parse.parse_nodes, crowded(b"nodes", b'{"name":"n"}', 1_000_000)),
    "errors by the million": lambda: (parse.parse_nodes, b'{"nodes": [], ' + crowded(b"errors", b"{}", 1_000_000)[1:]),
    "states by the million": lambda: (
        parse.parse_nodes,
        b'{"nodes": [{"name": "n", ' + crowded(b"state", b'"ab"', 1_000_000)[1:-1] + b"}]}",
    ),
    "jobs on every node there is": lambda: (parse.parse_jobs, crowded(b"jobs", b'{"job_id":1,"nodes":"n[0-8000]"}', 10_000)),
}


@pytest.mark.parametrize("name", SLURM)
def test_what_slurm_says_in_few_bytes_takes_few_bytes(name: str) -> None:
    parse, data = SLURM[name]()
    with pytest.raises(SlurmAnswerError), peak(60 * MIB):
        parse(data)


@pytest.mark.parametrize(("tasks", "copies"), [(b"0-9999,20000", 10_001), (b"0-999999999", parse.MOST_JOBS)])
def test_a_job_array_is_counted_without_its_tasks_being_named(tasks: bytes, copies: int) -> None:
    data = crowded(b"jobs", b'{"job_id":1,"job_state":["PENDING"],"array_task_string":"' + tasks + b'"}', 5_000)
    with peak(60 * MIB):
        jobs = parse.parse_jobs(data)
    assert {job.copies for job in jobs} == {copies}


async def test_a_node_set_of_another_shape_is_told_by_its_field() -> None:
    body = b'{"items": [{"metadata": {"name": "gpu"}, "spec": {"replicas": "many"}}]}'
    async with opened(hostile.fixed(http("200 OK", body))) as client, Budget().turn("a", 10) as turn:
        with pytest.raises(ProtocolError, match=r"spec\.replicas"):
            await Plane(client, turn).list(kinds.PODS, "slurm", shape=shapes.NODE_SETS, most=10)
