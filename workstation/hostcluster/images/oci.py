"""Writes OCI images as files: layers (tar) and image layouts (tar of tars) that `ctr images import` reads.

The same inputs give the same bytes: entries are sorted, times are zero, owners are given. Blobs are content-addressed in one
folder, and are written under a temporary name and renamed, so that an interrupted build leaves nothing incomplete.
This module never runs a program, and never decides what is in an image.

Flow: entries -> write_layer -> Layer -> ImageSpec -> write_image -> a tar to import.
"""

import hashlib
import io
import json
import os
import platform
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

from workstation import wholefile

FORMAT = 1  # part of every cache key: increment it when the bytes written here change
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"


def architecture() -> str:
    """The machine's architecture as OCI and Go spell it."""
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of a layer; `content` is bytes, a file to copy, or the target of a link."""

    path: str
    kind: Literal["file", "dir", "link"]
    content: bytes | Path | str = b""
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class Layer:
    """A finished layer blob. It is uncompressed, so its digest is also its diff ID."""

    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """What a runtime needs to know about an image, in addition to its layers."""

    name: str
    layers: tuple[Layer, ...]
    command: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    user: str = "65532:65532"
    environment: Mapping[str, str] = field(default_factory=dict)
    working_dir: str = "/"
    architecture: str = field(default_factory=architecture)
    stop_signal: str = ""


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that replaces `path` only if the block succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wholefile.whole(path, mode=0o644) as stream:
        yield stream


def _header(entry: Entry) -> tarfile.TarInfo:
    info = tarfile.TarInfo(entry.path)
    info.mode = entry.mode
    info.mtime = 0
    match entry.kind:
        case "dir":
            info.type = tarfile.DIRTYPE
        case "link":
            info.type = tarfile.SYMTYPE
            info.linkname = str(entry.content)
            info.mode = 0o777
        case "file":
            info.size = entry.content.stat().st_size if isinstance(entry.content, Path) else len(entry.content)
    return info


def _with_parents(entries: Iterable[Entry]) -> list[Entry]:
    """The entries with every parent folder, once, before its content; a later entry for the same path wins."""
    wanted: dict[str, Entry] = {}
    for entry in entries:
        for parent in reversed(Path(entry.path).parents):
            if parent.as_posix() != ".":
                wanted.setdefault(parent.as_posix(), Entry(parent.as_posix(), "dir", mode=0o755))
        wanted[entry.path] = entry
    return [wanted[path] for path in sorted(wanted)]


class _Digesting(io.RawIOBase):
    """Forwards bytes while it counts and hashes them."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.sha256 = hashlib.sha256()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.sha256.update(data)
        self.size += len(data)
        return self._stream.write(data)


def _write_tar(entries: Iterable[Entry], stream: BinaryIO) -> tuple[str, int]:
    sink = _Digesting(stream)
    with tarfile.open(fileobj=sink, mode="w|", format=tarfile.GNU_FORMAT) as tar:
        for entry in _with_parents(entries):
            info = _header(entry)
            if entry.kind != "file":
                tar.addfile(info)
            elif isinstance(entry.content, Path):
                with entry.content.open("rb") as source:
                    tar.addfile(info, source)
            else:
                tar.addfile(info, io.BytesIO(entry.content if isinstance(entry.content, bytes) else entry.content.encode()))
    return sink.sha256.hexdigest(), sink.size


def blob_path(cache: Path, digest: str) -> Path:
    """The path of a blob in the cache."""
    return cache / "blobs" / "sha256" / digest


def write_layer(cache: Path, entries: Iterable[Entry]) -> Layer:
    """Write a layer into the cache's blobs."""
    folder = cache / "blobs" / "sha256"
    folder.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".layer-")
    try:
        with os.fdopen(handle, "wb") as stream:
            digest, size = _write_tar(entries, stream)
        Path(temporary).chmod(0o644)
        Path(temporary).rename(folder / digest)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return Layer(digest, size)


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _described(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": "sha256:" + hashlib.sha256(content).hexdigest(), "size": len(content)}


def _config(spec: ImageSpec) -> bytes:
    return _json(
        {
            "architecture": spec.architecture,
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": {
                "User": spec.user,
                "Env": [f"{name}={value}" for name, value in sorted(spec.environment.items())],
                "Entrypoint": list(spec.entrypoint),
                "Cmd": list(spec.command),
                "WorkingDir": spec.working_dir,
                **({"StopSignal": spec.stop_signal} if spec.stop_signal else {}),
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.digest}" for layer in spec.layers]},
            "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "bulkhead"} for _ in spec.layers],
        }
    )


def image_key(spec: ImageSpec) -> str:
    """A key for the image's bytes: equal keys mean equal files."""
    return hashlib.sha256(_json([FORMAT, spec.name]) + _config(spec)).hexdigest()[:16]


def write_image(cache: Path, spec: ImageSpec, out: Path) -> None:
    """Write the layout tar of an image whose layers are in the cache."""
    config = _config(spec)
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _described(_CONFIG, config),
            "layers": [{"mediaType": _LAYER, "digest": f"sha256:{x.digest}", "size": x.size} for x in spec.layers],
        }
    )
    annotations = {"io.containerd.image.name": spec.name, "org.opencontainers.image.ref.name": spec.name.rpartition(":")[2]}
    described = {
        **_described(_MANIFEST, manifest),
        "annotations": annotations,
        "platform": {"architecture": spec.architecture, "os": "linux"},
    }
    index = _json({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [described]})
    blobs: dict[str, bytes | Path] = {layer.digest: blob_path(cache, layer.digest) for layer in spec.layers}
    blobs |= {hashlib.sha256(content).hexdigest(): content for content in (config, manifest)}
    entries = [Entry(f"blobs/sha256/{digest}", "file", content) for digest, content in blobs.items()]
    entries += [Entry("index.json", "file", index), Entry("oci-layout", "file", b'{"imageLayoutVersion":"1.0.0"}')]
    write_archive(entries, out)


def write_archive(entries: Iterable[Entry], out: Path) -> None:
    """A tar of these entries, which appears only once it is complete."""
    with replacing(out) as stream:
        _write_tar(entries, stream)
