"""Workers that wait in the ledger's queue say why: the NodeSet, the Tenant, and the jobs that wait for them."""

from typing import Any

import pytest

from controller.slurm.answers.view import SlurmJob, SlurmView
from controller.slurm.decide.status import READY, WAITING, verdict, waiting, waiting_condition
from controller.slurm.lease.fleet import Fleet, Note, Worker
from controller.slurm.lease.notes import MOST_NOTES_A_RECONCILE, WAITS, notes
from tests.controller.slurm_runtime.bed import Bed
from tests.controller.slurm_runtime.slurmrestd import job
from tests.controller.slurm_runtime.world import START, node_set, pending

WHY = "asks 2 nvidia.com/gpu, free in your quota 0, borrowable 0"


def waits(bed: Bed, name: str, reason: str = "CohortExhausted", message: str = WHY) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    bed.plane.objects["Pod", name]["status"] = {"phase": "Pending", "conditions": [condition]}


async def test_why_workers_wait_is_written_where_people_look_and_taken_away_again(bed: Bed) -> None:
    for name in ("slurmctld", "slurmrestd", "login"):
        bed.plane.add_daemon(name)
    bed.fake.jobs[1] = job(1, tres_per_node="gres:gpu:2")
    for _ in range(2):
        await bed.reconcile(node_set())
    waits(bed, "gpu-0", message=WHY.replace(" ", "\n", 1).replace("free", "\x1b[31mfree") + "\r" * 9000)
    found = await bed.reconcile(node_set())
    assert "\x1b" not in verdict(found, was=True).message
    assert "\n" not in bed.fake.jobs[1]["admin_comment"]
    waits(bed, "gpu-0")
    calls = len(bed.fake.called("POST", "/job/1"))
    found = await bed.reconcile(node_set())
    assert verdict(found, was=True).message == f"{READY}; 1 worker of gpu waits: CohortExhausted: {WHY}"
    (condition,) = bed.plane.objects["NodeSet", "gpu"]["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (WAITING, "True", "CohortExhausted")
    assert condition["message"] == f"1 worker waits, gpu-0: {WHY}"
    assert bed.fake.jobs[1]["admin_comment"] == f"{WAITS}gpu: CohortExhausted: {WHY}"
    # Nothing is written twice.
    before = len(bed.plane.writes)
    bed.clock.advance(3)
    await bed.reconcile(node_set())
    assert len(bed.plane.writes) == before
    assert len(bed.fake.called("POST", "/job/1")) == calls + 1
    bed.register("gpu-0")
    bed.run(1, "gpu-0", admin_comment=bed.fake.jobs[1]["admin_comment"])
    for _ in range(2):
        found = await bed.reconcile(node_set())
    assert verdict(found, was=True).message == READY
    assert bed.fake.jobs[1]["admin_comment"] == ""
    (condition,) = bed.plane.objects["NodeSet", "gpu"]["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "NoneWaits")
    before = len(bed.plane.writes)
    await bed.reconcile(node_set())
    assert len(bed.plane.writes) == before


def told(*jobs: SlurmJob, waits_for: tuple[str, str] = ("QuotaExceeded", "no")) -> dict[int, str]:
    fleet = Fleet(workers=(Worker("gpu-0", "gpu", 0, waits=waits_for),))
    found = list(notes(SlurmView(jobs=jobs), fleet))
    assert all(isinstance(each, Note) for each in found)
    return {each.job: each.text for each in found}


TEXT = f"{WAITS}gpu: QuotaExceeded: no"
JOBS: list[tuple[str, SlurmJob, str | None]] = [
    ("one that waits", pending(1), TEXT),
    ("one that knows", pending(1, note=TEXT), None),
    ("one that was told something else", pending(1, note=f"{WAITS}gpu: NoCapacity"), TEXT),
    ("an admin's comment", pending(1, note="ask ada first"), None),
    ("a drain is none of its business", pending(1, note="bulkhead: other"), None),
    ("one that is held", pending(1, held=True), None),
    ("one that depends on another", pending(1, reason="Dependency"), None),
    ("one that waits for another partition", pending(1, partitions=("cpu",)), None),
    ("one that may go to either", pending(1, partitions=("cpu", "gpu")), TEXT),
    ("one that runs by now", SlurmJob(1, frozenset({"RUNNING"}), partitions=("gpu",), note=TEXT), ""),
    ("one that has ended by now", SlurmJob(1, frozenset({"CANCELLED"}), partitions=("gpu",), note=TEXT), None),
    ("one that is held by now", pending(1, held=True, note=TEXT), ""),
]


@pytest.mark.parametrize(("name", "each", "text"), JOBS, ids=[each[0] for each in JOBS])
def test_who_is_told(name: str, each: SlurmJob, text: str | None) -> None:
    assert told(each) == ({} if text is None else {1: text})


def test_a_few_are_told_at_a_time_and_none_at_length() -> None:
    found = told(*(pending(each, priority=each) for each in range(100)), waits_for=("NoCapacity", "x" * 9000))
    assert sorted(found) == list(range(100 - MOST_NOTES_A_RECONCILE, 100))
    assert all(len(text) <= 400 for text in found.values())
    assert told(pending(1), waits_for=("", "")) == {}


def test_conditions_of_others_stay_and_no_text_has_no_bound() -> None:
    others: list[dict[str, Any]] = [{"type": "Mine", "status": "True"}]
    workers = [Worker(f"gpu-{each}", "gpu", each, waits=("NoCapacity", "y" * 9000)) for each in range(3)]
    made = waiting_condition("gpu", workers, others, START)
    assert made[0] == others[0]
    assert made[1]["message"].startswith("3 workers wait, gpu-0: y")
    assert len(made[1]["message"]) <= 2048
    assert waiting_condition("cpu", workers, others, START) == others
    assert len(waiting(workers)) < 400
    assert waiting([Worker("gpu-0", "gpu", 0, host_node="n1", waits=("NoCapacity", ""))]) == ""
