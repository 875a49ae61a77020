"""Objects of one API server, in memory: one counter of versions, the history of every commit, compaction.

Stored objects are never changed: a change puts another one. Watches read the history; a list at an older
version is the present with the history taken back.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from bulkhead.api.objects import Obj
from bulkhead.kube.objects import Key, Resource, key_of

Kind = tuple[str, str]


def kind_of(r: Resource) -> Kind:
    """What identifies a resource: its group and its plural."""
    return (r.group, r.plural)


def copied(obj: Any) -> Any:
    """A copy that may be changed."""
    return msgspec.json.decode(msgspec.json.encode(obj))


@dataclass(frozen=True, slots=True)
class Commit:
    """One change: the object before and after it, the version, the time, and the user."""

    version: int
    time: float
    kind: Kind
    key: Key
    before: Obj | None
    after: Obj | None
    final: Obj | None  # the last state of an object that was removed
    user: str


class Store:
    """The objects of one API server and the history of their commits; calls its listeners with each new commit."""

    def __init__(self, now: Callable[[], float], first_version: int = 1000) -> None:
        self._now = now
        self.version = first_version
        self.compacted = first_version
        self.history: list[Commit] = []
        self.objects: dict[Kind, dict[Key, Obj]] = {}
        self.listeners: list[Callable[[Commit], None]] = []

    def get(self, r: Resource, key: Key) -> Obj | None:
        return self.objects.get(kind_of(r), {}).get(key)

    def all(self, r: Resource, namespace: str | None = None) -> list[Obj]:
        """Objects in the order of their keys."""
        return self.all_of(kind_of(r), namespace)

    def all_of(self, kind: Kind, namespace: str | None = None) -> list[Obj]:
        found = self.objects.get(kind, {})
        return [found[key] for key in sorted(found) if namespace is None or key.namespace == namespace]

    def put(self, r: Resource, obj: Obj, user: str) -> Obj:
        """Store an object under the next version."""
        self.version += 1
        stored: Obj = copied(obj)
        stored["metadata"]["resourceVersion"] = str(self.version)
        kind, key = kind_of(r), key_of(stored)
        held = self.objects.setdefault(kind, {})
        before = held.get(key)
        held[key] = stored
        self._commit(Commit(self.version, self._now(), kind, key, before, stored, None, user))
        return stored

    def remove(self, r: Resource, key: Key, user: str) -> Obj:
        """Take an object out; its last state carries the version at which it went."""
        self.version += 1
        kind = kind_of(r)
        before = self.objects[kind].pop(key)
        final: Obj = copied(before)
        final["metadata"]["resourceVersion"] = str(self.version)
        self._commit(Commit(self.version, self._now(), kind, key, before, None, final, user))
        return final

    def _commit(self, commit: Commit) -> None:
        self.history.append(commit)
        for listener in list(self.listeners):
            listener(commit)

    def since(self, version: int) -> list[Commit]:
        """Commits after a version, oldest first."""
        low, high = 0, len(self.history)
        while low < high:
            middle = (low + high) // 2
            if self.history[middle].version <= version:
                low = middle + 1
            else:
                high = middle
        return self.history[low:]

    def at(self, kind: Kind, version: int, namespace: str | None = None) -> list[Obj]:
        """Objects as they were at a version that is not compacted."""
        found = dict(self.objects.get(kind, {}))
        for commit in reversed(self.since(version)):
            if commit.kind != kind:
                continue
            if commit.before is None:
                found.pop(commit.key, None)
            else:
                found[commit.key] = commit.before
        return [found[key] for key in sorted(found) if namespace is None or key.namespace == namespace]

    def compact(self) -> None:
        """Forget the history: watches from before get 410."""
        self.compacted = self.version

    def snapshot(self) -> tuple[int, dict[Kind, dict[Key, Obj]]]:
        """A backup."""
        return self.version, {kind: dict(held) for kind, held in self.objects.items()}

    def restore(self, backup: tuple[int, dict[Kind, dict[Key, Obj]]]) -> None:
        """What a restored backup looks like: older objects, and a counter that went back. Tells no listener."""
        self.version, self.objects = backup[0], {kind: dict(held) for kind, held in backup[1].items()}
        self.compacted = self.version
        self.history = [commit for commit in self.history if commit.version <= self.version]
