"""Builds the published images: an archive of each for every architecture that can be built, and the SBOMs.

    recipe, once for each architecture ─> layers ─> packed ─> documents ─> <name>-<tag>.tar, <name>-<tag>.<arch>.spdx.json

Nothing of another architecture is executed: programs are cross-compiled, and Debian packages are only unpacked. An architecture
that cannot be built is named and left out, except the machine's own. An archive with the same content is not written again.
"""

import datetime as dt
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from workstation.hostcluster import binaries
from workstation.hostcluster.component import Progress
from workstation.hostcluster.files import write_file
from workstation.hostcluster.images.build import PROJECT, Workshop
from workstation.hostcluster.images.layercache import drop_unused_blobs
from workstation.hostcluster.images.oci import Entry, ImageSpec, architecture, blob_path, write_archive
from workstation.hostcluster.images.python_root import ImageError
from workstation.images import documents, packing, sbom
from workstation.images.archive import Archive, ArchiveError
from workstation.images.catalogue import Image


@dataclass(frozen=True, slots=True)
class _Part:
    """One architecture of an image."""

    configuration: bytes
    manifest: bytes
    blobs: Mapping[str, Path]
    sbom: bytes


def created() -> str:
    """The timestamp in images: SOURCE_DATE_EPOCH, or 1970, so that the same input gives the same image."""
    text = os.environ.get("SOURCE_DATE_EPOCH", "0")
    try:
        moment = dt.datetime.fromtimestamp(int(text), dt.UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise ImageError(f"SOURCE_DATE_EPOCH must be a number of seconds, not {text!r}") from error
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def archive_path(folder: Path, image: Image) -> Path:
    """The path of an image's archive."""
    return folder / f"{image.name}-{image.tag}.tar"


def sbom_path(folder: Path, image: Image, machine: str) -> Path:
    """The path of the SBOM for one of its architectures."""
    return folder / f"{image.name}-{image.tag}.{machine}.spdx.json"


def workshop(machine: str, *, project: Path = PROJECT) -> Workshop:
    """The place where images of one architecture are built."""
    find = binaries.ensure if machine == architecture() else partial(binaries.ensure, machine=machine)
    return Workshop(binaries.cache_dir() / "images", find, project, machine)


def _part(shop: Workshop, image: Image, spec: ImageSpec, notes: Mapping[str, str], when: str) -> _Part:
    packed = [packing.pack(shop.cache, layer) for layer in spec.layers]
    layers = [layer for layer, _ in packed]
    configuration = documents.config(spec, layers, notes, when)
    manifest = documents.manifest(configuration, layers, notes)
    found = sbom.scan(blob_path(shop.cache, layer.digest) for layer in spec.layers)
    bill = sbom.spdx(image.name, image.tag, documents.digest_of(manifest), found, when)
    return _Part(configuration, manifest, {layer.digest: path for layer, path in packed}, bill)


def _parts(image: Image, shops: Iterable[Workshop], when: str, report: Progress) -> dict[str, _Part]:
    parts: dict[str, _Part] = {}
    notes = documents.annotations(image, when)
    for shop in shops:
        report.detail(f"{image.title} for {shop.architecture}")
        try:
            spec = replace(image.recipe(shop), architecture=shop.architecture)
            parts[shop.architecture] = _part(shop, image, spec, notes, when)
        except (ImageError, RuntimeError) as error:
            if shop.architecture == architecture():
                raise ImageError(f"{image.title}: {error}") from error
            report.warn(f"{image.title} is left out for {shop.architecture}: {error}")
    if not parts:
        raise ImageError(f"{image.title}: none of the architectures could be built")
    return parts


def _write(folder: Path, image: Image, parts: Mapping[str, _Part], when: str) -> Path:
    """Write archive and SBOMs; an archive that has the same index is kept."""
    notes = documents.annotations(image, when)
    index = documents.index({machine: part.manifest for machine, part in parts.items()}, notes)
    path = archive_path(folder, image)
    for machine, part in parts.items():
        write_file(sbom_path(folder, image, machine), part.sbom)
    try:
        with Archive(path) as there:
            if there.digest == documents.digest_of(index):
                return path
    except (FileNotFoundError, ArchiveError):
        pass
    contents: dict[str, bytes | Path] = {documents.digest_of(index): index}
    for part in parts.values():
        contents |= {documents.digest_of(document): document for document in (part.configuration, part.manifest)}
        contents |= part.blobs
    entries = [Entry(f"blobs/sha256/{digest.removeprefix('sha256:')}", "file", content) for digest, content in contents.items()]
    layout = documents.layout(index, image)
    entries += [Entry("index.json", "file", layout), Entry("oci-layout", "file", b'{"imageLayoutVersion":"1.0.0"}')]
    write_archive(entries, path)
    return path


def build(images: Iterable[Image], folder: Path, shops: Iterable[Workshop], report: Progress) -> list[Path]:
    """The archives of these images; missing ones are built."""
    kept, when, made = list(shops), created(), []
    for image in images:
        report.step(f"Building {image.title}")
        made.append(_write(folder, image, _parts(image, kept, when, report), when))
    for cache in {shop.cache for shop in kept}:
        drop_unused_blobs(cache)
        packing.drop_unused(cache)
    return made
