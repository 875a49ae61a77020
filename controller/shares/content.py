"""What of a shared object of the host reaches a plane, and what is never shared. Pure.

Secret, ConfigMap of the host ──> type, size ──> Content, or in words why not ──> the copy in a namespace of a plane
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
# Everything else means something to an API server or to a controller: tokens of ServiceAccounts above all.
TYPES: Final = ("Opaque", "kubernetes.io/tls", PULLS)
CONTENT_BYTES: Final = 256 * 1024
_NOTE: Final = (
    "Shared by the platform, and kept as it is there: what is changed here is put back. Without its label it is yours."
)


@dataclass(frozen=True, slots=True)
class Content:
    """What every copy of a shared object holds."""

    item: Item
    type: str
    data: tuple[tuple[str, str], ...]
    binary: tuple[tuple[str, str], ...]
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class Unusable:
    """Why an object is not shared now; copies that are there stay."""

    why: str


@dataclass(frozen=True, slots=True)
class Absent:
    """The host has no such object, and was asked just now: its copies go."""


Source: TypeAlias = Content | Unusable | Absent


def content_of(item: Item, obj: Mapping[str, Any]) -> Content | Unusable:
    """What an object of the host gives."""
    type_ = str(obj.get("type") or "Opaque") if item.kind == "Secret" else ""
    if item.kind == "Secret" and type_ not in TYPES:
        return Unusable(f"it is of type {type_}, and only {', '.join(TYPES)} are shared")
    data = _texts(obj.get("data"))
    binary = _texts(obj.get("binaryData")) if item.kind == "ConfigMap" else ()
    size = sum(len(key) + len(value.encode()) for key, value in (*data, *binary))
    if size > CONTENT_BYTES:
        return Unusable(f"it has {size} bytes, and at most {CONTENT_BYTES} are shared")
    digest = hashlib.sha256(json.dumps([type_, data, binary]).encode()).hexdigest()
    return Content(item, type_, data, binary, digest, size)


def copy_of(content: Content, namespace: str, *, uid: str = "", version: str = "") -> Obj:
    """The copy in a namespace; with `uid` and `version` of the one that is there, to be put in its place and no other's."""
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
