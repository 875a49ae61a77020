"""Which host pod a request to the tenant's kubelet is about: the one of the virtual pod's UID, never one by a caller's name.

Only memory, no I/O.
"""

from dataclasses import dataclass

from bulkhead.api.objects import Obj
from bulkhead.api.podphase import has_ended, placed_on
from bulkhead.kube.objects import Key, key_of, uid_of
from syncer.translate.gpusamples import Mirrored
from syncer.translate.podspec.containers import container_names
from syncer.watch.informers import Caches


@dataclass(frozen=True, slots=True)
class Target:
    """A virtual pod and its host pod."""

    virtual: Obj
    host: Key


class Targets:
    """Looks targets up in the caches."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches

    def find(self, key: Key) -> Target | None:
        """The target of a virtual pod's name; None where the host has no pod of its UID on a node."""
        virtual, host = self._caches.virtual_pod(key), self._caches.host_pod(key)
        if virtual is None or host is None:
            return None
        host_key = self._caches.host_key("Pod", key)
        meta = self._caches.host["Pod"].store.meta(host_key)
        identity = self._caches.origin(meta) if meta is not None else None
        if identity is None or identity.uid != uid_of(virtual) or not placed_on(host):
            return None
        return Target(virtual, host_key)

    def mirrored(self, name: str) -> Mirrored | None:
        """The pod that the host pod of this name mirrors; None for one that the plane no longer has, or that has ended."""
        host_key = Key(self._caches.settings.work_namespace, name)
        meta, host = self._caches.host["Pod"].store.meta(host_key), self._caches.host["Pod"].store.get(host_key)
        identity = self._caches.origin(meta) if meta is not None else None
        target = self.find(Key(identity.namespace, identity.name)) if identity is not None else None
        if meta is None or host is None or target is None or target.host != host_key or has_ended(host):
            return None
        virtual = key_of(target.virtual)
        containers = frozenset(container_names(target.virtual))
        return Mirrored(meta.uid, virtual.namespace, virtual.name, placed_on(host), containers)

    def host_name(self, key: Key) -> str | None:
        """The name of a virtual pod's host pod."""
        target = self.find(key)
        return target.host.name if target is not None else None
