"""Reads the shared objects of a plane, and carries out the steps that were decided. All calls are bounded (`inside.calls`).

Only the metadata of copies is read: their content is known, and could be megabytes.
"""

import msgspec

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.objects import Resource
from controller.inside.calls import Plane
from controller.inside.counted import Counted, Page
from controller.shares.content import copy_of
from controller.shares.decide import MOST_COPIES, Account, Copy, Create, Interior, Point, Remove, Replace, Slot, Space, Step

KINDS = {"Secret": kinds.SECRETS, "ConfigMap": kinds.CONFIG_MAPS}
_MOST_NAMESPACES = 2000
_SHARED = f"{labels.SHARED}=true"


class _Meta(Counted, frozen=True, rename="camel", omit_defaults=True):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Named(Counted, frozen=True, omit_defaults=True):
    name: str = ""


class _Partial(Counted, frozen=True, omit_defaults=True):
    metadata: _Meta


class _Account(Counted, frozen=True, rename="camel", omit_defaults=True):
    metadata: _Meta
    image_pull_secrets: list[_Named] | None = None


_partials = msgspec.json.Decoder(Page[_Partial])
_accounts = msgspec.json.Decoder(Page[_Account])


async def spaces_of(plane: Plane) -> tuple[Space, ...]:
    """The namespaces of a plane."""
    listed = await plane.list(kinds.NAMESPACES, shape=_partials, metadata_only=True, most=_MOST_NAMESPACES)
    metas = [obj["metadata"] for obj in listed]
    return tuple(Space(meta["name"], meta.get("labels") or {}, "deletionTimestamp" in meta) for meta in metas)


async def interior_of(plane: Plane, spaces: tuple[Space, ...]) -> Interior:
    """The copies and ServiceAccounts of a plane, together with its namespaces, which were read before."""
    copies: list[Copy] = []
    for kind, resource in KINDS.items():
        # A tenant may label objects of its own, so more objects than the platform can have created are ignored.
        listed = await plane.list(resource, shape=_partials, label_selector=_SHARED, metadata_only=True, most=2 * MOST_COPIES)
        copies += [_copy(kind, obj["metadata"]) for obj in listed]
    named = "metadata.name=default"
    accounts = await plane.list(kinds.SERVICE_ACCOUNTS, shape=_accounts, field_selector=named, most=_MOST_NAMESPACES)
    return Interior(spaces, tuple(copies), tuple(_account(account) for account in accounts))


async def do(plane: Plane, step: Step) -> None:
    """Do one step; raises the plane's error."""
    match step:
        case Create(slot, content):
            await plane.create(KINDS[slot.kind], copy_of(content, slot.namespace))
        case Replace(slot, content, uid, version):
            await plane.replace(KINDS[slot.kind], copy_of(content, slot.namespace, uid=uid, version=version))
        case Remove(slot, uid, version):
            await plane.delete(KINDS[slot.kind], slot.name, slot.namespace, uid=uid, resource_version=version)
        case Point(account, pulls, ours):
            note = ",".join(ours) or None
            meta = {"uid": account.uid, "resourceVersion": account.version, "annotations": {labels.SHARED_PULL_SECRETS: note}}
            body = {"metadata": meta, "imagePullSecrets": [{"name": name} for name in pulls]}
            await plane.patch(kinds.SERVICE_ACCOUNTS, "default", body, account.namespace)


async def remove(plane: Plane, step: Replace) -> None:
    """Delete a copy that cannot be overwritten: its type differs, or a tenant has made it immutable."""
    resource: Resource = KINDS[step.slot.kind]
    await plane.delete(resource, step.slot.name, step.slot.namespace, uid=step.uid, resource_version=step.version)


def _copy(kind: str, meta: Obj) -> Copy:
    slot = Slot(kind, meta.get("namespace", ""), meta["name"])
    return Copy(slot, meta.get("uid", ""), meta.get("resourceVersion", ""), "deletionTimestamp" in meta)


def _account(obj: Obj) -> Account:
    meta = obj["metadata"]
    note = (meta.get("annotations") or {}).get(labels.SHARED_PULL_SECRETS, "")
    return Account(
        namespace=meta.get("namespace", ""),
        uid=meta.get("uid", ""),
        version=meta.get("resourceVersion", ""),
        pulls=tuple(pull.get("name", "") for pull in obj.get("imagePullSecrets") or ()),
        ours=tuple(name for name in note.split(",") if name),
    )
