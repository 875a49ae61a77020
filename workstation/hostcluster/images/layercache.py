"""Remembers which layer came from which inputs, so that nothing is built twice.

A record `<cache>/layers/<name>-<key>.json` names a blob by digest. The key is a digest over all inputs of the layer. A record
without its blob counts as absent. A few older layers and images of each name are kept, so that two checkouts on one machine do
not remove each other's.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from workstation.hostcluster.images.oci import FORMAT, Entry, Layer, architecture, blob_path, replacing, write_layer

_KEPT = 3


def key_of(parts: Iterable[str | bytes]) -> str:
    """A digest over parts, each preceded by its length."""
    digest = hashlib.sha256(f"{FORMAT} {architecture()}".encode())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:24]


def file_key(path: Path) -> str:
    """A key for a large file that does not read its content: release binaries never change in place."""
    facts = path.stat()
    return f"{path.name} {facts.st_size} {facts.st_mtime_ns}"


def tree_key(root: Path, paths: Iterable[Path]) -> str:
    """A digest over the names and contents of small files."""
    parts: list[str | bytes] = []
    for path in sorted(paths):
        parts += [path.relative_to(root).as_posix(), path.read_bytes()]
    return key_of(parts)


def drop_older(folder: Path, pattern: str) -> list[Path]:
    """Remove all but the newest few files that match; returns the removed ones."""
    found = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in found[_KEPT:]:
        path.unlink(missing_ok=True)
    return found[_KEPT:]


def cached_layer(cache: Path, name: str, key: str, build: Callable[[], Iterable[Entry]]) -> Layer:
    """The layer for these inputs: from the cache, or built and recorded."""
    record = cache / "layers" / f"{name}-{key}.json"
    try:
        stored = json.loads(record.read_bytes())
        layer = Layer(stored["digest"], stored["size"])
        if blob_path(cache, layer.digest).stat().st_size == layer.size:
            record.touch()
            return layer
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        pass
    layer = write_layer(cache, build())
    with replacing(record) as stream:
        stream.write(json.dumps({"digest": layer.digest, "size": layer.size}).encode())
    drop_older(cache / "layers", f"{name}-{'?' * len(key)}.json")
    return layer


def drop_unused_blobs(cache: Path) -> None:
    """Remove blobs that no record names, and records that cannot be read: a power cut can leave one that is empty."""
    used = set()
    for record in (cache / "layers").glob("*.json"):
        try:
            used.add(json.loads(record.read_bytes())["digest"])
        except (ValueError, KeyError, TypeError):
            record.unlink(missing_ok=True)
    for blob in (cache / "blobs" / "sha256").glob("[0-9a-f]*"):
        if blob.name not in used:
            blob.unlink(missing_ok=True)
