"""The contents of an image, found in its layers and written as SPDX 2.3.

There are three sources: the modules in Go programs' build information, the image's list of Debian packages
(`usr/share/bulkhead/packages`), and the metadata of Python distributions. What is in none of them (our own files, other kinds
of packages) counts as the image itself. The documents contain only the given time, so the same image has the same list.
"""

import hashlib
import re
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from workstation.hostcluster.images.python_root import PACKAGE_LIST
from workstation.images import gobuildinfo
from workstation.images.documents import encode

_PROGRAM_LIMIT_BYTES: Final = 512 << 20
_TEXT_LIMIT_BYTES: Final = 1 << 20
_METADATA: Final = re.compile(r".*/[^/]+\.dist-info/METADATA$")
_FIELD: Final = re.compile(r"^(Name|Version): *(\S+) *$", re.MULTILINE)


@dataclass(frozen=True, slots=True, order=True)
class Component:
    """One package: its kind in the terms of package URLs, its name and version."""

    kind: str
    name: str
    version: str

    @property
    def purl(self) -> str:
        """The package URL."""
        place = {"deb": "deb/debian", "golang": "golang", "pypi": "pypi"}[self.kind]
        return f"pkg:{place}/{quote(self.name, safe='/')}@{quote(self.version, safe='')}"


def debian(listing: str) -> set[Component]:
    """From names of package files: `name_version_architecture.deb`."""
    found = set()
    for line in listing.splitlines():
        parts = line.strip().removesuffix(".deb").split("_")
        if len(parts) == 3:
            found.add(Component("deb", parts[0], unquote(parts[1])))
    return found


def python(metadata: str) -> Component | None:
    """From the METADATA of one distribution."""
    fields = dict(reversed(_FIELD.findall(metadata.partition("\n\n")[0])))
    if {"Name", "Version"} - fields.keys():
        return None
    return Component("pypi", re.sub(r"[-_.]+", "-", fields["Name"]).lower(), fields["Version"])


def golang(program: bytes) -> set[Component]:
    """From a program; empty if it is not a Go program."""
    info = gobuildinfo.read(program)
    if info is None:
        return set()
    modules = {Component("golang", module.path, module.version.removeprefix("v")) for module in info.modules}
    released = {module for module in modules if module.version != "(devel)"}
    return released | {Component("golang", "stdlib", info.go.removeprefix("go"))}


def _of_member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> set[Component]:
    text, program = member.size <= _TEXT_LIMIT_BYTES, member.mode & 0o111 and member.size <= _PROGRAM_LIMIT_BYTES
    wanted = member.name == PACKAGE_LIST or _METADATA.match(member.name)
    stream = tar.extractfile(member) if member.isfile() and ((wanted and text) or program) else None
    if stream is None:
        return set()
    if member.name == PACKAGE_LIST:
        return debian(stream.read().decode(errors="replace"))
    if wanted:
        found = python(stream.read().decode(errors="replace"))
        return {found} if found else set()
    start = stream.read(4)
    return golang(start + stream.read()) if start == b"\x7fELF" else set()


def scan(layers: Iterable[Path]) -> tuple[Component, ...]:
    """The components of an image's unpacked layers."""
    found: set[Component] = set()
    for layer in layers:
        with tarfile.open(layer, "r:") as tar:
            for member in tar:
                found |= _of_member(tar, member)
    return tuple(sorted(found))


def spdx(
    name: str, tag: str, image_digest: str, components: Iterable[Component], created: str, *, purpose: str = "CONTAINER"
) -> bytes:
    """The SPDX document of one architecture's image, or of another object with a digest."""
    packages = [
        {
            "SPDXID": f"SPDXRef-{hashlib.sha256(each.purl.encode()).hexdigest()[:16]}",
            "name": each.name,
            "versionInfo": each.version,
            "downloadLocation": "NOASSERTION",
            "externalRefs": [
                {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": each.purl},
            ],
        }
        for each in components
    ]
    image: dict[str, Any] = {
        "SPDXID": "SPDXRef-image",
        "name": name,
        "versionInfo": tag,
        "downloadLocation": "NOASSERTION",
        "primaryPackagePurpose": purpose,
        "checksums": [{"algorithm": "SHA256", "checksumValue": image_digest.removeprefix("sha256:")}],
    }
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-image")]
    relations += [("SPDXRef-image", "CONTAINS", str(package["SPDXID"])) for package in packages]
    return encode(
        {
            "spdxVersion": "SPDX-2.3",
            "dataLicense": "CC0-1.0",
            "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"{name}:{tag}",
            "documentNamespace": f"https://bulkhead.dev/spdx/{name}/{image_digest.removeprefix('sha256:')}",
            "creationInfo": {"created": created, "creators": ["Tool: bulkhead"]},
            "packages": [image, *packages],
            "relationships": [
                {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other} for one, kind, other in relations
            ],
        }
    )
