"""A watch that keeps of each object what matters to its user, and tells only where that is another than before.

    object ──> what matters of it ──> store ──┬─ as it was ──> nobody hears of it: a status that the platform wrote itself
                                              └─ another ────> its name

So what a reconcile writes about one tenant is no work for all others.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.codec import decode_meta, decode_obj
from bulkhead.kube.informer import Change, Informer, Shrink
from bulkhead.kube.objects import Key, Meta, Resource


def asked(obj: Obj) -> Obj:
    """An object as it is asked for: its identity and its spec, and nothing that is reported of it."""
    meta = obj["metadata"]
    return {"metadata": {field: meta.get(field) for field in ("name", "uid", "generation")}, "spec": obj.get("spec")}


def keeping(keep: Callable[[Obj], object]) -> Shrink:
    """What an informer keeps of objects: what `keep` makes of each, and none of which that is nothing."""

    def shrink(raw: bytes | msgspec.Raw, meta: Meta | None) -> tuple[Meta, bytes]:
        found = meta or decode_meta(raw)
        bare = Meta(name=found.name, namespace=found.namespace, uid=found.uid, resource_version=found.resource_version)
        kept = keep(decode_obj(raw))
        return bare, msgspec.json.encode(kept) if kept else b""

    return shrink


def watching(
    client: Client, resource: Resource, keep: Callable[[Obj], object], on_name: Callable[[str], object], **more: Any
) -> Informer:
    """An informer of what `keep` keeps of objects; the identity of each belongs to it."""
    known: dict[Key, bytes] = {}

    def heard(change: Change) -> None:
        before = known.pop(change.key, None)
        now = None if change.kind == "deleted" else made.store.body(change.key)
        if now is not None:
            known[change.key] = now
        if now != before:
            on_name(change.key.name)

    made = Informer(client, resource, shrink=keeping(keep), on_change=heard, **more)
    return made
