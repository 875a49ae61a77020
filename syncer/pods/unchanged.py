"""What was seen of pods when nothing was left to do for them, so that the next reconcile is short. Only memory, no I/O.

Most keys come back as the echo of our own write. Two questions spare the work:

    nothing to do?     both sides have the versions, and the tenant's view is the one, at which a reconcile found nothing to do
    nothing to patch?  what a patch of the host pod could come from is unchanged; status changes often, and this does not

Both are answered from hashes, so that a pod costs few bytes here. After a restart nothing is known and every pod is reconciled.
"""

from typing import Any, Final

import msgspec

from bulkhead.api.objects import Obj
from bulkhead.api.podphase import placed_on
from bulkhead.kube.objects import Key, uid_of, version_of
from bulkhead.work.remembered import Remembered
from syncer.translate.metadata import SET_BY_BINDING
from syncer.watch.informers import Caches

_REMEMBERED: Final = 20_000


class Unchanged:
    """Remembers pods by the UID of their virtual side."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches
        self._done: Remembered[str, int] = Remembered(_REMEMBERED)
        self._patched: Remembered[str, int] = Remembered(_REMEMBERED)

    def nothing_to_do(self, key: Key) -> bool:
        """Whether the caches show exactly what the last reconcile found, or left, with nothing more to do."""
        virtual = self._caches.virtual["Pod"].store.meta(key)
        noted = self._done.get(virtual.uid) if virtual is not None else None
        if virtual is None or noted is None:
            return False
        host = self._caches.host["Pod"].store.meta(self._caches.host_key("Pod", key))
        return host is not None and noted == self._versions(virtual.resource_version, host.uid, host.resource_version)

    def note_done(self, seen: Obj, virtual: Obj, host: Obj) -> None:
        """Note that nothing is left to do for these two pods; `virtual` is the result of our own write to `seen`."""
        if _patchable(seen["metadata"]) != _patchable(virtual["metadata"]):
            # A webhook of the tenant changed it on the way.
            return
        self._done[uid_of(virtual)] = self._versions(version_of(virtual), uid_of(host), version_of(host))

    def _versions(self, virtual: str, host_uid: str, host: str) -> int:
        return hash((virtual, host_uid, host, self._caches.view_serial))

    def nothing_to_patch(self, virtual: Obj, host: Obj) -> bool:
        """Whether nothing changed from which a patch of the host pod could follow."""
        print_ = self._print(virtual, host)
        return print_ is not None and self._patched.get(uid_of(virtual)) == print_

    def note_patched(self, virtual: Obj, host: Obj) -> None:
        """Note that the host pod needs no patch."""
        print_ = self._print(virtual, host)
        if print_ is not None:
            self._patched[uid_of(virtual)] = print_

    def forget(self, uid: str) -> None:
        """The virtual pod is gone."""
        self._done.pop(uid, None)
        self._patched.pop(uid, None)

    def forget_plane(self) -> None:
        """The plane's data was replaced: its versions and generations may be those of other contents."""
        self._done.clear()
        self._patched.clear()

    def _print(self, virtual: Obj, host: Obj) -> int | None:
        """A hash of all that a patch could come from; None where the API servers count no generations of pods."""
        own, mirrored = virtual["metadata"], host["metadata"]
        if not own.get("generation") or not mirrored.get("generation"):
            return None
        view, namespace = self._caches.view(), own.get("namespace", "")
        # The tenant's own marks on nodes matter until one was chosen; without any, being placed changes nothing.
        placed = placed_on(virtual)
        nodes = [] if placed else [sorted(view.cordoned), dict(view.node_labels), dict(view.node_taints)]
        around = [view.namespace_labels.get(namespace), view.network_policies.get(namespace), nodes if any(nodes) else []]
        return hash(msgspec.json.encode([_patchable(own), _patchable(mirrored), around]))


def _patchable(meta: Obj) -> list[Any]:
    """The metadata that a patch may read or write, without the labels that both bindings set."""
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key not in SET_BY_BINDING}
    return [meta.get("generation"), labels, *(meta.get(field) for field in ("annotations", "ownerReferences", "finalizers"))]
