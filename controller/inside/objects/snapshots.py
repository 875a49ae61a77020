"""The API of volume snapshots inside a plane: two CRDs of snapshot.storage.k8s.io/v1.

Pure. Group, version, names and fields are those of the kubernetes-csi project, so that its clients work; the schema is our own.
There is no VolumeSnapshotContent: contents belong to the host, and a tenant could not do anything with one.
"""

from typing import Any, Final

from bulkhead.api import labels
from bulkhead.api.objects import Obj

GROUP: Final = "snapshot.storage.k8s.io"
VERSION: Final = "v1"
# API servers accept a k8s.io group only with the link to its approval.
_APPROVED: Final = {"api-approved.kubernetes.io": "https://github.com/kubernetes-csi/external-snapshotter/pull/814"}

_TIME: Final[Obj] = {"type": "string", "format": "date-time"}
_SIZE: Final[Obj] = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": r"^[+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
    "description": "The smallest size of a claim that is restored from it.",
}
_FIXED: Final[Obj] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 253,
    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "the source is immutable"}],
}
_SOURCE: Final[Obj] = {
    "type": "object",
    "description": "The volume to take the snapshot of.",
    "properties": {
        "persistentVolumeClaimName": {**_FIXED, "description": "A claim of the same namespace."},
        "volumeSnapshotContentName": {**_FIXED, "description": "An existing content; not offered here."},
    },
    "x-kubernetes-validations": [
        {
            "rule": "has(self.persistentVolumeClaimName) != has(self.volumeSnapshotContentName)",
            "message": "exactly one of persistentVolumeClaimName and volumeSnapshotContentName must be set",
        },
        {
            "rule": "!has(oldSelf.persistentVolumeClaimName) || has(self.persistentVolumeClaimName)",
            "message": "persistentVolumeClaimName is required once set",
        },
        {
            "rule": "!has(oldSelf.volumeSnapshotContentName) || has(self.volumeSnapshotContentName)",
            "message": "volumeSnapshotContentName is required once set",
        },
    ],
}
_SPEC: Final[Obj] = {
    "type": "object",
    "description": "The desired snapshot.",
    "required": ["source"],
    "properties": {
        "source": _SOURCE,
        "volumeSnapshotClassName": {
            "type": "string",
            "maxLength": 253,
            "description": "One of the offered classes; if empty, the default class.",
            "x-kubernetes-validations": [{"rule": "size(self) > 0", "message": "must not be empty when it is set"}],
        },
    },
}
_STATUS: Final[Obj] = {
    "type": "object",
    "description": "The state of the snapshot.",
    "properties": {
        "readyToUse": {"type": "boolean", "description": "Whether claims can be restored from it."},
        "creationTime": {**_TIME, "description": "The moment of the data."},
        "restoreSize": _SIZE,
        "boundVolumeSnapshotContentName": {"type": "string", "description": "Stays empty: contents are the platform's."},
        "volumeGroupSnapshotName": {"type": "string", "description": "Stays empty: groups are not offered."},
        "error": {
            "type": "object",
            "description": "The last error.",
            "properties": {"time": _TIME, "message": {"type": "string"}},
        },
    },
}
_CLASS: Final[Obj] = {
    "driver": {"type": "string", "description": "The driver of its volumes."},
    "deletionPolicy": {"type": "string", "enum": ["Delete", "Retain"], "description": "What happens to the data on deletion."},
    "parameters": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "Not shown: they belong to the host.",
    },
}


def definitions() -> tuple[Obj, ...]:
    """VolumeSnapshot and VolumeSnapshotClass."""
    snapshots = _definition(
        "VolumeSnapshot",
        "volumesnapshots",
        "Namespaced",
        ("vs",),
        {"spec": _SPEC, "status": _STATUS},
        required=["spec"],
        columns=[
            _column("ReadyToUse", "boolean", ".status.readyToUse"),
            _column("SourcePVC", "string", ".spec.source.persistentVolumeClaimName"),
            _column("RestoreSize", "string", ".status.restoreSize"),
            _column("SnapshotClass", "string", ".spec.volumeSnapshotClassName"),
            _column("CreationTime", "date", ".status.creationTime"),
            _column("Error", "string", ".status.error.message", priority=1),
            _column("Age", "date", ".metadata.creationTimestamp"),
        ],
    )
    classes = _definition(
        "VolumeSnapshotClass",
        "volumesnapshotclasses",
        "Cluster",
        ("vsclass", "vsclasses"),
        _CLASS,
        required=["deletionPolicy", "driver"],
        columns=[
            _column("Driver", "string", ".driver"),
            _column("DeletionPolicy", "string", ".deletionPolicy"),
            _column("Age", "date", ".metadata.creationTimestamp"),
        ],
    )
    snapshots["spec"]["versions"][0]["subresources"] = {"status": {}}
    return snapshots, classes


def _definition(
    kind: str, plural: str, scope: str, shorts: tuple[str, ...], properties: Obj, *, required: list[str], columns: list[Obj]
) -> Obj:
    root: dict[str, Any] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    schema = {
        "type": "object",
        "description": f"A {kind} of {GROUP}.",
        "required": required,
        "properties": root | properties,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{GROUP}",
            "labels": {labels.PLATFORM: "true", labels.MANAGED_BY: labels.MANAGED_BY_BULKHEAD},
            "annotations": dict(_APPROVED),
        },
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": list(shorts),
            },
            "conversion": {"strategy": "None"},
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": columns,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def _column(name: str, kind: str, path: str, *, priority: int = 0) -> Obj:
    column: Obj = {"name": name, "type": kind, "jsonPath": path}
    return column | ({"priority": priority} if priority else {})
