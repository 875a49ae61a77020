"""What was applied, so that nothing is applied twice that is there already.

The memory is a shortcut and never the truth. An intent needs no second apply while it is the same and either the object is
observed as its apply left it (`unchanged`), or, of objects that are not watched, it was applied a short while ago (`recent`).
Anything else observed is drift, and is written over.

    intent ──> the same as applied? ─┬─ yes, and the object as it was left ──> skip
                                     └─ no, or drift ──> server-side apply ──> remember(intent, what it left)
"""

import hashlib
from collections.abc import Container
from typing import Final, TypeAlias

import msgspec

from bulkhead.api.objects import Obj
from bulkhead.kube.objects import Key, key_of, uid_of
from bulkhead.work.remembered import Remembered

# By the host's controller of Deployments, and by the ledger on quotas: none of an intent's.
_NOTES: Final = ("deployment.", "ledger.bulkhead.dev/")
_Slot: TypeAlias = tuple[str, Key]


class ApplyMemory:
    """What one writer applied; bounded, the oldest entries go first."""

    def __init__(self, *, max_entries: int = 20_000) -> None:
        self._entries: Remembered[_Slot, tuple[bytes, bytes, float]] = Remembered(max_entries)

    def unchanged(self, intent: Obj, observed: Obj | None) -> bool:
        """Whether this intent was applied last, and the object is as that left it."""
        digest, left, _ = self._entries.get(_slot(intent), (b"", b"", 0.0))
        return observed is not None and digest == _digest(intent) and left == _content(observed)

    def recent(self, intent: Obj, since: float) -> bool:
        """Whether this intent was applied last, and after that moment."""
        digest, _, at = self._entries.get(_slot(intent), (b"", b"", 0.0))
        return digest == _digest(intent) and at > since

    def remember(self, intent: Obj, *, left: Obj | None = None, at: float = 0.0) -> None:
        """Take over that an intent was applied: the object that was there afterwards, or the moment."""
        self._entries[_slot(intent)] = (_digest(intent), _content(left) if left is not None else b"", at)

    def forget(self, namespaces: Container[str]) -> None:
        """Drop what is known of namespaces and of all in them."""
        for slot in [slot for slot in self._entries if slot[1].namespace in namespaces or slot[1].name in namespaces]:
            del self._entries[slot]

    def clear(self) -> None:
        """Drop everything."""
        self._entries.clear()


def _slot(obj: Obj) -> _Slot:
    return str(obj["kind"]), key_of(obj)


def _digest(obj: Obj) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(obj, order="deterministic"), digest_size=16).digest()


def _content(obj: Obj) -> bytes:
    """The part of a stored object that an intent sets: identity, labels, annotations and content, without status."""
    meta = obj.get("metadata") or {}
    kept = {key: value for key, value in obj.items() if key not in {"metadata", "status", "apiVersion", "kind"}}
    annotations = {k: v for k, v in (meta.get("annotations") or {}).items() if not k.startswith(_NOTES)}
    return _digest(
        {
            "content": kept,
            "marks": [meta.get("labels"), annotations],
            "uid": uid_of(obj),
            "going": meta.get("deletionTimestamp"),
        }
    )
