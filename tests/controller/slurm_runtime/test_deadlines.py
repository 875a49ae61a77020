"""What the platform remembers of deadlines: they only ever move forward to an earlier moment, and end with their cause."""

from datetime import timedelta

from controller.slurm.answers.view import SlurmNode, SlurmView
from controller.slurm.lease.deadlines import Deadlines
from controller.slurm.lease.fleet import Drain, Undrain, Worker
from controller.slurm.lease.release import reason_until
from tests.controller.slurm_runtime.world import START

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
    first = Deadlines().since({"gpu"}, START)
    assert first.since({"gpu", "cpu"}, LATE).over_since == {"gpu": START, "cpu": LATE}
    assert first.since((), LATE).over_since == {}
