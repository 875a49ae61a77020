"""Server-side apply that skips what would change nothing.

The memory is only a shortcut: an entry counts only while the object that was last observed is still at the resource
version which our last apply of the same intent left behind, so that drift is always written over.

    intent + observed ──> same digest at this version? ── yes ──> observed, no call
                                     └── no ──> apply ──> remember (digest, new version)
"""

import hashlib
from collections import OrderedDict

import msgspec

from bulkhead.kube.client import Client
from bulkhead.kube.objects import Key, Obj, Resource, key_of, uid_of, version_of

_Slot = tuple[Resource, Key, str | None]


class ApplyCache:
    """Applies through one client and remembers what it applied; bounded, the oldest entries go first."""

    def __init__(self, client: Client, *, max_entries: int = 50_000) -> None:
        self._client = client
        self._known: OrderedDict[_Slot, tuple[str, str, bytes]] = OrderedDict()
        self._max = max_entries
        self.applied = 0
        self.skipped = 0

    async def apply(
        self, r: Resource, intent: Obj, *, observed: Obj | None, force: bool = True, subresource: str | None = None
    ) -> Obj:
        """Apply `intent` unless `observed` is what the last apply of the very same intent left behind."""
        slot = (r, key_of(intent), subresource)
        digest = hashlib.blake2b(msgspec.json.encode(intent, order="deterministic"), digest_size=16).digest()
        if observed is not None and self._known.get(slot) == (uid_of(observed), version_of(observed), digest):
            self._known.move_to_end(slot)
            self.skipped += 1
            return observed
        result = await self._client.apply(r, intent, force=force, subresource=subresource)
        self.applied += 1
        self._known[slot] = (uid_of(result), version_of(result), digest)
        self._known.move_to_end(slot)
        while len(self._known) > self._max:
            self._known.popitem(last=False)
        return result

    def forget(self, r: Resource, key: Key) -> None:
        """Drop what is known of one object, whatever the subresource."""
        for slot in [slot for slot in self._known if slot[0] == r and slot[1] == key]:
            del self._known[slot]
