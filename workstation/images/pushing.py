"""Pushes archives into a registry. Blobs that the registry has are not sent again, and an interrupted push continues.

    blobs ─> manifests of the architectures ─> SBOMs, which refer to them ─> index under its tag

A tag is written last, so that it never points to something incomplete. Bytes are hashed while they are sent, so a damaged
archive is reported before its blob is complete. Registries without the referrers API get the tag that OCI 1.1 defines for them.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final, Protocol

from workstation.hostcluster.component import Progress
from workstation.images import documents
from workstation.images.archive import Archive, ArchiveError, Described, Span
from workstation.images.registry import Registry
from workstation.images.transport import BrokenError, RegistryError
from workstation.images.uploads import Uploads

CHUNK: Final = 8 << 20
_TRIES: Final = 5
_SBOM_LIMIT_BYTES: Final = 64 << 20
_MAX_REFERRERS: Final = 256
_ACCEPT: Final = f"{documents.INDEX}, {documents.MANIFEST}"


class _Source(Protocol):
    """Bytes that can be read from any offset."""

    @property
    def size(self) -> int: ...

    def chunk(self, start: int, length: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class _Memory:
    content: bytes

    @property
    def size(self) -> int:
        return len(self.content)

    def chunk(self, start: int, length: int) -> bytes:
        return self.content[start : start + length]


@dataclass(frozen=True, slots=True)
class Pushed:
    """The result for one image."""

    name: str
    tag: str
    digest: str
    sent: int
    there: int
    bytes_sent: int


@dataclass(slots=True)
class Push:
    """Pushes archives, one after the other."""

    registry: Registry
    uploads: Uploads
    report: Progress
    chunk: int = CHUNK
    _sent: int = 0
    _there: int = 0
    _bytes: int = 0

    def image(self, archive: Archive) -> Pushed:
        """Push one archive with its SBOMs."""
        self._sent = self._there = self._bytes = 0
        repository = self.registry.place.repository(archive.name)
        self.report.step(f"Pushing {archive.name}:{archive.tag}")
        for manifest in archive.manifests():
            for blob in archive.blobs(manifest):
                self._blob(repository, blob, archive.span(blob))
            self._manifest(repository, manifest, archive.document(manifest))
            self._sbom(repository, archive, manifest)
        top = archive.document(archive.top)
        if self.registry.digest(repository, archive.tag, _ACCEPT) != archive.digest:
            self.registry.put_manifest(repository, archive.tag, top, archive.top)
        return Pushed(archive.name, archive.tag, archive.digest, self._sent, self._there, self._bytes)

    def _manifest(self, repository: str, described: Described, content: bytes) -> None:
        if self.registry.digest(repository, described.digest, _ACCEPT) != described.digest:
            self.registry.put_manifest(repository, described.digest, content, described)

    def _sbom(self, repository: str, archive: Archive, subject: Described) -> None:
        path = archive.path.with_name(f"{archive.path.stem}.{subject.architecture}.spdx.json")
        try:
            with path.open("rb") as stream:
                sbom = stream.read(_SBOM_LIMIT_BYTES + 1)
        except FileNotFoundError:
            self.report.warn(f"{archive.name}:{archive.tag} is pushed without an SBOM: {path} does not exist")
            return
        if len(sbom) > _SBOM_LIMIT_BYTES:
            raise ArchiveError(f"{path}: an SBOM must have at most {_SBOM_LIMIT_BYTES} bytes")
        for content in (sbom, documents.EMPTY_CONTENT):
            blob = Described("", documents.digest_of(content), len(content))
            self._blob(repository, blob, _Memory(content))
        created = str((archive.annotations(subject)).get("org.opencontainers.image.created", ""))
        content = documents.attachment(subject.as_document(), sbom, architecture=subject.architecture, created=created)
        described = Described(documents.MANIFEST, documents.digest_of(content), len(content))
        self._manifest(repository, described, content)
        if not self.registry.lists_referrers(repository, subject.digest):
            self._refer(repository, subject, described)

    def _refer(self, repository: str, subject: Described, attached: Described) -> None:
        """Update the referrers' tag, for registries that keep no list of referrers."""
        tag = subject.digest.replace(":", "-")
        known = self.registry.manifest(repository, tag, documents.INDEX)
        listed = _referrers(known, f"{repository}:{tag}")
        if any(entry.get("digest") == attached.digest for entry in listed):
            return
        entry = {**attached.as_document(), "artifactType": documents.SPDX}
        index = documents.encode({"schemaVersion": 2, "mediaType": documents.INDEX, "manifests": [*listed, entry]})
        described = Described(documents.INDEX, documents.digest_of(index), len(index))
        self.registry.put_manifest(repository, tag, index, described)

    def _blob(self, repository: str, blob: Described, source: Span | _Memory) -> None:
        if self.registry.has_blob(repository, blob):
            self._there += 1
            return
        for failed in range(1, _TRIES + 1):
            try:
                self._upload(repository, blob, source)
                break
            except BrokenError as error:
                if failed == _TRIES:
                    raise
                self.report.warn(f"{repository}: the transfer broke off and continues: {error}")
                self.registry.pause(float(2**failed))
        self._sent += 1

    def _key(self, repository: str, blob: Described) -> str:
        return f"{self.registry.place.origin}/{repository}@{blob.digest}"

    def _reached(self, repository: str, location: str) -> tuple[str, int]:
        try:
            return self.registry.offset(repository, location) or ("", 0)
        except RegistryError:
            return "", 0

    def _upload(self, repository: str, blob: Described, source: _Source) -> None:
        key = self._key(repository, blob)
        known = self.uploads.location(key)
        location, start = self._reached(repository, known) if known else ("", 0)
        if not location or start > blob.size:
            location, start = self.registry.begin(repository), 0
        hashed = hashlib.sha256()
        for at in range(0, start, self.chunk):
            hashed.update(source.chunk(at, min(self.chunk, start - at)))
        while True:
            self.uploads.remember(key, location)
            chunk = source.chunk(start, self.chunk)
            hashed.update(chunk)
            if start + len(chunk) >= blob.size:
                break
            if not chunk:
                raise ArchiveError(f"{blob.digest} ends after {start} of {blob.size} bytes")
            location = self.registry.send(repository, location, chunk, start)
            start += len(chunk)
            self._bytes += len(chunk)
            self.report.detail(f"{start * 100 // blob.size} % of {blob.size >> 20} MiB")
        if f"sha256:{hashed.hexdigest()}" != blob.digest:
            self.uploads.forget(key)
            raise ArchiveError(f"the archive is damaged: blob {blob.digest} has other content")
        self.registry.finish(repository, location, blob.digest, chunk, start)
        self.uploads.forget(key)
        self._bytes += len(chunk)


def _referrers(content: bytes | None, what: str) -> list[dict[str, Any]]:
    if content is None:
        return []
    try:
        listed = json.loads(content).get("manifests")
    except (ValueError, AttributeError, RecursionError) as error:
        raise RegistryError(f"{what}: the registry's list of referrers is not an index") from error
    if not isinstance(listed, list) or len(listed) > _MAX_REFERRERS or not all(isinstance(entry, dict) for entry in listed):
        raise RegistryError(f"{what}: the registry's list of referrers must be an index of at most {_MAX_REFERRERS} entries")
    return listed
