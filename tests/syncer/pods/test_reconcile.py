"""What the reconciler does with what was decided: reads, writes and what it remembers, over caches and writers in memory."""

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube.errors import Conflict, Forbidden, Unavailable, Unprocessable
from bulkhead.kube.objects import Key
from syncer import metrics
from syncer.pods.reconcile import Pods
from syncer.quota.extent import Extent, Limits
from syncer.translate.kinds import gate
from syncer.translate.podspec import placement
from syncer.watch.lastpods import LastPods
from syncer.work import UNPLACED, Again, Item, Stale
from tests.kit import translationsamples as samples
from tests.kit.fakeclock import FakeClock

KEY = Key("team", "web-0")
HOST_KEY = Key("work", "web-0-x")
GROUP = Item("PodGroup", Key("team", "gang"))


def virtual(uid: str = "v1", *, node: str = "", deleting: int | None = None, **status: Any) -> Obj:
    meta: Obj = {"uid": uid, "resourceVersion": "1"}
    if deleting is not None:
        meta |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": deleting}
    return samples.pod({"nodeName": node} if node else {}, meta) | {"status": status}


def mirror(of: str = "v1", *, node: str = "", deleting: bool = False, **status: Any) -> Obj:
    meta: Obj = {
        "name": HOST_KEY.name,
        "namespace": HOST_KEY.namespace,
        "uid": f"host-of-{of}",
        "labels": {marks.SYNCED: marks.SYNCED_BY_SYNCER},
        "annotations": {marks.VIRTUAL_UID: of},
    }
    if deleting:
        meta |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    return {"metadata": meta, "spec": {"nodeName": node} if node else {}, "status": status}


class Placed(set[str]):
    """What the host remembers to have placed."""

    def __init__(self, bed: "Bed") -> None:
        super().__init__()
        self.bed = bed

    async def note(self, uid: str) -> None:
        self.bed.done.append(("note", uid))
        if self.bed.failing is not None:
            raise self.bed.failing
        self.add(uid)


class Bed:
    """One pod's two sides as the caches and the servers have them, and a list of what is done."""

    def __init__(self) -> None:
        self.cached: dict[str, Obj | None] = {"virtual": None, "host": None}
        self.live: dict[str, Obj | None] = {"virtual": None, "host": None}
        self.done: list[tuple[Any, ...]] = []
        self.trusted = self.breaker_closed = self.node_known = True
        # What the breaker was told of the last pod.
        self.ended: bool | None = None
        self.in_the_way: Obj | None = None
        self.lost_group: Item | None = None
        self.live_group: Obj | None = None
        self.group_absent = True
        self.failing: Exception | None = None
        self.adopted: dict[str, str] = {}
        self.placed: Any = Placed(self)
        self.warned: list[tuple[str, str, bool]] = []
        # How many of the next statuses meet a pod that something wrote meanwhile.
        self.conflicts = 0
        # What a webhook of the tenant answers to each status.
        self.refused: Exception | None = None
        self.last = LastPods()
        view = samples.VIEW
        empty: Any = SimpleNamespace(store=SimpleNamespace(meta=lambda _key: None))
        caches: Any = SimpleNamespace(
            virtual={"Pod": empty}, host={"Pod": empty}, view=lambda: view, view_serial=1,
            virtual_pod=lambda _key: self.cached["virtual"], host_pod=lambda _key: self.cached["host"],
            host_key=lambda _kind, _key: HOST_KEY, namespace_ending=lambda _name: False,
            kinds={"PodGroup": "PodGroup"}, queue_unplaced=lambda: self.done.append(("queue unplaced",)),
        )  # fmt: skip
        host: Any = SimpleNamespace(read=self._reads("host"), create=self._create, delete=self._delete, end=self._end)
        plane: Any = SimpleNamespace(
            read=self._reads("virtual"), status=self._status, behind=lambda _pod: False,
            bind=self._does("bind", lambda _pod, node: node), refusal=self._does("refusal", lambda _pod, why: str(why)),
            delete_pod=self._does("delete virtual", lambda pod, *, grace, why: (pod["metadata"]["uid"], grace)),
        )  # fmt: skip
        quiet: Any = SimpleNamespace(
            around=lambda *_: gate.NOTHING_AROUND,
            forget=lambda *_: None,
            check=lambda *_: None,
            claim=lambda *_: None,
            drop=lambda *_: None,
            add=lambda *_, **__: None,
            warn=lambda _pod, reason, text, last=False: self.warned.append((reason, text, last)),
        )
        groups: Any = SimpleNamespace(
            around=lambda *_: gate.NOTHING_AROUND, forget=lambda *_: None, check=lambda *_: None, follow=lambda *_: None,
            lost=lambda _key: self.lost_group, is_absent=lambda _group: self.group_absent,
        )  # fmt: skip
        references: Any = SimpleNamespace(
            of=lambda _item: (), set=lambda *_: (self.done.append(("refer",)), (frozenset(), frozenset()))[1],
            forget=lambda _item: (self.done.append(("release",)), frozenset[Item]())[1],
        )  # fmt: skip
        other: Any = SimpleNamespace(
            queue=lambda *_: None, forget=lambda _key: None, ensure=self._ensure, observed=lambda *_: False,
            may_delete=self._may_delete,
        )  # fmt: skip
        best: Any = SimpleNamespace(
            attempt=lambda *_: None, refused=lambda *_: None, made=lambda *_: None, forget=lambda *_: None,
            rank=lambda _pod: (0, 0, 0, "", ""), gives_way=lambda _key: False, may_take_back=lambda *_: False,
        )  # fmt: skip
        self.extent = Extent(Limits(1 << 30, 1 << 30), FakeClock())
        self.pods = Pods(
            caches, host, plane, mirrors=other, references=references, tokens=other, nodes=other, starved=quiet, groups=groups,
            classes=other, claims=quiet, extent=self.extent, host_queue=best, recorder=quiet, deletions=other, last=self.last,
            breaker=other, placed=self.placed,
        )  # fmt: skip

    async def _may_delete(self, _kind: str, uid: str, *, ended: bool = False) -> bool:
        assert uid == "v1"
        self.ended = ended
        return self.breaker_closed

    def _reads(self, side: str) -> Any:
        async def read(r: Any, key: Key) -> Obj | None:
            if key == GROUP.key:
                self.done.append(("read group", r))
                return self.live_group
            assert key == (HOST_KEY if side == "host" else KEY)
            self.done.append((f"read {side}",))
            return self.live[side]

        return read

    def _does(self, what: str, of: Any) -> Any:
        async def do(*args: Any, **options: Any) -> None:
            self.done.append((what, of(*args, **options)))

        return do

    async def _status(self, _r: Any, _virtual: Obj, desired: Obj) -> Obj | None:
        self.done.append(("status", desired.get("phase")))
        if self.refused is not None:
            raise self.refused
        if self.conflicts:
            self.conflicts -= 1
            raise Conflict(409, "Conflict", "the object has been modified")
        return None

    async def _create(self, _r: Any, desired: Obj, _view: Any) -> Obj:
        self.done.append(("create",))
        if self.failing is not None:
            raise self.failing
        if self.in_the_way is not None:
            raise Stale(self.in_the_way)
        return samples.merged(desired, {"metadata": {"uid": "host-of-v1", "annotations": self.adopted}})

    async def _delete(self, _r: Any, key: Key, uid: str, *, grace: int | None, why: str, version: str | None = None) -> bool:
        assert key == HOST_KEY
        self.done.append(("delete host", uid, grace))
        return self.trusted

    async def _end(self, r: Any, key: Key, uid: str, *, grace: int | None, why: str) -> tuple[bool, Obj | None]:
        return await self._delete(r, key, uid, grace=grace, why=why), mirror(phase="Succeeded")

    async def _ensure(self, _name: str) -> bool:
        return self.node_known

    async def reconcile(self) -> float | None:
        self.done.clear()
        return await self.pods.reconcile(KEY)


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
