"""A side that answers again wakes what waits for it, and a server that flaps does not set the pace of our requests."""

from typing import cast

from bulkhead.kube.informer import Informer
from bulkhead.kube.objects import Key
from bulkhead.work.backoff import PerKeyBackoff
from bulkhead.work.queue import KeyedQueue
from syncer.watch.reconnect import LEAST_SECONDS, Reconnect
from syncer.work import Item
from tests.kit.fakeclock import FakeClock


class Sibling:
    def __init__(self) -> None:
        self.woken = 0

    def try_now(self) -> None:
        self.woken += 1


def test_siblings_try_at_once_and_failed_keys_are_looked_at() -> None:
    clock = FakeClock()
    queue: KeyedQueue[Item] = KeyedQueue(clock=clock)
    backoff: PerKeyBackoff[Item] = PerKeyBackoff(0.1, 20.0)
    failed = Item("Pod", Key("a", "web"))
    backoff.next(failed)
    siblings = [Sibling(), Sibling()]
    reconnect = Reconnect(cast("list[Informer]", siblings), backoff, queue, clock)

    reconnect()
    assert [each.woken for each in siblings] == [1, 1]
    assert len(queue) == 1

    clock.advance(LEAST_SECONDS / 2)
    reconnect()
    assert [each.woken for each in siblings] == [1, 1], "a server that comes and goes does not set the pace"

    clock.advance(LEAST_SECONDS / 2)
    reconnect()
    assert [each.woken for each in siblings] == [2, 2]
