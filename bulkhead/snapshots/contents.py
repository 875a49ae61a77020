"""Which objects of a few kinds are in the store of a snapshot, read from the file: what a restore would bring back. Pure.

    file ──> newest meta page ──> bucket "key", in the order of revisions ──> the last of each key, unless it is a tombstone

The file is bbolt's (the page layout has not changed since its first release), a value is etcd's `mvccpb.KeyValue`, and in it is
an object of Kubernetes in protobuf, of which only the UID is read. Everything is bounded by the file.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from bulkhead.api import labels
from bulkhead.api.untrusted import mapping, text
from bulkhead.snapshots.protobuf import ProtobufError, field

Store: TypeAlias = Any  # bytes, or a memory map of the file

PODS: Final = "pods"
CLAIMS: Final = "persistentvolumeclaims"
SERVICES: Final = "services/specs"
_PREFIX: Final = b"/registry/"
_MAGIC: Final = 0xED0CDAED
_PAGE: Final = struct.Struct("<QHHI")
_META: Final = struct.Struct("<IIIIQQQQQ")
_ELEMENT: Final = struct.Struct("<IIII")
_BRANCH_ELEMENT: Final = struct.Struct("<IIQ")
_BUCKET: Final = struct.Struct("<QQ")
_IS_BRANCH, _IS_LEAF = 0x01, 0x02
_IS_BUCKET: Final = 0x01
_DEEPEST: Final = 32
_PAGE_SIZES: Final = frozenset({1 << power for power in range(9, 17)})
_TOMBSTONE_BYTES: Final = 18
_KUBERNETES: Final = b"k8s\x00"
_BROKEN: Final = (struct.error, IndexError, RecursionError, ProtobufError)


class ContentsError(ValueError):
    """The file cannot be read; the message says why."""


def uids(store: Store, resources: Sequence[str]) -> dict[str, dict[str, str]]:
    """For each of these resources the UIDs of its objects, by `namespace/name`. Raises ContentsError."""
    found: dict[str, dict[str, str]] = {resource: {} for resource in resources}
    prefixes = {_PREFIX + resource.encode() + b"/": resource for resource in resources}
    try:
        for revision, value in _bucket(store, b"key"):
            key = field(value, 1)
            resource = next((kind for prefix, kind in prefixes.items() if key.startswith(prefix)), "")
            if not resource:
                continue
            name = key[len(_PREFIX) + len(resource) + 1 :].decode("utf-8", "replace")
            if len(revision) == _TOMBSTONE_BYTES:
                found[resource].pop(name, None)
            else:
                found[resource][name] = _uid(field(value, 5))
    except _BROKEN as error:
        raise ContentsError("the store is not a file of etcd") from error
    return found


def latest(store: Store, prefixes: Sequence[str]) -> Iterator[tuple[str, str, bytes]]:
    """Prefix, key and value of every key below these prefixes, in the order of their last changes. Raises ContentsError."""
    wanted = {(_PREFIX + prefix.encode()): prefix for prefix in prefixes}
    last: dict[bytes, bytes] = {}
    try:
        for revision, value in _bucket(store, b"key"):
            key = field(value, 1)
            if any(map(key.startswith, wanted)):
                last[key] = revision
        for revision, value in _bucket(store, b"key"):
            key = field(value, 1)
            if last.get(key) == revision and len(revision) != _TOMBSTONE_BYTES:
                found = next(prefix for start, prefix in wanted.items() if key.startswith(start))
                yield found, key.decode("utf-8", "replace"), field(value, 5)
    except _BROKEN as error:
        raise ContentsError("the store is not a file of etcd") from error


def unknown(host_object: Mapping[str, Any], known: Mapping[str, str]) -> str:
    """The virtual namespace and name of a host object that a plane does not know; empty if it knows it.

    `known` are the UIDs of the plane's objects of that kind, by `namespace/name`.
    """
    noted = mapping(mapping(host_object.get("metadata")).get("annotations"))
    name, uid = text(noted.get(labels.VIRTUAL_NAME)), text(noted.get(labels.VIRTUAL_UID))
    shown = f"{text(noted.get(labels.VIRTUAL_NAMESPACE))}/{name}"
    return "" if not name or known.get(shown) == uid else shown


def _bucket(store: Store, name: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The entries of one bucket, in order."""
    size, root = _newest(store)
    for flags, key, value in _entries(store, size, root, 0):
        if key == name and flags & _IS_BUCKET:
            page, _ = _BUCKET.unpack_from(value)
            if page:
                yield from ((key, value) for _, key, value in _entries(store, size, page, 0))
            else:
                yield from ((key, value) for _, key, value in _leaf(value, _BUCKET.size))
            return
    raise ContentsError(f"the store has no bucket {name.decode()}")


def _newest(store: Store) -> tuple[int, int]:
    """Page size, and the page of the root bucket."""
    found: list[tuple[int, int, int]] = []
    for at in (0, *sorted(_PAGE_SIZES)):
        if at + _PAGE.size + _META.size > len(store):
            break
        magic, version, size, _, root, _, _, _, transaction = _META.unpack_from(store, at + _PAGE.size)
        if magic == _MAGIC and version == 2 and size in _PAGE_SIZES and at in {0, size}:
            found.append((transaction, size, root))
    if not found:
        raise ContentsError("the store is not a file of etcd")
    _, size, root = max(found)
    return size, root


def _entries(store: Store, size: int, page: int, depth: int) -> Iterator[tuple[int, bytes, bytes]]:
    if depth > _DEEPEST:
        raise ContentsError("the store is not a file of etcd: its pages form a circle")
    at = page * size
    number, flags, count, _ = _PAGE.unpack_from(store, at)
    if number != page:
        raise ContentsError(f"the store is not a file of etcd: page {page} says that it is {number}")
    if flags & _IS_LEAF:
        yield from _leaf(store, at)
    elif flags & _IS_BRANCH:
        for index in range(count):
            _, _, child = _BRANCH_ELEMENT.unpack_from(store, at + _PAGE.size + index * _BRANCH_ELEMENT.size)
            yield from _entries(store, size, child, depth + 1)
    else:
        raise ContentsError(f"the store is not a file of etcd: page {page} has no entries")


def _leaf(store: Store, at: int) -> Iterator[tuple[int, bytes, bytes]]:
    _, _, count, _ = _PAGE.unpack_from(store, at)
    for index in range(count):
        element = at + _PAGE.size + index * _ELEMENT.size
        flags, position, key_size, value_size = _ELEMENT.unpack_from(store, element)
        key = element + position
        if key + key_size + value_size > len(store):
            raise ContentsError("the store is not a file of etcd: it ends too early")
        yield flags, bytes(store[key : key + key_size]), bytes(store[key + key_size : key + key_size + value_size])


def _uid(value: bytes) -> str:
    """The UID of an object in protobuf; empty for one in another form."""
    if not value.startswith(_KUBERNETES):
        return ""
    # runtime.Unknown.raw ──> metadata ──> uid
    return field(field(field(value[len(_KUBERNETES) :], 2), 1), 5).decode("utf-8", "replace")
