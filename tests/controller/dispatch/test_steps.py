"""What is done next with a pod that is taken back, as a table."""

import json
from dataclasses import replace
from typing import Any

import pytest

from bulkhead.api import ledger
from bulkhead.api.ledger import Reclaimed
from controller.dispatch.steps import Next, ReclaimStep, last_grace, next_step
from tests.controller.dispatch.pods import seen

DEADLINE = 1000.0
NOTE = {ledger.RECLAIM: ledger.write_reclaim(Reclaimed(DEADLINE, "ReclaimedBorrowed", "because"))}
MARKED = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
OWNERS = '[{"apiVersion": "slurm.bulkhead.dev/v1alpha1", "kind": "NodeSet", "name": "gpu", "controller": true}]'
SLURM = {
    "notes": NOTE | {"bulkhead.dev/virtual-namespace": "slurm", "bulkhead.dev/virtual-owners": OWNERS},
    "meta": {"labels": {"app.kubernetes.io/part-of": "slurm", "app.kubernetes.io/name": "slurmd"}},
}
FORGED = SLURM | {"notes": SLURM["notes"] | {ledger.RECLAIM: ledger.write_reclaim(Reclaimed(DEADLINE, "", "", worker=False))}}
GOING = {"deletionTimestamp": ledger.moment(DEADLINE + 3600)}
GOING_SOON = {"deletionTimestamp": ledger.moment(DEADLINE + 20)}


@pytest.mark.parametrize(
    ("pod", "cause", "now", "expected"),
    [
        ({}, "ReclaimedBorrowed", 0, Next(ReclaimStep.NOTE)),
        ({"notes": NOTE}, "ReclaimedBorrowed", 0, Next(ReclaimStep.EVICT, DEADLINE)),
        ({"notes": NOTE, "status": MARKED}, "ReclaimedBorrowed", 0, Next(ReclaimStep.EVICT, DEADLINE)),
        ({"notes": NOTE}, "ReclaimedBorrowed", DEADLINE, Next(ReclaimStep.MARK)),
        ({"notes": NOTE, "status": MARKED}, "ReclaimedBorrowed", DEADLINE, Next(ReclaimStep.DELETE)),
        ({"node": ""}, "ReclaimedBorrowed", 0, Next(ReclaimStep.DROP)),
        ({"node": "", "notes": NOTE}, "ReclaimedBorrowed", 0, Next(ReclaimStep.DROP)),
        ({"node": ""}, "GangNotBound", 0, Next(ReclaimStep.DROP)),
        ({}, "GangNotBound", 0, Next(ReclaimStep.NOTE)),
        ({"notes": NOTE}, "GangNotBound", 0, Next(ReclaimStep.DROP)),
        (SLURM, "ReclaimedBorrowed", DEADLINE + 29, Next(None, DEADLINE + 30)),
        (SLURM, "ReclaimedBorrowed", DEADLINE + 30, Next(ReclaimStep.MARK)),
        (FORGED, "ReclaimedBorrowed", 0, Next(ReclaimStep.EVICT, DEADLINE)),
        (FORGED | {"status": MARKED}, "ReclaimedBorrowed", DEADLINE, Next(ReclaimStep.DELETE)),
        (SLURM | {"status": MARKED}, "ReclaimedBorrowed", DEADLINE + 30, Next(ReclaimStep.DELETE)),
        ({"notes": NOTE, "meta": GOING}, "ReclaimedBorrowed", 0, Next(None, DEADLINE)),
        ({"notes": NOTE, "meta": GOING}, "ReclaimedBorrowed", DEADLINE, Next(ReclaimStep.DELETE)),
        ({"notes": NOTE, "meta": GOING_SOON}, "ReclaimedBorrowed", DEADLINE, Next(None)),
        # Its tenant deleted it with an hour of grace before the ledger evicted it: it is noted, and its grace is shortened.
        ({"meta": GOING}, "ReclaimedBorrowed", 0, Next(ReclaimStep.NOTE)),
        ({"meta": GOING, "node": ""}, "ReclaimedBorrowed", 0, Next(None, DEADLINE)),
        ({"meta": GOING_SOON}, "ReclaimedBorrowed", 0, Next(None)),
    ],
)
def test_one_step_after_another(pod: dict[str, Any], cause: str, now: float, expected: Next) -> None:
    found = seen(**pod)
    noted = Reclaimed(DEADLINE, cause, "") if found.reclaim is None else replace(found.reclaim, cause=cause)
    assert next_step(found, noted, now) == expected


@pytest.mark.parametrize("worker", [True, False, None])
def test_whether_it_is_a_worker_stands_in_the_note(worker: bool | None) -> None:
    noted = Reclaimed(DEADLINE, "ReclaimedBorrowed", "because", worker)
    assert ledger.read_reclaim({ledger.RECLAIM: ledger.write_reclaim(noted)}) == noted


@pytest.mark.parametrize("worker", [1, "true", [], {}])
def test_a_note_that_says_anything_else_of_that_says_nothing(worker: Any) -> None:
    said = json.dumps({"by": ledger.moment(DEADLINE), "cause": "x", "message": "", "worker": worker})
    assert ledger.read_reclaim({ledger.RECLAIM: said}) == Reclaimed(DEADLINE, "x", "")


@pytest.mark.parametrize(("own", "left"), [(5, 5), (0, 1), (3600, 30), (None, 30)])
def test_the_deadline_leaves_a_pod_half_a_minute_at_most(own: int | None, left: int) -> None:
    assert last_grace(seen(terminationGracePeriodSeconds=own)) == left
