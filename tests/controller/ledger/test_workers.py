"""What the ledger shows of Slurm's workers, and what it takes over of what their Slurm says."""

import json
from typing import Any

import msgspec

from bulkhead.api import labels, ledger, names
from bulkhead.api.ledger import Reclaimed
from bulkhead.kube.informer import Change
from controller.ledger.seen import Pods
from controller.ledger.workers import Workers
from controller.slurm.board import Board, OnHost

OWNERS = json.dumps([{"apiVersion": f"{names.SLURM_GROUP}/v1alpha1", "kind": "NodeSet", "name": "gpu", "controller": True}])


def host_pod(name: str, *, by: float | None = None, worker: bool = True, ending: bool = False) -> dict[str, Any]:
    noted = {labels.VIRTUAL_NAMESPACE: "slurm", labels.VIRTUAL_NAME: name, labels.VIRTUAL_OWNERS: OWNERS}
    if by is not None:
        noted[ledger.RECLAIM] = ledger.write_reclaim(Reclaimed(by, "ReclaimedBorrowed", ""))
    meta = {
        "name": f"{name}-host",
        "namespace": "bh-red-work",
        "uid": name,
        "resourceVersion": "1",
        "annotations": noted,
        "labels": {"app.kubernetes.io/part-of": "slurm", "app.kubernetes.io/name": "slurmd" if worker else "slurmctld"},
    }
    if ending:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": meta, "spec": {"nodeName": "n1", "containers": []}, "status": {"phase": "Running"}}


def pods(*objects: dict[str, Any]) -> Pods:
    made = Pods(lambda: 0.0, lambda: None)
    for obj in objects:
        meta, _ = made.shrink(msgspec.json.encode(obj), None)
        made.heard(Change("added", meta.key, meta))
    return made


def test_what_is_shown_are_workers_that_are_not_on_their_way_out() -> None:
    board = Board()
    there = pods(
        host_pod("gpu-0", by=50.0),
        host_pod("gpu-1"),
        host_pod("gpu-2", by=50.0, ending=True),
        host_pod("slurmctld-0", by=50.0, worker=False),
    )
    Workers(board, there).tell()
    assert board.on_host("red") == {"gpu-0": OnHost("red", "gpu-0", 50.0), "gpu-1": OnHost("red", "gpu-1")}
    assert board.on_host("blue") == {}


def test_workers_are_worth_what_their_slurm_says() -> None:
    board = Board()
    there = pods(host_pod("gpu-0"), host_pod("gpu-1"), host_pod("gpu-3", worker=False))
    board.rank("red", {"gpu-0": 4, "gpu-3": 9})
    board.rank("blue", {"gpu-1": 7})
    workers = Workers(board, there)
    assert {pod.virtual_name: pod.loss for pod in workers.valued(there.all())} == {"gpu-0": 4, "gpu-1": None, "gpu-3": None}
