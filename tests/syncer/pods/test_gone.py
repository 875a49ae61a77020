"""What a tenant reads of a pod whose host pod was gone before a reconcile saw how, or why, it ended."""

import json
from typing import Any

import pytest

from bulkhead.api import ledger
from bulkhead.api.conditions import condition_of
from bulkhead.api.ledger import Reclaimed
from bulkhead.api.objects import Obj
from bulkhead.kube.codec import compact
from bulkhead.kube.errors import ApiError, KubeError
from bulkhead.kube.informer import Change
from bulkhead.kube.watch import MOST_LINE_BYTES
from syncer.watch.lastpods import LastPods
from tests.syncer.pods.bed import HOST_KEY, KEY, Bed, mirror, virtual

RECLAIM = {ledger.RECLAIM: ledger.write_reclaim(Reclaimed(1767225600.0, "ReclaimedBorrowed", "Another needs its quota."))}
JOBS = {"finalizers": ["batch.kubernetes.io/job-tracking"]}
RUNNING: dict[str, Any] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
ENDED: dict[str, Any] = RUNNING | {"phase": "Failed"}


class Plane(Bed):
    """A bed that keeps the statuses that are written into the plane."""

    refusal: KubeError | None = None

    async def _status(self, _r: Any, virtual: Obj, desired: Obj) -> Obj:
        if self.refusal is not None:
            raise self.refusal
        self.done.append(("status", desired))
        return virtual | {"status": desired}

    @property
    def shown(self) -> Obj:
        """The status that was written last."""
        return next((entry[1] for entry in reversed(self.done) if entry[0] == "status"), {})


@pytest.fixture
def bed() -> Plane:
    bed = Plane()
    bed.placed.add("v1")
    return bed


def owned(*, deleting: int | None = None) -> Obj:
    """A running virtual pod of a Job."""
    pod = virtual(node="gpu-a", deleting=deleting, **RUNNING)
    return pod | {"metadata": pod["metadata"] | JOBS}


def gone(host: Obj, noted: dict[str, str] | None = None) -> Change:
    """The event by which the host reports the end of this pod."""
    meta = host["metadata"]
    raw = json.dumps(host | {"metadata": meta | {"annotations": meta["annotations"] | (noted or {})}}).encode()
    return Change("deleted", HOST_KEY, compact(raw)[0], last=raw)


async def test_a_pod_that_a_reclaim_ended_unseen_says_so_to_the_owner_that_waits_for_its_end(bed: Plane) -> None:
    bed.last.changed(gone(mirror(node="gpu-a", deleting=True, **RUNNING), RECLAIM))
    bed.cached["virtual"] = owned(deleting=0)
    await bed.reconcile()
    assert bed.shown["phase"] == "Failed"
    assert (bed.shown["reason"], bed.shown["message"]) == ("ReclaimedBorrowed", "Another needs its quota.")
    assert condition_of({"status": bed.shown}, "DisruptionTarget")["reason"] == "ReclaimedBorrowed"
    assert bed.done[-1] == ("delete virtual", ("v1", 0))


async def test_a_pod_that_a_reclaim_ended_unseen_goes_with_the_event_of_its_reclaim(bed: Plane) -> None:
    bed.last.changed(gone(mirror(node="gpu-a", deleting=True, **RUNNING), RECLAIM))
    bed.cached["virtual"] = virtual(node="gpu-a", **RUNNING)
    await bed.reconcile()
    assert condition_of({"status": bed.shown}, "DisruptionTarget")["message"] == "Another needs its quota."
    assert [(reason, last) for reason, _, last in bed.warned] == [("ReclaimedBorrowed", True)], "and not Lost"
    assert bed.done[-1] == ("delete virtual", ("v1", 0))


@pytest.mark.parametrize("deleting", [None, 0])
async def test_a_result_that_came_with_the_end_is_reported(bed: Plane, deleting: int | None) -> None:
    bed.last.changed(gone(mirror(node="gpu-a", deleting=True, **ENDED)))
    bed.cached["virtual"] = owned(deleting=deleting)
    await bed.reconcile()
    assert bed.shown["phase"] == "Failed"
    assert "reason" not in bed.shown, "the host's own word, and not Lost"
    assert bed.warned == []


@pytest.mark.parametrize(
    "last",
    [
        gone(mirror(node="gpu-a", **RUNNING), RECLAIM),  # removed by another hand before the reclaim ended it
        gone(mirror(node="gpu-a", deleting=True, **RUNNING)),
        gone(mirror("v0", node="gpu-a", deleting=True, **RUNNING), RECLAIM),  # of an earlier virtual pod
        gone(mirror(deleting=True), RECLAIM),  # of an earlier host pod, which never had a node
    ],
)
async def test_a_pod_whose_last_copy_says_nothing_of_its_end_is_lost(bed: Plane, last: Change) -> None:
    bed.last.changed(last)
    bed.cached["virtual"] = owned(deleting=0)
    await bed.reconcile()
    assert bed.shown["reason"] == "Lost"


async def test_a_pod_that_ended_and_was_deleted_before_its_end_was_seen_stays_as_ended(bed: Plane) -> None:
    bed.last.changed(gone(mirror(node="gpu-a", **RUNNING | {"phase": "Succeeded"}), RECLAIM))
    bed.cached["virtual"] = virtual(node="gpu-a", **RUNNING)
    await bed.reconcile()
    assert bed.shown["phase"] == "Succeeded"
    assert [entry[0] for entry in bed.done] == ["refer", "status"], "it is not deleted"
    assert not [reason for reason, _, last in bed.warned if last]


async def test_an_end_without_a_start_time_cannot_be_reported_on_a_pod_that_has_one(bed: Plane) -> None:
    bed.last.changed(gone(mirror(node="gpu-a", phase="Succeeded")))
    bed.cached["virtual"] = virtual(node="gpu-a", **RUNNING)
    await bed.reconcile()
    assert bed.done[-1] == ("delete virtual", ("v1", 0))


async def test_a_pod_that_was_placed_and_gone_before_either_was_seen_does_not_run_again(bed: Plane) -> None:
    bed.placed.clear()
    bed.cached |= {"virtual": virtual(), "host": mirror()}
    bed.live["virtual"] = virtual()
    bed.last.changed(gone(mirror(node="gpu-a", deleting=True, **ENDED), RECLAIM))
    bed.cached["host"] = None
    await bed.reconcile()
    assert bed.done[0] == ("note", "v1"), "on the host, before the plane learns of it"
    assert ("create",) not in bed.done
    assert bed.shown["phase"] == "Failed"
    assert bed.done[-1] == ("delete virtual", ("v1", 0))


async def test_a_deleted_pod_ends_although_the_plane_refuses_its_status(bed: Plane) -> None:
    bed.refusal = ApiError(500, "InternalError", "failed calling webhook")
    bed.cached |= {"virtual": virtual(deleting=30), "host": mirror(node="gpu-a", **RUNNING)}
    with pytest.raises(ApiError):
        await bed.reconcile()
    assert bed.done[-1] == ("delete host", "host-of-v1", 30)


async def test_a_pod_whose_host_pod_is_gone_goes_although_the_plane_refuses_its_status(bed: Plane) -> None:
    bed.refusal = ApiError(500, "InternalError", "failed calling webhook")
    bed.last.changed(gone(mirror(node="gpu-a", deleting=True, **ENDED)))
    bed.cached["virtual"] = virtual(node="gpu-a", **RUNNING)
    await bed.reconcile()
    assert bed.done[-1] == ("delete virtual", ("v1", 0))
    bed.cached["virtual"] = owned(deleting=0)
    with pytest.raises(ApiError):
        await bed.reconcile()
    assert "delete virtual" not in [entry[0] for entry in bed.done], "its owner waits for the end"


async def test_the_last_copy_goes_with_both_pods_and_with_the_next_of_its_name(bed: Plane) -> None:
    last = gone(mirror(node="gpu-a"))
    bed.last.changed(last)
    assert bed.last.of(HOST_KEY, "v1") is not None
    await bed.reconcile()
    assert bed.last.of(HOST_KEY, "v1") is None, f"both pods of {KEY} are gone"
    pods = LastPods()
    pods.changed(last)
    pods.changed(Change("added", HOST_KEY, last.meta))
    assert pods.of(HOST_KEY, "v1") is None


def test_a_pod_as_large_as_a_watch_may_send_is_kept() -> None:
    pods = LastPods()
    pods.changed(gone(mirror(node="gpu-a", message="x" * MOST_LINE_BYTES)))
    assert pods.of(HOST_KEY, "v1") is not None
