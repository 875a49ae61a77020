"""The downward API: what a pod reads about itself must be its virtual self.

References to metadata are redirected to annotations of the host pod that carry the virtual values, so that volumes follow
later changes; references to spec.nodeName, to status and to the zone are the same on both sides and stay.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from bulkhead.api import labels as marks
from syncer.translate import metadata, schema
from syncer.translate.reasons import Reason, Untranslatable

SERVICE_ACCOUNT: Final = "bulkhead.dev/virtual-service-account"
LABELS: Final = "bulkhead.dev/virtual-labels"
ANNOTATIONS: Final = "bulkhead.dev/virtual-annotations"
_LABEL_PREFIX: Final = "label.bulkhead.dev/"
_ANNOTATION_PREFIX: Final = "annotation.bulkhead.dev/"

# The two labels are the node's, which the host's API server puts on the pod when it is bound, before any container reads them.
_UNCHANGED: Final = frozenset(
    {
        "spec.nodeName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
        "metadata.labels['topology.kubernetes.io/zone']",
        "metadata.labels['topology.kubernetes.io/region']",
    }
)
_FIXED: Final[Mapping[str, str]] = {
    "metadata.name": marks.VIRTUAL_NAME,
    "metadata.namespace": marks.VIRTUAL_NAMESPACE,
    "metadata.uid": marks.VIRTUAL_UID,
    "spec.serviceAccountName": SERVICE_ACCOUNT,
    "metadata.labels": LABELS,
    "metadata.annotations": ANNOTATIONS,
}
_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['([^']{1,317})'\]")

FIELD_REF: Final = schema.Struct({"apiVersion": schema.OneOf(("", "v1")), "fieldPath": schema.Text(400)})
RESOURCE_REF: Final = schema.Struct(
    {
        "containerName": schema.NAME,
        "resource": schema.Text(317),
        "divisor": schema.QUANTITY,
    }
)


def field_ref(value: Any, path: str) -> dict[str, Any]:
    """A fieldRef as it stands on the host."""
    found = schema.struct(value, FIELD_REF, path).get("fieldPath", "")
    if found in _UNCHANGED:
        return {"apiVersion": "v1", "fieldPath": found}
    key = _annotation_of(found)
    if key is None:
        raise Untranslatable(Reason.MALFORMED, f"{found[:64]!r} is not a field that a pod can read", f"{path}.fieldPath")
    return {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{key}']"}


def annotations(virtual: Mapping[str, Any]) -> dict[str, str]:
    """The annotations that the pod's redirected references read, and no others."""
    meta = schema.mapping(virtual.get("metadata"), "metadata")
    spec = schema.mapping(virtual.get("spec"), "spec")
    labels = schema.text_map(meta.get("labels"), "metadata.labels")
    annotations = schema.text_map(meta.get("annotations"), "metadata.annotations")
    found: dict[str, str] = {}
    for path in set(_paths(spec)) - _UNCHANGED:
        match = _SUBSCRIPT.fullmatch(path)
        if match:
            source = labels if match[1] == "labels" else annotations
            if match[2] in source:
                found[_annotation_of(path) or ""] = source[match[2]]
        elif path == "metadata.labels":
            found[LABELS] = _listing(labels)
        elif path == "metadata.annotations":
            found[ANNOTATIONS] = _listing(annotations)
        elif path == "spec.serviceAccountName":
            found[SERVICE_ACCOUNT] = schema.text(spec.get("serviceAccountName"), "spec.serviceAccountName", 253)
    return found


def _annotation_of(path: str) -> str | None:
    match = _SUBSCRIPT.fullmatch(path)
    if match:
        return (_LABEL_PREFIX if match[1] == "labels" else _ANNOTATION_PREFIX) + metadata.digest(match[2])
    return _FIXED.get(path)


def _paths(spec: Mapping[str, Any]) -> Iterator[str]:
    """The fieldPaths of the pod's containers and volumes; translation proper reports what is malformed."""
    for list_name in ("initContainers", "containers", "ephemeralContainers"):
        for at, container in schema.items(spec.get(list_name), f"spec.{list_name}"):
            for env_at, entry in schema.items(container.get("env"), f"{at}.env"):
                source = schema.mapping(entry.get("valueFrom"), f"{env_at}.valueFrom")
                yield from _path_of(source.get("fieldRef"), env_at)
    for at, volume in schema.items(spec.get("volumes"), "spec.volumes"):
        yield from _files(volume.get("downwardAPI"), at)
        projected = schema.mapping(volume.get("projected"), at)
        for source_at, source in schema.items(projected.get("sources"), f"{at}.projected.sources"):
            yield from _files(source.get("downwardAPI"), source_at)


def _files(value: Any, path: str) -> Iterator[str]:
    for at, file in schema.items(schema.mapping(value, path).get("items"), f"{path}.items"):
        yield from _path_of(file.get("fieldRef"), at)


def _path_of(value: Any, path: str) -> Iterator[str]:
    found = schema.mapping(value, path).get("fieldPath")
    if isinstance(found, str):
        yield found


def _listing(values: Mapping[str, str]) -> str:
    """The kubelet's form of a whole map: sorted `key="value"` lines, values quoted as Go does."""
    return "\n".join(f"{key}={_quoted(values[key])}" for key in sorted(values))


_ESCAPES: Final[Mapping[str, str]] = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def _quoted(value: str) -> str:
    return '"' + "".join(_escaped(sign) for sign in value) + '"'


def _escaped(sign: str) -> str:
    if sign in _ESCAPES:
        return _ESCAPES[sign]
    if sign.isprintable():
        return sign
    code = ord(sign)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
