"""What a round of the patrol counts as its own find, and what is reconciled once more when the settings change."""

from types import SimpleNamespace
from typing import Any

from bulkhead.kube.objects import Key
from bulkhead.work.queue import KeyedQueue
from syncer.mirrors.references import ON_REFERENCE
from syncer.patrol import Patrol
from syncer.translate.kinds import drain
from syncer.work import Item
from tests.kit.fakeclock import FakeClock


def patrol_over(queue: Any, *nodes: str) -> Patrol:
    """A patrol over a tenant that has nodes alone."""

    def copy(*names: str) -> Any:
        return SimpleNamespace(store=SimpleNamespace(keys=lambda: [Key("", name) for name in names]))

    virtual = {"Node": copy(*nodes), **{kind: copy() for kind in ON_REFERENCE}}
    caches: Any = SimpleNamespace(kinds={}, virtual=virtual, host={"Node": copy(*nodes)})
    return Patrol(caches, queue, SimpleNamespace(refers=lambda *_: False), FakeClock(), 60.0)  # type: ignore[arg-type]


def node(name: str) -> Item:
    return Item("Node", Key("", name))


def test_with_other_settings_every_node_is_looked_at_again_and_its_drain_too() -> None:
    queued: list[Item] = []
    patrol = patrol_over(SimpleNamespace(add=lambda item, _lane: queued.append(item)), "one")
    patrol.all_again()
    assert set(queued) == {node("one"), Item(drain.KIND, Key("", "one"))}
    # The writes that follow from it do not count as repairs.
    assert patrol.pending == set()


async def test_what_waits_or_is_in_work_when_a_round_begins_is_not_its_find() -> None:
    queue: KeyedQueue[Item] = KeyedQueue(clock=FakeClock())
    patrol = patrol_over(queue, "worked", "waiting", "later", "idle")
    queue.add(node("worked"))
    assert await queue.get() == node("worked")
    queue.add(node("waiting"))
    queue.add_after(node("later"), 5.0)
    patrol.round()
    assert {item for item in patrol.pending if item.kind == "Node"} == {node("idle")}
    # All of them are reconciled in the round, also the one that was in work.
    queue.done(node("worked"))
    assert {await queue.get() for _ in range(len(queue))} >= {node(name) for name in ("worked", "waiting", "later", "idle")}


async def test_settings_that_change_during_a_round_leave_it_no_finds() -> None:
    queue: KeyedQueue[Item] = KeyedQueue(clock=FakeClock())
    patrol = patrol_over(queue, "one")
    patrol.round()
    assert node("one") in patrol.pending
    patrol.all_again()
    assert not patrol.pending
