"""Reads an image archive (an OCI layout in a tar) without unpacking it.

Documents are bounded, and checked by their digests as they are read. Layers are only located; the code that sends a layer
hashes it. An archive may come from elsewhere: if a part of it is wrong, an `ArchiveError` names the file.
"""

import hashlib
import json
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_DOCUMENT_LIMIT_BYTES: Final = 4 << 20
_MAX_MANIFESTS: Final = 64
_NAME: Final = "io.containerd.image.name"
_TITLE: Final = re.compile(r"([a-z0-9][a-z0-9._-]{0,62}):([A-Za-z0-9_][A-Za-z0-9._-]{0,127})")


class ArchiveError(Exception):
    """An archive cannot be used; the text names the archive and the reason."""


@dataclass(frozen=True, slots=True)
class Described:
    """A descriptor: a blob or manifest by digest."""

    media_type: str
    digest: str
    size: int
    architecture: str = ""

    def as_document(self) -> dict[str, Any]:
        """The descriptor as a referrer's `subject`."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


@dataclass(frozen=True, slots=True)
class Span:
    """Where a blob's bytes are in the archive."""

    path: Path
    offset: int
    size: int

    def chunk(self, start: int, length: int) -> bytes:
        """Some bytes of the blob."""
        with self.path.open("rb") as stream:
            stream.seek(self.offset + start)
            return stream.read(min(length, self.size - start))


class Archive:
    """An archive that contains one image; a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with tarfile.open(path, "r:") as tar:
                self._members = {member.name: (member.offset_data, member.size) for member in tar if member.isfile()}
        except (tarfile.TarError, EOFError) as error:
            raise ArchiveError(f"{path}: not an image archive: {error}") from error
        layout = self._json(self._raw("index.json"))
        manifests = layout.get("manifests")
        if not isinstance(manifests, list) or len(manifests) != 1:
            raise ArchiveError(f"{path}: must be an archive with one image")
        self.top = self._described(manifests[0])
        notes = manifests[0].get("annotations")
        title = _TITLE.fullmatch(str((notes if isinstance(notes, dict) else {}).get(_NAME)).rpartition("/")[2])
        if title is None:
            raise ArchiveError(f"{path}: its image has no name; build it with `bulkhead images build`")
        self.name, self.tag = title.groups()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._members = {}

    @property
    def digest(self) -> str:
        """The descriptor that the image's name points to."""
        return self.top.digest

    def document(self, wanted: Described) -> bytes:
        """A manifest or index, checked against the digest that was asked for."""
        content = self._raw(_blob(wanted.digest))
        if "sha256:" + hashlib.sha256(content).hexdigest() != wanted.digest or len(content) != wanted.size:
            raise ArchiveError(f"{self.path}: damaged: the content of {wanted.digest} has another digest")
        return content

    def manifests(self) -> list[Described]:
        """The manifests of the architectures."""
        listed = self._json(self.document(self.top)).get("manifests")
        if not isinstance(listed, list) or not 0 < len(listed) <= _MAX_MANIFESTS:
            raise ArchiveError(f"{self.path}: its index lists no manifests")
        return [self._described(entry) for entry in listed]

    def blobs(self, manifest: Described) -> list[Described]:
        """Configuration and layers of one architecture."""
        document = self._json(self.document(manifest))
        layers = document.get("layers")
        if not isinstance(layers, list):
            raise ArchiveError(f"{self.path}: a manifest without layers")
        return [self._described(entry) for entry in [document.get("config"), *layers]]

    def annotations(self, manifest: Described) -> dict[str, Any]:
        """The labels of one architecture's manifest."""
        found = self._json(self.document(manifest)).get("annotations")
        return found if isinstance(found, dict) else {}

    def span(self, blob: Described) -> Span:
        """Where a blob is in the archive."""
        offset, size = self._place(_blob(blob.digest))
        if size != blob.size:
            raise ArchiveError(f"{self.path}: damaged: {blob.digest} has {size} bytes, not {blob.size}")
        return Span(self.path, offset, size)

    def size(self) -> int:
        """Bytes to transfer, counting each blob once."""
        return sum({blob.digest: blob.size for manifest in self.manifests() for blob in self.blobs(manifest)}.values())

    def _place(self, name: str) -> tuple[int, int]:
        if name not in self._members:
            raise ArchiveError(f"{self.path}: {name} is missing")
        return self._members[name]

    def _raw(self, name: str) -> bytes:
        offset, size = self._place(name)
        if size > _DOCUMENT_LIMIT_BYTES:
            raise ArchiveError(f"{self.path}: {name} has {size} bytes, too many for a document")
        return Span(self.path, offset, size).chunk(0, size)

    def _json(self, content: bytes) -> dict[str, Any]:
        try:
            value = json.loads(content)
        except ValueError as error:
            raise ArchiveError(f"{self.path}: not JSON: {error}") from error
        if not isinstance(value, dict):
            raise ArchiveError(f"{self.path}: not a JSON object")
        return value

    def _described(self, value: Any) -> Described:
        try:
            media, digest, size = value["mediaType"], value["digest"], value["size"]
            machine = (value.get("platform") or {}).get("architecture") or ""
        except (TypeError, KeyError, AttributeError) as error:
            raise ArchiveError(f"{self.path}: an incomplete descriptor") from error
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest) or not isinstance(size, int) or size < 0:
            raise ArchiveError(f"{self.path}: a descriptor with digest {str(digest)[:80]!r}")
        return Described(str(media), digest, size, str(machine))


def _blob(digest: str) -> str:
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"
