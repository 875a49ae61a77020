"""Decides which part of a shared host object reaches a plane, and which objects are never shared. Pure.

Secret, ConfigMap of the host ──> type, size ──> Content, or the reason why not ──> the copy in a namespace of a plane
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping
from controller.shares.spec import Item

PULLS: Final = "kubernetes.io/dockerconfigjson"
# All other types have a meaning for an API server or a controller, above all tokens of ServiceAccounts.
TYPES: Final = ("Opaque", "kubernetes.io/tls", PULLS)
CONTENT_BYTES: Final = 256 * 1024
_NOTE: Final = "Shared by the platform: changes made here are reverted. If you remove its label, the object is yours."


@dataclass(frozen=True, slots=True)
class Content:
    """The content of every copy of a shared object."""

    item: Item
    type: str
    data: tuple[tuple[str, str], ...]
    binary: tuple[tuple[str, str], ...]
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class Unusable:
    """Why an object is not shared now; existing copies stay."""

    why: str


@dataclass(frozen=True, slots=True)
class Absent:
    """The host has just answered that it has no such object: its copies are removed."""


Source: TypeAlias = Content | Unusable | Absent


def content_of(item: Item, obj: Mapping[str, Any]) -> Content | Unusable:
    """The content of a host object that is shared, or the reason why it is not."""
    type_ = str(obj.get("type") or "Opaque") if item.kind == "Secret" else ""
    if item.kind == "Secret" and type_ not in TYPES:
        return Unusable(f"its type must be one of {', '.join(TYPES)}, not {type_}")
    data = _texts(obj.get("data"))
    binary = _texts(obj.get("binaryData")) if item.kind == "ConfigMap" else ()
    size = sum(len(key) + len(value.encode()) for key, value in (*data, *binary))
    if size > CONTENT_BYTES:
        return Unusable(f"it must have at most {CONTENT_BYTES} bytes, not {size}")
    digest = hashlib.sha256(json.dumps([type_, data, binary]).encode()).hexdigest()
    return Content(item, type_, data, binary, digest, size)


def copy_of(content: Content, namespace: str, *, uid: str = "", version: str = "") -> Obj:
    """The copy in a namespace; with the `uid` and `version` of an existing copy it replaces exactly that one."""
    meta: Obj = {
        "name": content.item.name,
        "namespace": namespace,
        "labels": {labels.SHARED: "true"},
        "annotations": {"kubernetes.io/description": _NOTE},
    }
    meta |= {"uid": uid, "resourceVersion": version} if uid else {}
    made: Obj = {"apiVersion": "v1", "kind": content.item.kind, "metadata": meta, "data": dict(content.data)}
    if content.item.kind == "Secret":
        return made | {"type": content.type}
    return made | ({"binaryData": dict(content.binary)} if content.binary else {})


def _texts(value: Any) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((str(key), str(words)) for key, words in mapping(value).items()))
