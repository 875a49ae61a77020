"""One pod for the reconciler's tests: its two sides as caches and servers have them, in memory, and a list of what is done."""

from types import SimpleNamespace
from typing import Any

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube.errors import Conflict
from bulkhead.kube.objects import Key
from syncer.pods.reconcile import Pods
from syncer.quota.extent import Extent, Limits
from syncer.translate.kinds import gate
from syncer.watch.lastpods import LastPods
from syncer.work import Item, Stale
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
