"""The JSON documents of published images: configurations, manifests, indexes, and manifests that attach SBOMs.

Pure: the same input gives the same bytes, and so the same digests. The caller passes all times.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from workstation.hostcluster.images.oci import ImageSpec
from workstation.images.catalogue import Image

INDEX: Final = "application/vnd.oci.image.index.v1+json"
MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
CONFIG: Final = "application/vnd.oci.image.config.v1+json"
LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
SPDX: Final = "application/spdx+json"
EMPTY: Final = "application/vnd.oci.empty.v1+json"
EMPTY_CONTENT: Final = b"{}"
_LABEL: Final = "org.opencontainers.image."


@dataclass(frozen=True, slots=True)
class Packed:
    """One layer: its compressed bytes, and the digest of its unpacked content."""

    digest: str
    size: int
    unpacked: str


def encode(value: Any) -> bytes:
    """JSON in one canonical form."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def digest_of(content: bytes) -> str:
    """`sha256:…` of some bytes."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def described(media_type: str, content: bytes, **more: Any) -> dict[str, Any]:
    """A descriptor of a document."""
    return {"mediaType": media_type, "digest": digest_of(content), "size": len(content), **more}


def annotations(image: Image, created: str) -> dict[str, str]:
    """The labels that OCI's image specification defines, as far as their values are known."""
    known = {
        "title": image.name,
        "description": image.about.description,
        "version": image.tag,
        "source": image.about.source,
        "licenses": image.about.licences,
        "created": created,
    }
    return {_LABEL + key: value for key, value in known.items() if value}


def config(spec: ImageSpec, layers: Iterable[Packed], labels: Mapping[str, str], created: str) -> bytes:
    """The configuration of one architecture's image."""
    kept = list(layers)
    return encode(
        {
            "architecture": spec.architecture,
            "os": "linux",
            "created": created,
            "config": {
                "User": spec.user,
                "Env": [f"{name}={value}" for name, value in sorted(spec.environment.items())],
                "Entrypoint": list(spec.entrypoint),
                "Cmd": list(spec.command),
                "WorkingDir": spec.working_dir,
                "Labels": dict(labels),
            },
            "rootfs": {"type": "layers", "diff_ids": [layer.unpacked for layer in kept]},
            "history": [{"created": created, "created_by": "bulkhead"} for _ in kept],
        }
    )


def manifest(configuration: bytes, layers: Iterable[Packed], notes: Mapping[str, str]) -> bytes:
    """The manifest of one architecture's image."""
    return encode(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": described(CONFIG, configuration),
            "layers": [{"mediaType": LAYER, "digest": layer.digest, "size": layer.size} for layer in layers],
            "annotations": dict(notes),
        }
    )


def index(manifests: Mapping[str, bytes], notes: Mapping[str, str]) -> bytes:
    """The index over the architectures: the tag points to it, and the values file has its digest."""
    entries = [
        described(MANIFEST, content, platform={"architecture": architecture, "os": "linux"})
        for architecture, content in sorted(manifests.items())
    ]
    return encode({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries, "annotations": dict(notes)})


def layout(index_content: bytes, image: Image) -> bytes:
    """`index.json` of an archive with this one image."""
    names = {"io.containerd.image.name": f"docker.io/bulkhead/{image.title}", _LABEL + "ref.name": image.tag}
    entry = described(INDEX, index_content, annotations=names)
    return encode({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]})


def attachment(subject: Mapping[str, Any], sbom: bytes, *, architecture: str, created: str) -> bytes:
    """The manifest that attaches an SBOM to a manifest or an index (referrers, OCI 1.1)."""
    return encode(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": SPDX,
            "config": described(EMPTY, EMPTY_CONTENT),
            "layers": [described(SPDX, sbom, annotations={_LABEL + "title": f"sbom-{architecture}.spdx.json"})],
            "subject": {key: subject[key] for key in ("mediaType", "digest", "size")},
            "annotations": {_LABEL + "created": created, "bulkhead.dev/architecture": architecture},
        }
    )
