"""Small images in archives, as a build leaves them."""

import hashlib
from pathlib import Path

from workstation.hostcluster.images.oci import Entry, ImageSpec, write_archive
from workstation.images import documents, sbom
from workstation.images.catalogue import About, Image
from workstation.images.documents import Packed

WHEN = "2026-01-01T00:00:00Z"


def digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def archive(
    folder: Path, name: str = "etcd", *, layers: tuple[bytes, ...] = (b"a" * 1000, b"b" * 50), damage: bytes | None = None
) -> Path:
    """`damage`: what the first layer holds instead of what its digest says."""
    image = Image(name, "v1", lambda _: ImageSpec(name, ()), About(name))
    notes = documents.annotations(image, WHEN)
    packed = [Packed(digest(each), len(each), digest(each)) for each in layers]
    configuration = documents.config(ImageSpec(name, (), architecture="amd64"), packed, notes, WHEN)
    manifest = documents.manifest(configuration, packed, notes)
    index = documents.index({"amd64": manifest}, notes)
    contents = {digest(each): each for each in (index, manifest, configuration, *layers)}
    if damage is not None:
        contents[digest(layers[0])] = damage
    entries = [Entry(f"blobs/sha256/{key[7:]}", "file", content) for key, content in contents.items()]
    entries.append(Entry("index.json", "file", documents.layout(index, image)))
    path = folder / f"{name}-v1.tar"
    write_archive(entries, path)
    path.with_name(f"{name}-v1.amd64.spdx.json").write_bytes(sbom.spdx(name, "v1", digest(manifest), (), WHEN))
    return path
