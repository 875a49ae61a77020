"""Where an informer keeps its copy: encoded bodies, decoded metadata, indexes.

Never talks to a server. Bounded by bytes: a hostile plane can fill its own quota of our memory and no more.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from bulkhead.api.objects import Obj
from bulkhead.kube.codec import decode_obj
from bulkhead.kube.errors import TooLarge
from bulkhead.kube.objects import Key, Meta, Resource

_log = logging.getLogger(__name__)

# What an object weighs beside its body: metadata, key, dict slots.
_ENTRY_OVERHEAD_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored object."""

    meta: Meta
    raw: bytes

    def object(self) -> Obj:
        """Decode the body, as the server sent it."""
        return decode_obj(self.raw)


Indexer: TypeAlias = Callable[[Entry], Iterable[str]]


class Store:
    """Objects by key and by index."""

    def __init__(self, r: Resource, indexers: Mapping[str, Indexer], *, max_bytes: int, rolling: bool = False) -> None:
        """`rolling`: when it is full it forgets what it has held longest, instead of refusing what comes."""
        self._type: Obj = {"apiVersion": r.api_version, "kind": r.kind}
        self._entries: dict[Key, Entry] = {}
        self._indexers = dict(indexers)
        self._indexes: dict[str, dict[str, set[Key]]] = {name: {} for name in indexers}
        self._values: dict[Key, dict[str, frozenset[str]]] = {}
        self._max_bytes = max_bytes
        self._rolling = rolling
        self.size = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def get(self, key: Key) -> Obj | None:
        """Decode one object; each call returns a fresh one that the caller may change."""
        entry = self._entries.get(key)
        # Objects that came by a list carry no type of their own.
        return None if entry is None else self._type | entry.object()

    def meta(self, key: Key) -> Meta | None:
        """Metadata of one object, without decoding its body."""
        entry = self._entries.get(key)
        return None if entry is None else entry.meta

    def keys(self) -> list[Key]:
        """Every key, as of now."""
        return list(self._entries)

    def metas(self) -> list[Meta]:
        """Every object's metadata, as of now."""
        return [entry.meta for entry in self._entries.values()]

    def objects(self) -> Iterable[Obj]:
        """Decode every object, one at a time."""
        for key in self.keys():
            obj = self.get(key)
            if obj is not None:
                yield obj

    def body(self, key: Key) -> bytes | None:
        """One object's body as it is stored."""
        entry = self._entries.get(key)
        return None if entry is None else entry.raw

    def bodies(self) -> list[bytes]:
        """Every object's body as it is stored, as of now."""
        return [entry.raw for entry in self._entries.values()]

    def by_index(self, index: str, value: str) -> list[Key]:
        """Keys of the objects for which the indexer named `index` gave `value`, sorted."""
        return sorted(self._indexes[index].get(value, ()))

    def index_values(self, index: str) -> list[str]:
        """Every value that an index holds, sorted."""
        return sorted(self._indexes[index])

    def put(self, entry: Entry) -> None:
        """Store an object in place of its predecessor."""
        key = entry.meta.key
        if self._rolling:
            self._make_room(entry)
        held = self._entries.get(key)
        grown = self.size + _weight(entry) - (_weight(held) if held else 0)
        if grown > self._max_bytes:
            raise TooLarge(f"store: more than {self._max_bytes} bytes of {self._type['kind']}")
        self.size = grown
        self._entries[key] = entry
        self._index(key, entry)

    def _make_room(self, entry: Entry) -> None:
        """Forget what was held longest, an eighth at once: to find the oldest one takes longer the more went before it."""
        self.drop(entry.meta.key)
        if self.size + _weight(entry) <= self._max_bytes:
            return
        for key in self.keys():
            self.drop(key)
            if self.size + _weight(entry) <= self._max_bytes * 7 // 8:
                return

    def drop(self, key: Key) -> None:
        """Forget an object."""
        held = self._entries.pop(key, None)
        if held is not None:
            self.size -= _weight(held)
            self._index(key, None)

    def _index(self, key: Key, entry: Entry | None) -> None:
        if not self._indexers:
            return
        before = self._values.pop(key, {})
        after = {name: _values(name, call, entry) for name, call in self._indexers.items()} if entry else {}
        if after:
            self._values[key] = after
        for name, index in self._indexes.items():
            old, new = before.get(name, frozenset()), after.get(name, frozenset())
            for value in old - new:
                index[value].discard(key)
                if not index[value]:
                    del index[value]
            for value in new - old:
                index.setdefault(value, set()).add(key)


def _values(name: str, indexer: Indexer, entry: Entry) -> frozenset[str]:
    try:
        return frozenset(indexer(entry))
    except Exception:  # noqa: BLE001 -- an object of odd shape is found by its key only, and stops nothing
        _log.warning("object not indexed", extra={"index": name, "object": str(entry.meta.key)}, exc_info=True)
        return frozenset()


def _weight(entry: Entry) -> int:
    return len(entry.raw) + _ENTRY_OVERHEAD_BYTES
