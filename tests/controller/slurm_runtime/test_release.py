"""Releasing workers: which goes first, what happens when, and the laws that hold whatever the tenant does."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.slurm.answers.view import SlurmJob, SlurmNode, SlurmView
from controller.slurm.lease.fleet import Cancel, DeleteWorker, Down, Drain, Requeue, Undrain, Worker
from controller.slurm.lease.reasons import GIVING, deadline_in, reason_until
from controller.slurm.lease.release import LAST_GRACE_SECONDS, OVERDUE, release
from tests.controller.slurm_runtime.world import START, World, node_set, slurm_spec

GRACE = timedelta(seconds=120)
UNTIL = START + GRACE


def worker(ordinal: int, *, host: str = "n1") -> Worker:
    return Worker(f"gpu-{ordinal}", "gpu", ordinal, uid=f"uid-{ordinal}", phase="Running", ready=True, host_node=host)


def node(ordinal: int, *states: str, reason: str = "") -> SlurmNode:
    return SlurmNode(name=f"gpu-{ordinal}", states=frozenset(states or {"IDLE"}), reason=reason)


def job(job_id: int, *nodes: int, minutes: float | None = 10, priority: int = 1, **more: bool) -> SlurmJob:
    return SlurmJob(
        job_id=job_id,
        states=frozenset({"RUNNING"}),
        nodes=tuple(f"gpu-{each}" for each in nodes),
        ends=START + timedelta(minutes=minutes) if minutes is not None else None,
        priority=priority,
        batch=more.get("batch", True),
        requeue=more.get("requeue", True),
    )


def released(view: SlurmView | None, count: int, *workers: Worker, now_after: float = 0.0, **more: object) -> list[object]:
    now = START + timedelta(seconds=now_after)
    return list(release(view, workers, count, now=now, grace=GRACE, **more))  # type: ignore[arg-type]


def test_idle_goes_before_busy_then_the_soonest_end_then_the_lowest_priority() -> None:
    view = SlurmView(
        nodes=(node(0, "ALLOCATED"), node(1, "ALLOCATED"), node(2), node(3, "MIXED"), node(4, "ALLOCATED")),
        jobs=(job(1, 0, minutes=30), job(2, 1, minutes=5, priority=9), job(3, 3, minutes=5), job(4, 4, minutes=None)),
    )
    workers = [worker(each) for each in range(5)]
    order = []
    for count in range(1, 6):
        going = {action.node for action in released(view, count, *workers) if isinstance(action, Drain)}
        order += sorted(going - set(order))
    assert order == ["gpu-2", "gpu-3", "gpu-1", "gpu-0", "gpu-4"]


def test_a_pod_that_never_started_goes_before_all_and_at_once() -> None:
    view = SlurmView(nodes=(node(0),))
    assert released(view, 1, worker(0), worker(1, host="")) == [
        DeleteWorker("gpu-1", "uid-1", "given back: not known to Slurm")
    ]


def test_a_drain_says_that_it_is_ours_and_until_when() -> None:
    (action,) = released(SlurmView(nodes=(node(0, "ALLOCATED"),), jobs=(job(1, 0),)), 1, worker(0))
    assert action == Drain("gpu-0", "bulkhead: giving back until 2026-06-01T12:02:00+00:00", UNTIL)
    assert deadline_in(reason_until(UNTIL)) == UNTIL


@pytest.mark.parametrize(
    ("late", "jobs", "wanted"),
    [
        (-1, (job(1, 0),), []),
        (0, (job(1, 0),), [Requeue(1, "gpu-0")]),
        (0, (job(1, 0, requeue=False),), [Cancel(1, "gpu-0")]),
        (0, (job(1, 0, batch=False),), [Cancel(1, "gpu-0")]),
        (0, None, [Down("gpu-0", reason_until(UNTIL))]),
        (9, (job(1, 0),), [Requeue(1, "gpu-0")]),
        (10, (job(1, 0),), [Down("gpu-0", reason_until(UNTIL))]),
        (20, (job(1, 0),), [DeleteWorker("gpu-0", "uid-0", "given back: past its deadline", LAST_GRACE_SECONDS)]),
    ],
)
def test_after_its_deadline_a_busy_worker_is_met_with_ever_harder_measures(
    late: float, jobs: tuple[SlurmJob, ...] | None, wanted: list[object]
) -> None:
    view = SlurmView(nodes=(node(0, "ALLOCATED", "DRAIN", reason=reason_until(UNTIL)),), jobs=jobs)
    assert released(view, 1, worker(0), now_after=GRACE.total_seconds() + late) == wanted


def test_a_drained_worker_goes_as_soon_as_nothing_runs_there() -> None:
    view = SlurmView(nodes=(node(0, "IDLE", "DRAIN", reason=reason_until(UNTIL)),))
    assert released(view, 1, worker(0)) == [DeleteWorker("gpu-0", "uid-0", "given back: drained")]


def test_a_worker_that_is_drained_only_after_its_deadline_has_little_left() -> None:
    """Taken down, a node holds no job for Slurm, and a job that ignores SIGTERM runs on."""
    view = SlurmView(nodes=(node(0, "DOWN", "DRAIN", reason=reason_until(UNTIL)),))
    late = GRACE.total_seconds() + 13
    wanted = [DeleteWorker("gpu-0", "uid-0", "given back: drained", LAST_GRACE_SECONDS)]
    assert released(view, 1, worker(0), now_after=late) == wanted
    assert released(view, 1, worker(0), now_after=1, by=START) == wanted


@pytest.mark.parametrize("state", ["ALLOCATED", "MIXED", "COMPLETING", "UNKNOWN", "ERROR"])
def test_a_node_that_may_be_busy_counts_as_busy_though_no_job_was_seen_on_it(state: str) -> None:
    view = SlurmView(nodes=(node(0, state, "DRAIN", reason=reason_until(UNTIL)),))
    assert released(view, 1, worker(0)) == []


def test_the_drain_is_undone_when_the_need_is_gone() -> None:
    view = SlurmView(nodes=(node(0, "ALLOCATED", "DRAIN", reason=reason_until(UNTIL)),), jobs=(job(1, 0),))
    assert released(view, 0, worker(0)) == [Undrain("gpu-0")]


def test_an_admins_drain_is_neither_undone_nor_overwritten_yet_does_not_hold_the_worker() -> None:
    drained = SlurmView(nodes=(node(0, "IDLE", "DRAIN", reason="fan broken"),))
    assert released(drained, 0, worker(0)) == []
    assert released(drained, 1, worker(0)) == [DeleteWorker("gpu-0", "uid-0", "given back: drained")]
    busy = SlurmView(nodes=(node(0, "ALLOCATED", "DRAIN", reason="fan broken"),), jobs=(job(1, 0),))
    assert released(busy, 1, worker(0)) == []
    assert released(busy, 1, worker(0), by=UNTIL, now_after=125) == [Requeue(1, "gpu-0")]
    assert released(busy, 1, worker(0), by=UNTIL, now_after=135) == []
    assert released(busy, 1, worker(0), by=UNTIL, now_after=145) == [
        DeleteWorker("gpu-0", "uid-0", "given back: past its deadline", LAST_GRACE_SECONDS)
    ]


@pytest.mark.parametrize(
    "reason", ["bulkhead: giving back until 2099-01-01T00:00:00+00:00", "bulkhead: giving back until soon"]
)
def test_a_deadline_that_a_tenant_moved_away_is_moved_back(reason: str) -> None:
    view = SlurmView(nodes=(node(0, "ALLOCATED", "DRAIN", reason=reason),), jobs=(job(1, 0),))
    # What was promised once holds although the reason says something else.
    assert released(view, 1, worker(0), promised={"gpu-0": START}) == [Requeue(1, "gpu-0")]
    assert released(view, 1, worker(0)) == [Drain("gpu-0", reason_until(UNTIL), UNTIL)]


@pytest.mark.parametrize("reason", ["", "bulkhead: node n1 is cordoned"])
def test_a_drain_that_users_undo_again_and_again_moves_no_deadline(reason: str) -> None:
    """An administrator of the cluster may resume a node, and rewrite its reason, more often than it is looked at."""
    states = ("ALLOCATED", "DRAIN") if reason else ("ALLOCATED",)
    view = SlurmView(nodes=(node(0, *states, reason=reason),), jobs=(job(1, 0),))
    late = GRACE.total_seconds() + 2 * OVERDUE.total_seconds()
    assert released(view, 1, worker(0), promised={"gpu-0": UNTIL}, now_after=late - 1) == [
        Drain("gpu-0", reason_until(UNTIL), UNTIL)
    ]
    gone = [DeleteWorker("gpu-0", "uid-0", "given back: past its deadline", LAST_GRACE_SECONDS)]
    assert released(view, 1, worker(0), promised={"gpu-0": UNTIL}, now_after=late) == gone
    # Nothing was promised yet, or a later moment: its jobs are told first.
    for promised in ({}, {"gpu-0": UNTIL}):
        assert isinstance(released(view, 1, worker(0), promised=promised, by=START, now_after=20)[0], Drain)


def test_a_user_who_resumes_a_worker_all_the_time_does_not_hold_it() -> None:
    made = World(slurm_spec(), targets={"gpu": 1})
    made.add_worker("gpu", 0)
    made.run_job(1, "gpu-0", seconds=9000)
    for _ in range(48):
        made.step()
        if "gpu-0" in made.workers:
            made.nodes["gpu-0"].draining, made.nodes["gpu-0"].reason = False, ""
        made.pass_time(3)
    assert not made.workers
    assert not made.broken


def test_a_drain_for_a_host_node_becomes_one_for_a_release() -> None:
    view = SlurmView(nodes=(node(0, "ALLOCATED", "DRAIN", reason="bulkhead: node n1 is cordoned"),), jobs=(job(1, 0),))
    assert released(view, 1, worker(0)) == [Drain("gpu-0", reason_until(UNTIL), UNTIL)]


def test_no_answer_is_never_taken_for_idle() -> None:
    assert released(None, 2, worker(0), worker(1)) == []
    assert released(None, 2, worker(0), worker(1, host="")) == [DeleteWorker("gpu-1", "uid-1", "given back: never started")]
    late = 2 * OVERDUE.total_seconds() + GRACE.total_seconds()
    assert released(None, 2, worker(0), worker(1), promised={"gpu-0": UNTIL}, now_after=late - 1) == []
    assert released(None, 2, worker(0), worker(1), promised={"gpu-0": UNTIL}, now_after=late) == [
        DeleteWorker("gpu-0", "uid-0", "past its deadline", LAST_GRACE_SECONDS)
    ]
    assert len(released(None, 2, worker(0), worker(1), by=UNTIL, now_after=late)) == 2


# -- laws

Event = tuple[str, int, float]
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["step", "job", "end", "silence", "speech", "foreign", "edit", "resume", "need", "time"]),
        st.integers(0, 5),
        st.floats(0, 90),
    ),
    max_size=40,
)


def disturb(world: World, event: Event, serial: int) -> None:
    """One thing that a tenant, its jobs, or its Slurm may do."""
    what, which, seconds = event
    name = f"gpu-{which}"
    node = world.nodes.get(name)
    match what:
        case "job" if node and name in world.workers and not node.draining and not node.down and not world.on(name):
            world.run_job(1000 + serial, name, seconds=seconds * 10, requeue=which % 2 == 0, priority=which)
        case "end" if node and world.on(name):
            world.end(world.on(name)[0].job_id)
        case "silence" | "speech":
            world.silent = what == "silence"
        case "foreign" if node and not node.draining and not node.reason:
            node.draining, node.reason = True, "my own reason"
        case "edit" if node and node.reason.startswith(GIVING):
            node.reason = f"{GIVING} until 2099-01-01T00:00:00+00:00"
        case "resume" if node and node.reason.startswith("bulkhead:"):
            node.draining, node.reason = False, ""
        case "need":
            world.targets["gpu"] = which
        case "time":
            world.pass_time(seconds)
        case "step":
            world.step()


@given(events=EVENTS, final=st.integers(0, 6))
def test_laws_of_a_release(events: list[Event], final: int) -> None:
    world = World(slurm_spec(node_set(minimum=0, maximum=6)), targets={"gpu": 6})
    world.spec = slurm_spec(node_set(minimum=0, maximum=6, gpus=2))
    for ordinal in range(6):
        world.add_worker("gpu", ordinal)
    for serial, event in enumerate(events):
        disturb(world, event, serial)
        assert not world.broken
        assert len(world.workers) <= 6
    # From here on the tenant rests, Slurm answers, and an admin allows `final` workers: all comes to rest in bounded time.
    world.silent = False
    world.spec = slurm_spec(node_set(minimum=final, maximum=final)) if final else slurm_spec()
    for _ in range(80):
        world.step()
        for name in [each.name for each in world.workers.values() if not each.host_node]:
            world.register(name)
        world.pass_time(10)
    assert not world.broken
    assert len(world.workers) == final
    assert not any(node.reason.startswith(GIVING) for name, node in world.nodes.items() if name in world.workers)
    assert final == 0 or world.nodes.keys() <= world.workers.keys()
    assert world.step() == ()


def test_a_worker_chosen_to_go_first_goes_before_those_that_lose_less() -> None:
    view = SlurmView(nodes=(node(0), node(1, "ALLOCATED")), jobs=(job(1, 1),))
    workers = [worker(0), worker(1)]

    def goes(**more: object) -> set[str]:
        return {action.node for action in released(view, 1, *workers, **more) if isinstance(action, Drain)}

    assert (goes(), goes(first=frozenset({"gpu-1"}))) == ({"gpu-0"}, {"gpu-1"})
