"""What Helm has stored of the installed release: chart, version, and every object that it rendered. Pure.

    Secret sh.helm.release.v1.… ──> base64 ──> gzip ──> JSON ──> manifest ──> objects

The Secret is the host's, but every client that may write Secrets there may write it: each step has a bound.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bulkhead.api.untrusted import mapping, text

CHART: Final = "bulkhead"
_MANIFEST_LIMIT: Final = 16 << 20
_MAX_OBJECTS: Final = 1000


class UnreadableError(ValueError):
    """The Secret is not what Helm writes; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Release:
    """One release of a chart."""

    name: str
    chart: str
    version: str  # of the application: what `bulkhead version` prints
    status: str
    revision: int
    objects: tuple[Mapping[str, Any], ...]
    planes_selector: Mapping[str, str] = field(default_factory=dict)  # the nodes of planes, as the admin's values say


def decoded(secret: Mapping[str, Any]) -> Release:
    """The release in one of Helm's Secrets. Raises UnreadableError."""
    try:
        packed = base64.b64decode(base64.b64decode(text(mapping(secret.get("data")).get("release")), validate=True))
    except (ValueError, binascii.Error) as error:
        raise UnreadableError("the Secret of the release is not base64") from error
    unpacked = _gunzip(packed)
    try:
        found = mapping(json.loads(unpacked))
    except (ValueError, RecursionError) as error:
        raise UnreadableError("the Secret of the release is not JSON") from error
    meta, info = mapping(mapping(found.get("chart")).get("metadata")), mapping(found.get("info"))
    revision, planes = found.get("version"), mapping(mapping(found.get("config")).get("planes"))
    return Release(
        name=text(found.get("name")),
        chart=text(meta.get("name")),
        version=text(meta.get("appVersion")) or text(meta.get("version")),
        status=text(info.get("status")),
        revision=revision if isinstance(revision, int) else 0,
        objects=_objects(text(found.get("manifest"))),
        planes_selector={str(key): str(value) for key, value in mapping(planes.get("nodeSelector")).items()},
    )


def _gunzip(packed: bytes) -> bytes:
    reader = zlib.decompressobj(wbits=31)
    try:
        unpacked = reader.decompress(packed, _MANIFEST_LIMIT)
    except zlib.error as error:
        raise UnreadableError("the Secret of the release is not gzip") from error
    if reader.unconsumed_tail:
        raise UnreadableError(f"the release is larger than {_MANIFEST_LIMIT >> 20} MiB")
    return unpacked


def _objects(manifest: str) -> tuple[Mapping[str, Any], ...]:
    import yaml  # noqa: PLC0415 - slow to load

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = []
    try:
        for document in yaml.load_all(manifest, Loader=loader):
            if isinstance(document, dict) and document.get("kind"):
                found.append(document)
            if len(found) > _MAX_OBJECTS:
                break
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UnreadableError("the manifest of the release is not YAML") from error
    if len(found) > _MAX_OBJECTS:
        raise UnreadableError(f"the release has more than {_MAX_OBJECTS} objects")
    return tuple(found)
