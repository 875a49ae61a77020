"""Which pods are tried again when there may be room: the best first, and not because of a mere note on a quota."""

from typing import Any

from bulkhead.api.objects import Obj
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key
from syncer.quota.waiting import Starved


class Queue:
    def __init__(self) -> None:
        self.queued: list[str] = []

    def add(self, item: Any) -> None:
        self.queued.append(item.key.name)


def change(kind: Any = "modified") -> Change:
    meta: Any = None
    return Change(kind, Key("work", "tenant-quota"), meta)


def test_item_96_the_best_are_tried_first_and_of_equals_those_that_waited_longest() -> None:
    queue: Any = Queue()
    starved = Starved(queue, quota=lambda _key: None)
    for name, priority in (("b", 0), ("a", 0), ("c", 7)):
        starved.add(Key("space", name), rank=(0, 0, -priority, "", ""))
    starved.add(Key("space", "claim"), "ResourceClaim")
    starved.gone(change())
    assert queue.queued == []
    starved.gone(change(kind="deleted"))
    assert queue.queued == ["c", "b", "a", "claim"]


def test_what_is_noted_on_a_quota_makes_no_room() -> None:
    queue: Any = Queue()
    quota: Obj = {"metadata": {}, "spec": {"hard": {"pods": "1"}}, "status": {"used": {"pods": "1"}}}
    starved = Starved(queue, quota=lambda _key: quota)
    starved.add(Key("space", "a"))
    tried = []
    for part, news in (("metadata", {"annotations": {}}), ("metadata", {"annotations": {"a": "b"}}),
                       ("status", {"used": {"pods": "0"}}), ("spec", {"hard": {"pods": "2"}})):  # fmt: skip
        quota |= {part: news}
        queue.queued.clear()
        starved.counted(change())
        tried.append(queue.queued == ["a"])
    assert tried == [True, False, True, True]
