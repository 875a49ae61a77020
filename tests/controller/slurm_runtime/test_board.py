"""The board between ledger and Slurm, and a cluster that lives by it: a plane and a slurmrestd that are not real."""

from datetime import timedelta
from typing import Any, cast

import pytest

from controller.inside.calls import Plane
from controller.slurm.answers.endsignal import signal_of
from controller.slurm.answers.view import EndSignal
from controller.slurm.board import Board, OnHost
from controller.slurm.client.rest import SlurmRefused, SlurmRest
from controller.slurm.client.tokens import TokenSource
from controller.slurm.lease.fleet import Free
from controller.slurm.lease.reasons import TAKEN, signalled_in
from controller.slurm.lease.release import LAST_GRACE_SECONDS
from controller.slurm.loop import SlurmLoops
from controller.slurm.spec import NODE_SET_LABEL, ORDINAL_LABEL
from tests.controller.slurm_runtime.bed import Bed, order, until
from tests.controller.slurm_runtime.slurmrestd import KEY, job, number
from tests.controller.slurm_runtime.world import GPU, node_set


def back(bed: Bed, *names: str, within: float = 100.0) -> None:
    by = bed.clock.now().timestamp() + within
    bed.board.show(OnHost("team-a", name, by) for name in names)


async def workers(bed: Bed, count: int) -> None:
    sets = node_set(minimum=count, maximum=count)
    for _ in range(2):
        await bed.reconcile(sets)
        bed.register(*bed.workers())


async def test_the_ledger_hears_what_workers_cost_and_the_one_that_it_takes_is_back_in_time(bed: Bed) -> None:
    await workers(bed, 2)
    bed.run(1, "gpu-0", submit_line="sbatch --signal=B:USR1@30 --requeue train.sh")
    bed.board.show([OnHost("team-a", "gpu-0"), OnHost("team-a", "gpu-1")])
    elastic = node_set(maximum=2)
    await bed.reconcile(elastic)
    assert bed.board.rank_of("team-a", "gpu-1") == -1
    assert bed.board.rank_of("team-a", "gpu-0") == 1
    back(bed, "gpu-0")
    await bed.reconcile(elastic)
    assert TAKEN in bed.fake.nodes["gpu-0"]["reason"]
    assert bed.fake.signals == []
    bed.clock.advance(70)
    for _ in range(2):
        await bed.reconcile(elastic)
    assert bed.fake.signals == [(1, "USR1", "BATCH_JOB")]
    assert signalled_in(bed.fake.nodes["gpu-0"]["reason"]) == {1}
    bed.clock.advance(30)
    await bed.reconcile(elastic)
    assert bed.fake.jobs[1]["job_state"] == ["PENDING"]
    bed.fake.nodes["gpu-0"] |= {"state": ["IDLE", "DRAIN", "DYNAMIC_NORM"], "alloc_cpus": 0}
    await bed.reconcile(elastic)
    assert "gpu-0" not in bed.workers()


@pytest.mark.parametrize("requeue", [True, False])
async def test_a_task_of_a_job_array_is_signalled_and_ended_alone(bed: Bed, requeue: bool) -> None:
    """The last task of an array has the number of the array, which Slurm takes for all of its tasks."""
    await workers(bed, 2)
    asked = {"submit_line": "sbatch --array=0-1 --signal=USR1@30 train.sh", "requeue": requeue}
    bed.run(101, "gpu-0", array_job_id=number(100), array_task_id=number(0), **asked)
    bed.run(100, "gpu-1", array_job_id=number(100), array_task_id=number(1), **asked)
    back(bed, "gpu-1")
    await bed.reconcile(node_set(maximum=2))
    bed.clock.advance(70)
    await bed.reconcile(node_set(maximum=2))
    assert bed.fake.signals == [(100, "USR1", "FULL_STEPS_ONLY")]
    bed.clock.advance(30)
    await bed.reconcile(node_set(maximum=2))
    assert bed.fake.jobs[101]["job_state"] == ["RUNNING"]
    assert bed.fake.jobs[100]["job_state"] == ["PENDING"] if requeue else 100 not in bed.fake.jobs


async def test_a_controller_that_died_in_between_sends_no_signal_twice(bed: Bed) -> None:
    await workers(bed, 1)
    bed.run(1, "gpu-0", submit_line="sbatch --signal=USR1@3600 train.sh")
    for _ in range(3):
        back(bed, "gpu-0")
        await bed.reconcile(node_set(maximum=1))
        bed = again(bed)
    assert bed.fake.signals == [(1, "USR1", "FULL_STEPS_ONLY")]


def again(bed: Bed) -> Bed:
    """The same plane and Slurm, and a controller that knows nothing."""
    after = Bed(bed.plane, bed.fake)
    after.clock = bed.clock
    return after


async def test_what_does_not_end_is_deleted_with_little_left(bed: Bed) -> None:
    await workers(bed, 1)
    bed.run(1, "gpu-0")
    back(bed, "gpu-0", within=5)
    await bed.reconcile(node_set(maximum=1))
    bed.clock.advance(25)
    await bed.reconcile(node_set(maximum=1))
    assert bed.workers() == []
    assert bed.plane.graces["gpu-0"] == LAST_GRACE_SECONDS


async def test_workers_on_the_host_are_not_counted_twice(bed: Bed) -> None:
    bed.free = {GPU: Free(4)}
    await bed.reconcile(node_set())
    bed.fake.jobs[1] = job(1, tres_per_node="gres:gpu:2")
    await bed.reconcile(node_set())
    assert bed.workers() == ["gpu-0"]
    # The host counts it now, though it has no node.
    bed.free, bed.fake.jobs[2] = {GPU: Free(2)}, job(2, tres_per_node="gres:gpu:2")
    await bed.reconcile(node_set())
    assert bed.workers() == ["gpu-0"]
    bed.board.show([OnHost("team-a", "gpu-0")])
    await bed.reconcile(node_set())
    assert bed.workers() == ["gpu-0", "gpu-1"]


async def test_a_cluster_vouches_for_the_workers_that_its_host_ordered_and_no_more(bed: Bed) -> None:
    assert bed.board.vouched("team-a") is None
    await workers(bed, 2)
    await bed.reconcile(node_set(minimum=2, maximum=2))
    pods = bed.plane.of("Pod")
    mine = {pods[name]["metadata"]["uid"] for name in bed.workers()}
    assert len(mine) == 2
    assert bed.board.vouched("team-a") == mine
    # Its tenant creates another pod with the same labels, and a set that the controller did not order.
    for name, uid, labels in (("gpu-7", "forged", {}), ("own-0", "own", {NODE_SET_LABEL: "own"})):
        bed.plane.objects["Pod", name] = like(pods["gpu-0"], name, uid, labels | {ORDINAL_LABEL: name[-1]})
    await bed.reconcile(node_set(minimum=2, maximum=2))
    assert bed.board.vouched("team-a") == mine
    # Fewer are wanted: what is given back with grace stays what it is.
    await bed.reconcile(node_set(minimum=0, maximum=1))
    assert bed.board.vouched("team-a") == mine


def like(pod: dict[str, Any], name: str, uid: str, labels: dict[str, str]) -> dict[str, Any]:
    meta = pod["metadata"] | {"name": name, "uid": uid, "labels": pod["metadata"]["labels"] | labels}
    return pod | {"metadata": meta}


async def test_what_is_taken_back_ends_the_wait_of_that_tenants_task_alone(bed: Bed) -> None:
    loops = SlurmLoops(bed.clock, lambda _: cast(Plane, bed.plane), lambda _: {}, lambda _: None, board=bed.board)
    loops.order("team-a", order())
    await until(lambda: bed.clock.sleepers == 1)
    calls = len(bed.fake.calls)
    bed.board.show([OnHost("team-b", "gpu-0", 1.0)])
    bed.board.show([OnHost("team-b", "gpu-0", 1.0), OnHost("team-a", "gpu-0")])
    assert len(bed.fake.calls) == calls
    bed.board.show([OnHost("team-a", "gpu-0", 2.0)])
    await until(lambda: len(bed.fake.calls) > calls)
    await loops.close()
    assert bed.clock.sleepers == 0


def test_the_board_wakes_the_loops_that_are_concerned() -> None:
    board, woken = Board(), list[str]()
    board.listen(woken.append)
    assert board.on_host("a") is None
    board.show([OnHost("a", "x"), OnHost("b", "y", 5.0)])
    assert woken == ["b"]
    board.show([OnHost("a", "x", 9.0), OnHost("b", "y", 5.0)])
    assert woken == ["b", "a"]
    board.show([])
    assert woken == ["b", "a", "a", "b"]
    assert board.on_host("a") == {}
    board.silent()
    assert board.on_host("a") is None
    board.rank("a", {"x": 1})
    board.rank("a", {})
    assert board.rank_of("a", "x") is None
    board.rank("a", {"x": 1})
    board.vouch("a", frozenset({"u"}))
    board.forget("a")
    assert board.rank_of("a", "x") is None
    assert board.vouched("a") is None


async def test_no_signal_that_slurm_would_take_for_a_cancellation(bed: Bed) -> None:
    rest = SlurmRest(cast(Plane, bed.plane), TokenSource(KEY, bed.clock.now))
    bed.fake.jobs[1] = job(1, "RUNNING")
    for signal in ("", "usr1", "USR1&flags=FULL_JOB", "0"):
        with pytest.raises(SlurmRefused, match="not a signal"):
            await rest.signal("1", signal, batch=True)
    assert list(bed.fake.jobs) == [1]


SIGNALS: list[tuple[str, str, Any]] = [
    ("sbatch --signal=USR1 run.sh", "", EndSignal("USR1", timedelta(seconds=60))),
    ("sbatch -n 2 --signal B:SIGUSR2@120 run.sh", "", EndSignal("USR2", timedelta(seconds=120), batch=True)),
    ("salloc --signal=R:10@5", "", EndSignal("10", timedelta(seconds=5))),
    ("sbatch run.sh", "signal=B:TERM@30", EndSignal("TERM", timedelta(seconds=30), batch=True)),
    ("sbatch run.sh", "my first run; signal=USR1", EndSignal("USR1", timedelta(seconds=60))),
    ("sbatch --signal=B:USR1@9 run.sh", "signal=TERM", EndSignal("USR1", timedelta(seconds=9), batch=True)),
    ("sbatch run.sh", "a signal = USR1", None),
    ("sbatch --signal=KILL@60 run.sh", "signal=9", None),
    ("sbatch --signal", "", None),
    ("sbatch --signals=USR1", "signal=", None),
    ("sbatch --signal=USR1@999999999 run.sh", "signal=0@5", None),
    ("sbatch --signal=USR1;id", "signal=../../USR1", None),
    ("x" * 100_000 + " --signal=USR1", "y" * 100_000, None),
]


@pytest.mark.parametrize(("line", "comment", "wanted"), SIGNALS, ids=range(len(SIGNALS)))
def test_the_signal_that_a_job_asks_for(line: str, comment: str, wanted: EndSignal | None) -> None:
    assert signal_of(line, comment) == wanted
