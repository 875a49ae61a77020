"""What the reconciler does with what was decided: reads, writes and what it remembers, over caches and writers in memory."""

import contextlib

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.errors import Forbidden, Unavailable, Unprocessable
from syncer import metrics
from syncer.quota.extent import Limits
from syncer.translate.podspec import placement
from syncer.work import UNPLACED, Again
from tests.kit import translationsamples as samples
from tests.syncer.pods.bed import GROUP, Bed, mirror, virtual


@pytest.fixture
def bed() -> Bed:
    return Bed()


async def test_an_orphan_goes_once_the_plane_was_read_and_stays_while_the_breaker_is_open(bed: Bed) -> None:
    bed.cached["host"] = mirror()
    assert await bed.reconcile() is None
    assert bed.done == [("read virtual",), ("delete host", "host-of-v1", None)]
    bed.breaker_closed = False
    assert await bed.reconcile() == 60.0
    assert bed.done == [("read virtual",)]


async def test_a_plane_that_is_not_trusted_is_tried_again_later(bed: Bed) -> None:
    bed.trusted = False
    bed.cached["host"] = mirror()
    assert await bed.reconcile() == 60.0
    bed.cached["virtual"] = virtual(deleting=30)
    assert await bed.reconcile() == 60.0


async def test_what_a_successor_told_is_not_taken_back_by_a_process_that_stood_still(bed: Bed) -> None:
    """Its copy of the host is from before the pod ran, and its write meets the successor's: the host itself is asked then."""
    bed.cached |= {"virtual": virtual(deleting=30), "host": mirror(deleting=True, phase="Pending")}
    ran = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    bed.live |= {"virtual": virtual(deleting=30, **ran), "host": mirror(deleting=True, **ran)}
    bed.conflicts = 1
    await bed.reconcile()
    assert bed.done == [("refer",), ("status", "Pending"), ("read virtual",), ("read host",), ("status", "Running")]
    # Positive control: another writer than a syncer says nothing of the host, and costs no read of it.
    bed.live["virtual"] = virtual(deleting=30)
    bed.conflicts = 1
    await bed.reconcile()
    assert bed.done == [("refer",), ("status", "Pending"), ("read virtual",), ("status", "Pending")]


async def test_the_references_of_a_pod_wait_for_its_predecessors_end(bed: Bed) -> None:
    bed.cached |= {"virtual": virtual("v2"), "host": mirror("v1")}
    assert await bed.reconcile() is None
    assert bed.done == [("read virtual",), ("delete host", "host-of-v1", 1)]
    bed.cached["host"] = None
    assert await bed.reconcile() is None
    assert bed.done == [("refer",), ("create",)]


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
async def test_the_breaker_is_told_whether_a_pod_had_ended(bed: Bed, phase: str) -> None:
    bed.cached["host"] = mirror(phase=phase)
    await bed.reconcile()
    assert bed.ended is (phase == "Succeeded")


async def test_a_predecessor_stays_while_the_breaker_is_open(bed: Bed) -> None:
    """A plane that lost its data may have pods of the same names by now, whose controllers made them again."""
    bed.cached |= {"virtual": virtual("v2"), "host": mirror("v1")}
    bed.breaker_closed = False
    assert await bed.reconcile() == 60.0
    assert bed.done == [("read virtual",)]


async def test_a_predecessor_that_the_create_met_is_deleted_after_a_read_of_its_own(bed: Bed) -> None:
    bed.cached["virtual"] = bed.live["virtual"] = virtual("v2")
    bed.in_the_way = mirror("v1")
    assert await bed.reconcile() == 1.0, "the cache never showed it, so its end may come without an event"
    assert bed.done == [("refer",), ("create",), ("read virtual",), ("delete host", "host-of-v1", 1)]


async def test_what_was_created_is_expected_until_the_cache_shows_it(bed: Bed) -> None:
    bed.cached["virtual"] = virtual()
    await bed.reconcile()
    bed.cached["virtual"] = None
    bed.live["host"] = mirror()
    assert await bed.reconcile() == 1.0
    assert bed.done == [("read host",), ("read virtual",), ("delete host", "host-of-v1", None)]
    bed.live["host"] = None
    assert await bed.reconcile() is None
    assert bed.done == [("read host",), ("release",)]
    assert await bed.reconcile() is None
    assert bed.done == [("release",)], "and forgotten then"


async def test_none_is_created_twice_while_the_cache_does_not_show_the_first(bed: Bed) -> None:
    """The host would charge the second to the quota before it says that the name is taken."""
    bed.cached["virtual"] = bed.live["virtual"] = virtual()
    await bed.reconcile()
    assert bed.done[-1] == ("create",)
    bed.live["host"] = mirror()
    assert await bed.reconcile() == 1.0
    assert bed.done == [("read virtual",), ("read host",), ("refer",)]
    bed.live["host"] = None
    await bed.reconcile()
    assert bed.done == [("read virtual",), ("read host",), ("refer",), ("create",)], "it went before the cache showed it"


@pytest.mark.parametrize(
    ("error", "asked"),
    [(Unprocessable(422, "Invalid", "no"), False), (Unavailable(503, "", "later"), True), (TimeoutError(), True)],
)
async def test_after_a_create_without_an_answer_the_host_is_asked(bed: Bed, error: Exception, asked: bool) -> None:
    bed.cached["virtual"] = bed.live["virtual"] = virtual()
    bed.failing = error
    with contextlib.suppress(Unavailable, TimeoutError):
        await bed.reconcile()
    bed.failing = None
    await bed.reconcile()
    assert (("read host",) in bed.done) is asked
    assert bed.done[-1] == ("create",)


async def test_a_pod_without_room_is_told_so_and_a_refused_one_takes_none(bed: Bed) -> None:
    bed.cached["virtual"] = bed.live["virtual"] = virtual()
    bed.extent.adopt(Limits(1, 1))
    assert await bed.reconcile() == 30
    assert bed.done[-1][0] == "refusal"
    assert bed.done[-1][1].startswith("pods may have 1 bytes together on the host")
    assert [reason for reason, _, _ in bed.warned] == ["QuotaExceeded"]
    bed.extent.adopt(Limits(1 << 30, 1))
    bed.failing = Unprocessable(422, "Invalid", "no")
    await bed.reconcile()
    assert metrics.POD_BYTES._value.get() == 0
    bed.failing = None
    await bed.reconcile()
    assert bed.done[-1] == ("create",)
    assert metrics.POD_BYTES._value.get() > 0


async def test_a_host_pod_that_an_earlier_create_made_for_other_marks_is_compared_again(bed: Bed) -> None:
    """A create may arrive at the host after it was given up, and be met by the next."""
    compared: list[str] = []
    bed.pods._creation._unchanged.note_patched = lambda _virtual, host: compared.append(host["metadata"]["uid"])  # type: ignore[method-assign]
    bed.cached["virtual"] = bed.live["virtual"] = virtual()
    bed.adopted = {placement.MADE_FOR: "other marks"}
    await bed.reconcile()
    assert compared == []
    bed.adopted = {}
    await bed.reconcile()
    assert compared == ["host-of-v1"]


async def test_an_earlier_host_pod_is_trusted_once_the_host_itself_has_no_other(bed: Bed) -> None:
    bed.cached["virtual"] = virtual()
    await bed.reconcile()
    earlier = samples.merged(mirror(), {"metadata": {"uid": "earlier"}, "spec": {"nodeName": "gpu-a"}})
    bed.cached["host"] = earlier
    assert await bed.reconcile() == 1.0
    assert bed.done == [("read host",), ("refer",)]
    bed.live["host"] = earlier
    assert await bed.reconcile() is None
    assert bed.done == [("read host",), ("note", "v1"), ("refer",), ("bind", "gpu-a")]
    assert await bed.reconcile() is None
    assert bed.done == [("refer",), ("bind", "gpu-a")], "nothing more is expected"


async def test_a_status_that_the_plane_refuses_keeps_no_change_from_the_host(bed: Bed) -> None:
    """A resize or a new label, which Services and network policies select by: the tenant asked for it all the same."""
    bed.placed.add("v1")
    bed.cached |= {"virtual": virtual(node="gpu-a"), "host": mirror(node="gpu-a", phase="Running")}
    bed.pods._patches.push = bed._does("push", lambda _virtual, host: host["metadata"]["uid"])  # type: ignore[method-assign]
    bed.refused = Forbidden(403, "Forbidden", "admission webhook denied the request")
    with pytest.raises(Forbidden):
        await bed.reconcile()
    assert bed.done[-2:] == [("status", "Running"), ("push", "host-of-v1")]


async def test_a_node_is_there_before_a_pod_is_bound_to_it(bed: Bed) -> None:
    bed.cached |= {"virtual": virtual(), "host": mirror(node="gpu-a")}
    bed.node_known = False
    with pytest.raises(Again):
        await bed.reconcile()


async def test_an_end_that_only_the_answer_to_the_deletion_shows_is_reported(bed: Bed) -> None:
    bed.placed.add("v1")
    bed.cached |= {"virtual": virtual(node="gpu-a", deleting=0), "host": mirror(node="gpu-a", phase="Running")}
    assert await bed.reconcile() is None
    assert bed.done == [("refer",), ("status", "Running"), ("delete host", "host-of-v1", 1), ("status", "Succeeded")]


async def test_an_unseen_end_is_reported_if_a_finalizer_waits_for_it(bed: Bed) -> None:
    held = samples.merged(virtual(deleting=30, startTime="x"), {"metadata": {"finalizers": ["example.com/waits"]}})
    bed.cached["virtual"] = held
    assert await bed.reconcile() is None
    assert bed.done == [("read host",), ("refer",), ("status", "Failed"), ("delete virtual", ("v1", 0))]


async def test_a_host_pod_that_the_host_deletes_is_reported_before_its_virtual_pod_goes(bed: Bed) -> None:
    bed.placed.add("v1")
    bed.cached |= {"virtual": virtual(node="gpu-a"), "host": mirror(node="gpu-a", deleting=True, phase="Running")}
    assert await bed.reconcile() is None
    assert bed.done == [("refer",), ("status", "Running"), ("delete virtual", ("v1", 30))]


async def test_the_key_of_all_pods_without_a_node_queues_them(bed: Bed) -> None:
    assert await bed.pods.reconcile(UNPLACED.key) is None
    assert bed.done == [("queue unplaced",)]


async def test_nothing_is_told_to_the_plane_of_a_place_before_the_host_has_noted_it(bed: Bed) -> None:
    bed.cached |= {"virtual": virtual(), "host": mirror(node="gpu-a")}
    bed.failing = Unavailable(503, "host", "etcd")
    with pytest.raises(Unavailable):
        await bed.reconcile()
    assert bed.done == [("note", "v1")]
    bed.failing = None
    await bed.reconcile()
    assert bed.done == [("note", "v1"), ("refer",), ("bind", "gpu-a")]
    await bed.reconcile()
    assert bed.done == [("refer",), ("bind", "gpu-a")], "noted once"


async def test_a_host_pod_from_before_the_tenant_bound_it_is_recreated(bed: Bed) -> None:
    bed.cached |= {"virtual": virtual(node="gpu-a"), "host": mirror()}
    assert await bed.reconcile() is None
    assert bed.done == [("refer",), ("delete host", "host-of-v1", None)]
    bed.trusted = False
    assert await bed.reconcile() == 60.0, "nothing may be deleted now"


async def test_a_pod_without_a_node_whose_group_is_gone_is_taken_back_once_the_plane_was_read(bed: Bed) -> None:
    bed.cached |= {"virtual": virtual(), "host": mirror()}
    bed.lost_group, bed.live_group = GROUP, {"metadata": {"uid": "g"}}
    with pytest.raises(Again):
        await bed.reconcile()
    assert bed.done == [("refer",), ("read group", "PodGroup")], "the cache of the plane is behind"
    bed.live_group = None
    await bed.reconcile()
    assert bed.done == [("refer",), ("read group", "PodGroup"), ("delete host", "host-of-v1", None)]
    # A group of the same name is there: its copy needs the place of the one before.
    bed.group_absent = False
    await bed.reconcile()
    assert bed.done == [("refer",), ("delete host", "host-of-v1", None)]
    bed.trusted = False
    with pytest.raises(Again) as later:
        await bed.reconcile()
    assert later.value.seconds == 60.0


@pytest.mark.parametrize("of", [{"node": "gpu-a"}, {"finalizers": ["example.org/held"]}, {"startTime": "2026-01-01T00:00:00Z"}])
async def test_a_pod_that_has_or_had_a_node_or_is_held_stays_when_its_group_goes(bed: Bed, of: Obj) -> None:
    bed.lost_group = GROUP
    bed.placed |= {"v1"} if of.get("node") else set()
    pod, host = virtual(node=of.get("node", "")), mirror(node=of.get("node", ""))
    pod["status"] = {"startTime": of["startTime"]} if "startTime" in of else {}
    host["metadata"] |= {"finalizers": of["finalizers"]} if "finalizers" in of else {}
    bed.cached |= {"virtual": pod, "host": host}
    with contextlib.suppress(AttributeError):  # nothing is patched here
        await bed.reconcile()
    assert ("read group", "PodGroup") not in bed.done


async def test_a_misplaced_pod_is_deleted_and_says_why(bed: Bed) -> None:
    bed.placed.add("v1")
    bed.cached |= {"virtual": virtual(node="gpu-b"), "host": mirror(node="gpu-a")}
    await bed.reconcile()
    assert bed.done == [("refer",), ("delete virtual", ("v1", 0))]
    assert [(reason, last) for reason, _, last in bed.warned] == [("Misplaced", True)]
    assert "'gpu-b'" in bed.warned[0][1]
    assert "'gpu-a'" in bed.warned[0][1]


async def test_a_pod_that_was_placed_and_is_gone_is_deleted_and_says_why(bed: Bed) -> None:
    bed.placed.add("v1")
    bed.cached["virtual"] = virtual(node="gpu-a")
    await bed.reconcile()
    assert bed.done == [("read host",), ("refer",), ("delete virtual", ("v1", 0))]
    assert [(reason, last) for reason, _, last in bed.warned] == [("Lost", True)]


async def test_what_its_own_scheduler_says_of_a_pod_stays(bed: Bed) -> None:
    waits = samples.pod({"schedulerName": "mine"}, {"uid": "v1", "resourceVersion": "1"})
    bed.cached["virtual"] = waits | {"status": {}}
    assert await bed.reconcile() == 30.0
    assert bed.done[-1][0] == "refusal"
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    bed.cached["virtual"] = waits | {"status": {"conditions": [told]}}
    assert await bed.reconcile() == 30.0
    assert bed.done == [("refer",)]
