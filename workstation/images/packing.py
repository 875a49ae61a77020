"""Layers for transfer: compressed once, cached with the unpacked ones, and always the same bytes."""

import gzip
import hashlib
import json
import shutil
from pathlib import Path
from typing import Final

from workstation.hostcluster.images.oci import Layer, blob_path, replacing
from workstation.images.documents import Packed

_LEVEL: Final = 6
_CHUNK: Final = 1 << 20


def packed_path(cache: Path, layer: Layer) -> Path:
    """The path of a compressed layer."""
    return cache / "packed" / f"{layer.digest}.gz"


def pack(cache: Path, layer: Layer) -> tuple[Packed, Path]:
    """The compressed layer, which is created if the cache lacks it."""
    path = packed_path(cache, layer)
    record = path.with_suffix(".json")
    try:
        stored = json.loads(record.read_bytes())
        made = Packed(str(stored["digest"]), int(stored["size"]), f"sha256:{layer.digest}")
        if path.stat().st_size == made.size:
            return made, path
    except (FileNotFoundError, ValueError, KeyError):
        pass
    with (
        replacing(path) as out,
        gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=out, mtime=0) as packing,
        blob_path(cache, layer.digest).open("rb") as source,
    ):
        shutil.copyfileobj(source, packing, _CHUNK)
    digest, size = _digest(path), path.stat().st_size
    with replacing(record) as stream:
        stream.write(json.dumps({"digest": digest, "size": size}).encode())
    return Packed(digest, size, f"sha256:{layer.digest}"), path


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()


def drop_unused(cache: Path) -> None:
    """Remove compressed layers whose unpacked layer no longer exists."""
    for path in (cache / "packed").glob("*.gz"):
        if not blob_path(cache, path.stem).exists():
            path.unlink(missing_ok=True)
            path.with_suffix(".json").unlink(missing_ok=True)
