"""A store of what has no end keeps the newest of it, within its bytes."""

import pytest

from bulkhead.kube.errors import TooLarge
from bulkhead.kube.objects import Key, Meta
from bulkhead.kube.resources import EVENTS
from bulkhead.kube.store import Entry, Store

LIMIT = 64 * 1024


def entry(name: str, size: int = 1024) -> Entry:
    return Entry(Meta(name=name, namespace="work"), b"x" * size)


def names(store: Store) -> list[str]:
    return [key.name for key in tuple(store.keys())]


def test_the_newest_are_kept() -> None:
    store = Store(EVENTS, {}, max_bytes=LIMIT, rolling=True)
    for number in range(1000):
        store.put(entry(str(number)))
        assert store.size <= LIMIT
    kept = names(store)
    assert kept == [str(number) for number in range(1000 - len(kept), 1000)]
    assert len(kept) >= 24, "three quarters of what there is room for, at the least"


def test_what_comes_again_is_the_newest() -> None:
    store = Store(EVENTS, {}, max_bytes=LIMIT, rolling=True)
    store.put(entry("again"))
    for number in range(31):
        store.put(entry(str(number)))
    store.put(entry("again"))
    store.put(entry("last"))
    assert names(store)[-2:] == ["again", "last"]
    assert "0" not in names(store)


def test_one_that_is_too_large_is_refused() -> None:
    with pytest.raises(TooLarge):
        Store(EVENTS, {}, max_bytes=LIMIT, rolling=True).put(entry("huge", LIMIT))


def test_a_store_of_what_there_is_refuses_what_comes() -> None:
    store = Store(EVENTS, {}, max_bytes=LIMIT)
    for number in range(32):
        store.put(entry(str(number)))
    with pytest.raises(TooLarge):
        store.put(entry("more"))
    assert Key("work", "0") in store
