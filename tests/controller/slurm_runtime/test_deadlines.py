"""What the platform remembers of deadlines: they only ever move forward to an earlier moment, and end with their cause."""

from datetime import timedelta

from controller.slurm.answers.view import SlurmNode, SlurmView
from controller.slurm.lease.deadlines import Deadlines
from controller.slurm.lease.fleet import Drain, Undrain, Worker
from controller.slurm.lease.reasons import deadline_in, reason_until
from tests.controller.slurm_runtime.world import LEASE, START, World, node_set, slurm_spec

EARLY, LATE = START + timedelta(minutes=1), START + timedelta(minutes=2)
WORKER = Worker("gpu-0", "gpu", 0, "uid", "Running", host_node="n1")
IDLE = SlurmView(nodes=(SlurmNode("gpu-0", states=frozenset({"IDLE"})),))
LEAVING = SlurmView(nodes=(SlurmNode("gpu-0", states=frozenset({"IDLE", "DRAIN"}), reason=reason_until(LATE)),))


def test_the_earliest_deadline_of_a_worker_is_kept() -> None:
    drain = Drain("gpu-0", reason_until(EARLY), EARLY)
    first = Deadlines().after([drain], IDLE, [WORKER])
    assert first.promised == {"gpu-0": EARLY}
    assert first.after([Drain("gpu-0", reason_until(LATE), LATE)], LEAVING, [WORKER]).promised == {"gpu-0": EARLY}
    # A drain for a host node has no deadline.
    assert Deadlines().after([Drain("gpu-0", "bulkhead: node n1 is cordoned")], IDLE, [WORKER]).promised == {}


def test_a_worker_that_stays_loses_its_deadline_and_silence_changes_nothing() -> None:
    kept = Deadlines(promised={"gpu-0": EARLY})
    assert kept.after([], LEAVING, [WORKER]) == kept
    assert kept.after([], None, [WORKER]) == kept
    assert kept.after([Undrain("gpu-0")], LEAVING, [WORKER]).promised == {}
    assert kept.after([], IDLE, [WORKER]).promised == {}


def test_too_many_workers_are_counted_from_the_first_reconcile_that_found_them() -> None:
    first = Deadlines().since({"gpu": 1}, START)
    assert first.since({"gpu": 1, "cpu": 0}, LATE).over_since == {"gpu": START, "cpu": LATE}
    assert first.since({"gpu": 2}, LATE).over_since == {"gpu": START}
    assert first.since({}, LATE).over_since == {}


def test_a_bound_that_is_lowered_again_leaves_the_grace_of_those_that_go_only_then() -> None:
    made = World(slurm_spec(node_set(maximum=2)), targets={"gpu": 3})
    for ordinal in range(3):
        made.add_worker("gpu", ordinal)
        made.run_job(ordinal, f"gpu-{ordinal}", seconds=3000 - ordinal)
    made.step()
    assert deadline_in(made.nodes["gpu-2"].reason) == START + LEASE.grace
    made.pass_time(110)
    made.spec = slurm_spec(node_set(maximum=1))
    made.step()
    assert deadline_in(made.nodes["gpu-2"].reason) == START + LEASE.grace
    assert deadline_in(made.nodes["gpu-1"].reason) == made.now + LEASE.grace
    made.pass_time(100)
    for _ in range(3):
        made.step()
    assert sorted(made.workers) == ["gpu-0", "gpu-1"]
    assert 1 in made.jobs
    made.pass_time(20)
    for _ in range(3):
        made.step()
    assert sorted(made.workers) == ["gpu-0"]
    assert not made.broken
