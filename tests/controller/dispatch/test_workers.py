"""What the ledger shows of Slurm's workers, what it takes over of what their Slurm says, and what it does not believe a pod."""

import json
from typing import Any

import msgspec

from bulkhead.api import labels, ledger, names
from bulkhead.api.ledger import Reclaimed
from bulkhead.kube.informer import Change
from controller.dispatch.seen import Pods
from controller.dispatch.workers import Workers
from controller.slurm.board import Board, OnHost
from tests.kit.fakeclock import FakeClock

OWNERS = json.dumps([{"apiVersion": f"{names.SLURM_GROUP}/v1alpha1", "kind": "NodeSet", "name": "gpu", "controller": True}])


def host_pod(
    name: str, *, by: float | None = None, worker: bool = True, ending: bool = False, noted_as: bool | None = None
) -> dict[str, Any]:
    noted = {labels.VIRTUAL_NAMESPACE: "slurm", labels.VIRTUAL_NAME: name, labels.VIRTUAL_OWNERS: OWNERS}
    noted[labels.VIRTUAL_UID] = f"{name}-virtual"
    if by is not None:
        noted[ledger.RECLAIM] = ledger.write_reclaim(Reclaimed(by, "ReclaimedBorrowed", "", noted_as))
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


def vouching(*names: str) -> Board:
    """A board on which the cluster of tenant red has listed its workers."""
    board = Board()
    board.vouch("red", frozenset(f"{name}-virtual" for name in names))
    return board


def test_what_is_shown_are_workers_that_are_not_on_their_way_out() -> None:
    board = vouching("gpu-0", "gpu-1", "gpu-2", "slurmctld-0")
    there = pods(
        host_pod("gpu-0", by=50.0),
        host_pod("gpu-1"),
        host_pod("gpu-2", by=50.0, ending=True),
        host_pod("slurmctld-0", by=50.0, worker=False),
    )
    Workers(board, there, FakeClock()).tell()
    assert board.on_host("red") == {"gpu-0": OnHost("red", "gpu-0", 50.0), "gpu-1": OnHost("red", "gpu-1")}
    assert board.on_host("blue") == {}


def test_workers_are_worth_what_their_slurm_says() -> None:
    board = vouching("gpu-0", "gpu-1", "gpu-3")
    there = pods(host_pod("gpu-0"), host_pod("gpu-1"), host_pod("gpu-3", worker=False))
    board.rank("red", {"gpu-0": 4, "gpu-3": 9})
    board.rank("blue", {"gpu-1": 7})
    workers = Workers(board, there, FakeClock())
    assert {pod.virtual_name: pod.loss for pod in workers.valued(there.all())} == {"gpu-0": 4, "gpu-1": None, "gpu-3": None}


def workers_among(workers: Workers, there: Pods) -> set[str]:
    """Those that count as workers in a snapshot."""
    return {pod.virtual_name for pod in workers.valued(there.all()) if pod.slurm_worker}


def test_a_pod_that_only_looks_like_a_worker_is_not_one() -> None:
    # All that it says its tenant wrote: namespace, labels, owner, name.
    board = vouching("gpu-0")
    there = pods(host_pod("gpu-0"), host_pod("gpu-9", by=50.0))
    board.rank("red", {"gpu-9": -1})
    workers = Workers(board, there, FakeClock())
    assert workers_among(workers, there) == {"gpu-0"}
    assert [pod.loss for pod in workers.valued(there.all())] == [None, None]
    workers.tell()
    assert board.on_host("red") == {"gpu-0": OnHost("red", "gpu-0")}
    # Nor is one of a tenant whose cluster has nothing to say of it.
    board.vouch("red", frozenset())
    assert workers_among(workers, there) == set()


def test_the_note_binds_every_later_leader() -> None:
    there = pods(host_pod("gpu-0", by=50.0, noted_as=True), host_pod("gpu-1", by=50.0, noted_as=False))
    for board in (Board(), vouching(), vouching("gpu-1")):
        assert workers_among(Workers(board, there, FakeClock()), there) == {"gpu-0"}


def test_a_cluster_that_has_not_spoken_has_a_minute() -> None:
    clock = FakeClock()
    board, there = Board(), pods(host_pod("gpu-0"), host_pod("other-0", worker=False))
    workers = Workers(board, there, clock)
    assert workers_among(workers, there) == {"gpu-0"}
    clock.advance(59)
    assert workers_among(workers, there) == {"gpu-0"}
    clock.advance(1)
    assert workers_among(workers, there) == set()
    board.vouch("red", frozenset({"gpu-0-virtual"}))
    assert workers_among(workers, there) == {"gpu-0"}
    # No cluster reports for it any longer.
    board.forget("red")
    assert workers_among(workers, there) == set()
