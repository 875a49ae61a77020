"""What the ledger takes back from a tenant's Slurm: signals first, then the queue again, and the GPUs half a minute later."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.slurm.answers.view import EndSignal
from controller.slurm.lease.deadlines import Deadlines
from controller.slurm.lease.fleet import DeleteWorker, Down, Drain, Free, Requeue, SetReplicas, Signal, Undrain
from controller.slurm.lease.free import free_of, left
from controller.slurm.lease.plan import plan_leases
from controller.slurm.lease.reasons import TAKEN, deadline_in, is_taken, reason_until, signalled_in
from controller.slurm.lease.release import LAST_GRACE_SECONDS, ranks
from tests.controller.slurm_runtime.test_lease import created, world
from tests.controller.slurm_runtime.world import GPU, START, World, node_set, pending, slurm_spec

USR1 = EndSignal("USR1", timedelta(seconds=60), batch=True)


def taken(made: World, *workers: str, within: float = 180.0) -> None:
    made.taken = {name: made.now + timedelta(seconds=within) for name in workers}


def after(made: World, seconds: float) -> tuple[Any, ...]:
    made.pass_time(seconds)
    return made.step()


def test_a_worker_that_is_taken_back_goes_by_the_grace_of_its_tenant_where_that_ends_first() -> None:
    made = world(workers=2)
    made.run_job(1, "gpu-0", seconds=3600)
    made.run_job(2, "gpu-1", seconds=3600)
    taken(made, "gpu-0")
    made.step()
    assert deadline_in(made.nodes["gpu-0"].reason) == START + timedelta(seconds=120)
    assert is_taken(made.nodes["gpu-0"].reason)
    assert not made.nodes["gpu-1"].draining
    assert after(made, 119) == ()
    assert after(made, 1) == (Requeue(1, "gpu-0"),)
    made.step()
    assert sorted(made.workers) == ["gpu-1"]
    assert made.targets["gpu"] == 1
    assert not made.broken


def test_the_ledgers_deadline_bounds_the_grace() -> None:
    made = world(workers=1)
    made.run_job(1, "gpu-0", seconds=3600)
    taken(made, "gpu-0", within=30)
    made.step()
    assert deadline_in(made.nodes["gpu-0"].reason) == START + timedelta(seconds=30)
    assert after(made, 30) == (Requeue(1, "gpu-0"),)


@pytest.mark.parametrize("late", [10, 20])
def test_half_a_minute_after_its_deadline_nothing_is_left_of_a_worker_whatever_its_jobs_do(late: int) -> None:
    made = world(workers=1)
    made.run_job(1, "gpu-0", seconds=3600)
    taken(made, "gpu-0", within=30)
    made.step()
    made.do = lambda _: None  # type: ignore[method-assign] - Slurm takes no requeue
    harder = after(made, 30 + late)
    assert isinstance(harder[0], Down if late == 10 else DeleteWorker)
    assert late + LAST_GRACE_SECONDS <= 30


def test_an_idle_worker_that_is_taken_back_is_gone_in_two_steps() -> None:
    made = world(minimum=0, workers=2)
    taken(made, "gpu-1")
    assert (
        Drain("gpu-1", reason_until(START + timedelta(seconds=120), taken=True), START + timedelta(seconds=120)) in made.step()
    )
    assert DeleteWorker("gpu-1", "uid-2", "given back: drained") in made.step()
    made.step()
    assert made.targets["gpu"] == 1


SIGNALS = [
    ("at its lead before the deadline", USR1, 59, 60),
    ("at once where it asks for longer than the grace", replace(USR1, lead=timedelta(hours=1)), None, 0),
    ("at the deadline less a second", replace(USR1, lead=timedelta(seconds=1)), 118, 119),
]


@pytest.mark.parametrize(("name", "signal", "not_yet", "at"), SIGNALS, ids=[each[0] for each in SIGNALS])
def test_a_job_sees_the_signal_that_it_asks_for_once(name: str, signal: EndSignal, not_yet: int | None, at: int) -> None:
    made = world(workers=1)
    made.run_job(7, "gpu-0", seconds=3600)
    made.jobs[7].signal = signal
    taken(made, "gpu-0")
    made.step()
    if not_yet is not None:
        assert after(made, not_yet) == ()
        made.pass_time(at - not_yet)
    (sent,) = made.step()
    assert isinstance(sent, Signal)
    assert (sent.job, sent.node, sent.signal, sent.batch) == (7, "gpu-0", "USR1", True)
    assert signalled_in(made.nodes["gpu-0"].reason) == {7}
    assert is_taken(made.nodes["gpu-0"].reason)
    # The next leader knows it only from the drain's reason.
    assert made.step() == ()
    assert made.signalled == [(7, "USR1")]
    made.now = START + timedelta(seconds=120)
    assert made.step() == (Requeue(7, "gpu-0"),)


def test_a_job_that_asks_for_no_signal_is_sent_none() -> None:
    made = world(workers=1)
    made.run_job(7, "gpu-0", seconds=3600)
    taken(made, "gpu-0")
    for _ in range(12):
        after(made, 9)
    assert made.signalled == []


def test_a_job_on_two_workers_that_go_is_sent_its_signal_once() -> None:
    made = world(workers=2)
    made.run_job(7, "gpu-0", "gpu-1", seconds=3600)
    made.jobs[7].signal = USR1
    taken(made, "gpu-0", "gpu-1")
    made.step()
    for _ in range(4):
        after(made, 20)
    assert made.signalled == [(7, "USR1")]


def test_a_worker_that_is_spared_works_again() -> None:
    made = world(workers=1)
    made.run_job(1, "gpu-0", seconds=3600)
    taken(made, "gpu-0")
    made.step()
    made.taken = {}
    assert made.step() == (SetReplicas("gpu", 1), Undrain("gpu-0"))
    assert made.step() == ()


def test_while_the_ledger_is_silent_what_it_said_holds() -> None:
    made = world(workers=2)
    made.run_job(1, "gpu-0", seconds=3600)
    made.run_job(2, "gpu-1", seconds=3600)
    taken(made, "gpu-0", within=60)
    made.step()
    made.taken = None
    assert made.step() == ()
    assert after(made, 60) == (Requeue(1, "gpu-0"),)
    # Positive control: a drain of another cause is taken away.
    made = world(workers=2)
    made.run_job(1, "gpu-0", seconds=3600)
    made.nodes["gpu-0"].draining, made.nodes["gpu-0"].reason = True, reason_until(START + timedelta(seconds=60))
    made.taken = None
    assert Undrain("gpu-0") in made.step()


def test_a_fixed_worker_that_is_taken_back_waits_in_the_queue_under_its_name() -> None:
    made = world(minimum=2, maximum=2, workers=2)
    taken(made, "gpu-1")
    for _ in range(4):
        made.step()
    assert not made.workers["gpu-1"].host_node
    assert sorted(made.workers) == ["gpu-0", "gpu-1"]
    assert made.made == 3


def test_workers_that_no_job_waits_for_are_given_up_and_others_wait_on() -> None:
    made = world(gpus_free=8)
    made.gpus_soon = 0
    made.queue = [pending(1, gpus=2)]
    assert created(made) == 1
    (name,) = made.workers
    made.workers[name] = replace(made.workers[name], created=made.now)
    assert after(made, 600) == ()
    made.queue = []
    assert DeleteWorker(name, "uid-1", "given back: not known to Slurm") in made.step()
    assert made.targets["gpu"] == 0


def test_what_was_scaled_up_by_hand_waits_for_a_while() -> None:
    made = world()
    made.targets["gpu"] = 1
    assert created(made) == 1
    made.workers["gpu-0"] = replace(made.workers["gpu-0"], created=made.now)
    assert after(made, 59) == ()
    after(made, 1)
    assert made.targets["gpu"] == 0


ASKS = [
    ("what the ledger would give now, and one job more", 8, 2, 8, [2, 0]),
    ("all of it, where there is no ledger", 6, None, 8, [3, 0]),
    ("one job beyond it, so that the ledger knows of it", 8, 0, 8, [1, 0]),
    ("one job of two workers beyond it", 8, 0, 4, [2, 0]),
    ("nothing beyond the ceiling", 1, 0, 8, [0, 0]),
    ("the ceiling before the rest", 3, 8, 8, [1, 0]),
]


@pytest.mark.parametrize(("name", "free", "soon", "jobs", "wanted"), ASKS, ids=[each[0] for each in ASKS])
def test_the_queue_is_not_flooded(name: str, free: int, soon: int | None, jobs: int, wanted: list[int]) -> None:
    made = world(maximum=8)
    made.gpus_free, made.gpus_soon = free, soon
    size = 4 if "two workers" in name else 2
    made.queue = [pending(each, gpus=size, node_count=size // 2) for each in range(jobs)]
    found = []
    for _ in wanted:
        found.append(created(made))
        # What waits is counted by the host, and not given.
        made.gpus_free, made.gpus_soon = (
            free - 2 * len(made.workers),
            None if soon is None else max(0, soon - 2 * len(made.workers)),
        )
    assert found == wanted


def quota(hard: int, counted: int, **counts: int) -> dict[str, Any]:
    all_counts = {"nominal": 0, "ceiling": 0, "used": 0, "borrowed": 0, "lent": 0, "borrowable": 0} | counts
    said = {f"{GPU}@h100": all_counts, f"{GPU}@a100": dict.fromkeys(all_counts, 0)}
    text = str(said).replace("'", '"') if counts else None
    return {
        "metadata": {"annotations": {"ledger.bulkhead.dev/standing": text} if text else {}},
        "status": {
            "hard": {f"requests.{GPU}": str(hard), "requests.cpu": "8", "pods": "4"},
            "used": {f"requests.{GPU}": str(counted)},
        },
    }


def test_what_is_free_by_the_quota_and_what_the_ledger_counted() -> None:
    assert free_of(None) == {}
    assert free_of(quota(16, 6)) == {GPU: Free(10)}
    assert free_of(quota(16, 6, nominal=8, used=4, borrowable=3)) == {GPU: Free(10, 7)}
    assert free_of(quota(4, 6, nominal=4, used=6)) == {GPU: Free(0, 0)}


def test_workers_that_wait_are_counted_once() -> None:
    made = world(workers=1)
    made.add_worker("gpu", 1, started=False)
    made.add_worker("gpu", 2, started=False)
    workers = tuple(made.workers.values())
    sets = made.spec.node_sets
    assert left({GPU: Free(10)}, sets, workers, None) == {GPU: Free(6)}
    assert left({GPU: Free(10, 10)}, sets, workers, frozenset({"gpu-0", "gpu-1"})) == {GPU: Free(8, 6)}
    assert left({}, sets, workers, None) == {}
    assert left({GPU: Free(1, 1)}, sets, workers, None) == {GPU: Free(0, 0)}


def test_the_ledger_is_told_which_worker_costs_least() -> None:
    made = world(workers=4)
    made.run_job(1, "gpu-0", seconds=600)
    made.run_job(2, "gpu-1", seconds=60)
    made.run_job(3, "gpu-2", seconds=60, priority=99)
    view = made.view()
    assert view is not None
    found = ranks(view, made.workers.values(), made.now)
    assert sorted(found, key=lambda name: found[name]) == ["gpu-3", "gpu-1", "gpu-2", "gpu-0"]
    assert found["gpu-3"] < 0 <= found["gpu-1"]


@pytest.mark.parametrize(
    "reason",
    [
        "",
        "fan broken",
        "bulkhead: node n1 is cordoned",
        "fan broken, lent GPUs are taken back, signalled 1",
        f"signalled 1, {TAKEN}",
    ],
)
def test_other_reasons_say_nothing_of_it(reason: str) -> None:
    assert not is_taken(reason)
    assert signalled_in(reason) == frozenset()
    assert deadline_in(reason) is None


@given(st.booleans(), st.sets(st.integers(1, 2**32), max_size=64))
def test_a_reason_says_what_it_was_made_of(back: bool, jobs: set[int]) -> None:
    reason = reason_until(START, taken=back, signalled=jobs)
    assert (deadline_in(reason), is_taken(reason), signalled_in(reason)) == (START, back, jobs)
    assert len(reason) < 1024


# -- laws

Happening = tuple[str, int, float]
HAPPENINGS = st.lists(
    st.tuples(
        st.sampled_from(["take", "spare", "silence", "job", "edit", "time", "step", "crash"]),
        st.integers(0, 3),
        st.floats(0, 60),
    ),
    max_size=30,
)


def happen(made: World, happening: Happening, serial: int) -> None:
    what, which, seconds = happening
    name = f"gpu-{which}"
    node = made.nodes.get(name)
    assert made.taken is not None
    match what:
        case "take":
            made.taken[name] = made.now + timedelta(seconds=seconds)
        case "spare":
            made.taken.pop(name, None)
        case "silence":
            made.silent = not made.silent
        case "job" if node and name in made.workers and not node.draining and not node.down and not made.on(name):
            made.run_job(serial, name, seconds=seconds * 100)
            made.jobs[serial].signal = USR1
        case "edit" if node and "giving back" in node.reason:
            node.reason = "bulkhead: giving back until 2099-01-01T00:00:00+00:00"
        case "time":
            made.pass_time(seconds)
        case "step":
            made.step()
        case "crash":
            # It dies after some of its writes, and with it what it remembered.
            made.do(plan_leases(made.spec, made.view(), made.fleet(), made.now)[:which])
            made.deadlines = Deadlines()


@given(HAPPENINGS)
def test_whatever_happens_what_is_taken_is_back_in_time(happenings: list[Happening]) -> None:
    made = World(slurm_spec(node_set(minimum=0, maximum=4)), targets={"gpu": 4})
    for ordinal in range(4):
        made.add_worker("gpu", ordinal)
    for serial, happening in enumerate(happenings):
        happen(made, happening, serial)
    if not {"edit", "spare"} & {what for what, _, _ in happenings}:
        assert len(made.signalled) == len(set(made.signalled)), "a job was sent its signal twice"
    doomed = {name: made.workers[name].uid for name in made.taken or {} if name in made.workers}
    made.silent, made.taken = False, dict.fromkeys(doomed, made.now)
    until = made.now + timedelta(seconds=30)
    while made.now < until:
        made.step()
        made.pass_time(3)
    assert not [name for name, uid in doomed.items() if name in made.workers and made.workers[name].uid == uid]
