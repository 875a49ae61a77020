"""What travels between this package and its callers: plain objects, keys, resources, decoded metadata.

Other people's objects stay plain dicts (`Obj`) and are never changed in place. Only the metadata that decides
whether an object matters is decoded eagerly (`Meta`); bodies stay bytes until they are asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from bulkhead.api.objects import Obj

_MOST_VERSION_DIGITS: Final = 20  # of the largest number with 64 bits


class Key(NamedTuple):
    """Namespace and name; the namespace of cluster-scoped objects is empty."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Write the key as kubectl does: `namespace/name`, or the bare name."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind as the API serves it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """`v1`, `apps/v1`: the value of `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """URL path of the collection, the object or its subresource.

        A collection of a namespaced kind without a namespace spans all namespaces; a single object needs its namespace.
        """
        parts = ["/api" if not self.group else f"/apis/{self.group}", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", _segment(namespace)]
        elif self.namespaced and name is not None:
            raise ValueError(f"{self.kind} {name}: namespace missing")
        parts.append(self.plural)
        if name is not None:
            parts.append(_segment(name))
        if subresource:
            parts.append(quote(subresource, safe="/"))
        return "/".join(parts)

    def __str__(self) -> str:
        """`pods`, `deployments.apps`: the name that kubectl accepts."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _segment(text: str) -> str:
    # A hostile name must never climb out of its place in the path.
    if text in {"", ".", ".."} or "/" in text:
        raise ValueError(f"not a path segment: {text!r}")
    return quote(text, safe="")


class OwnerReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The parts of an owner reference that garbage collection looks at."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Object metadata; everything that is not named here is skipped by the decoder."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    # Read by name where metadata is used as a plain object: a write that replaces a copy whole keeps others' finalizers.
    finalizers: list[str] | None = None
    deletion_timestamp: str | None = None
    owner_references: list[OwnerReference] | None = None

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def deleting(self) -> bool:
        """Whether deletion was asked for."""
        return self.deletion_timestamp is not None

    def label(self, name: str) -> str | None:
        """One label, or None."""
        return self.labels.get(name) if self.labels else None

    def annotation(self, name: str) -> str | None:
        """One annotation, or None."""
        return self.annotations.get(name) if self.annotations else None


@dataclass(frozen=True, slots=True)
class ObjList:
    """A whole list, read at one resource version."""

    items: list[Obj]
    resource_version: str


def key_of(obj: Mapping[str, Any]) -> Key:
    """Key of a plain object."""
    meta = obj["metadata"]
    return Key(meta.get("namespace") or "", meta["name"])


def uid_of(obj: Mapping[str, Any]) -> str:
    """UID of a plain object, empty when it was never stored."""
    return str(obj.get("metadata", {}).get("uid", ""))


def version_of(obj: Mapping[str, Any]) -> str:
    """Resource version of a plain object, empty when it was never stored."""
    return str(obj.get("metadata", {}).get("resourceVersion", ""))


def version_number(version: str) -> int | None:
    """A resource version as a number, which it is by contract since Kubernetes 1.35; None for anything else.

    A plane may answer anything: `int` fails with digits of other scripts such as ², and with thousands of digits.
    """
    is_number = version.isascii() and version.isdigit() and len(version) <= _MOST_VERSION_DIGITS
    return int(version) if is_number else None


def is_older(left: str, right: str) -> bool:
    """Whether a resource version is older than another; what is not a number is older than nothing."""
    former, latter = version_number(left), version_number(right)
    return former is not None and latter is not None and former < latter
