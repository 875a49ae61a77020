"""An informer that keeps the relevant part of each object, and reports an object only if that part has changed.

    object ──> its relevant part ──> store ──┬─ unchanged ──> not reported, such as a status that Bulkhead wrote itself
                                             └─ changed ────> its name

So what a reconcile writes about one tenant causes no work for all others.
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
    """The identity and the spec of an object, without its status."""
    meta = obj["metadata"]
    return {"metadata": {field: meta.get(field) for field in ("name", "uid", "generation")}, "spec": obj.get("spec")}


def keeping(keep: Callable[[Obj], object]) -> Shrink:
    """Make an informer keep what `keep` returns for each object, and nothing of objects for which it returns nothing."""

    def shrink(raw: bytes | msgspec.Raw, meta: Meta | None) -> tuple[Meta, bytes]:
        found = meta or decode_meta(raw)
        bare = Meta(name=found.name, namespace=found.namespace, uid=found.uid, resource_version=found.resource_version)
        kept = keep(decode_obj(raw))
        return bare, msgspec.json.encode(kept) if kept else b""

    return shrink


def watching(
    client: Client, resource: Resource, keep: Callable[[Obj], object], on_name: Callable[[str], object], **more: Any
) -> Informer:
    """An informer that keeps what `keep` returns; the identity of an object is part of it."""
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
