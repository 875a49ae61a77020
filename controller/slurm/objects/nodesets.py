"""Builds the NodeSets inside the plane: their CustomResourceDefinition, and one object for each node set of the Tenant.

Pure. `kubectl get nodesets` shows NodeSets and `kubectl scale` scales them. Their spec comes from the Tenant, except for
`replicas`, which `kubectl scale` and the lease own: applying these objects leaves that field unchanged.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api.objects import Obj
from controller.slurm.objects.parts import metadata
from controller.slurm.spec import NODE_SET_GROUP, NODE_SET_LABEL, NODE_SET_VERSION, WORKER, NodeSetSpec, SlurmSpec

PLURAL: Final = "nodesets"
KIND: Final = "NodeSet"
NAME: Final = f"{PLURAL}.{NODE_SET_GROUP}"
_GPU_TYPE: Final = re.compile(r"([a-z][a-z0-9_-]{0,31})?")
_MOST_GPUS: Final = 64


def definition() -> Obj:
    """The CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": NAME,
            "labels": {"app.kubernetes.io/part-of": "slurm", "app.kubernetes.io/managed-by": "bulkhead"},
        },
        "spec": {
            "group": NODE_SET_GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["nss"],
                "categories": ["slurm"],
            },
            "versions": [
                {
                    "name": NODE_SET_VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": _COLUMNS,
                    "schema": {"openAPIV3Schema": _SCHEMA},
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                }
            ],
        },
    }


def node_sets(spec: SlurmSpec) -> list[Obj]:
    """The NodeSets of the tenant, without `replicas`."""
    return [_node_set(node_set) for node_set in spec.node_sets]


def selector(node_set: str) -> str:
    """The label selector of a NodeSet's workers, for its status."""
    return f"{NODE_SET_LABEL}={node_set}"


def retiring_gpus(node_sets: Mapping[str, Obj]) -> tuple[NodeSetSpec, ...]:
    """The GPUs of NodeSets that only the plane still knows; a tenant may have written anything into them."""
    found = []
    for name, obj in node_sets.items():
        spec = obj.get("spec") or {}
        gpus, gpu_type = spec.get("gpus"), str(spec.get("gpuType") or "")
        if isinstance(gpus, int) and 0 < gpus <= _MOST_GPUS and _GPU_TYPE.fullmatch(gpu_type):
            found.append(NodeSetSpec(name, 0, 0, 0, cpus=1, memory_mib=1, gpus=gpus, gpu_type=gpu_type))
    return tuple(found)


def _node_set(node_set: NodeSetSpec) -> Obj:
    wanted: Obj = {
        "min": node_set.minimum,
        "max": node_set.maximum,
        "cpus": node_set.cpus,
        "memory": f"{node_set.memory_mib}Mi",
        "gpus": node_set.gpus,
    }
    if node_set.gpu_type:
        wanted["gpuType"] = node_set.gpu_type
    if node_set.features:
        wanted["features"] = list(node_set.features)
    return {
        "apiVersion": f"{NODE_SET_GROUP}/{NODE_SET_VERSION}",
        "kind": KIND,
        "metadata": metadata(node_set.name, WORKER),
        "spec": wanted,
    }


def _number(description: str, highest: int = 1_000_000) -> dict[str, Any]:
    return {"type": "integer", "format": "int32", "minimum": 0, "maximum": highest, "description": description}


def _text(description: str, limit: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": limit, "description": description}


def _column(name: str, path: str, description: str, *, type_: str = "integer", priority: int = 0) -> dict[str, Any]:
    column = {"name": name, "type": type_, "jsonPath": path, "description": description}
    return column | {"priority": priority} if priority else column


_WHY: Final = '.status.conditions[?(@.type=="WorkersWait")].message'
_COLUMNS: Final = [
    _column("Replicas", ".spec.replicas", "Wanted number of workers"),
    _column("Ready", ".status.readyReplicas", "Workers that Slurm can use"),
    _column("Min", ".spec.min", "Fewest workers"),
    _column("Max", ".spec.max", "Most workers"),
    _column("GPUs", ".spec.gpus", "GPUs of each worker"),
    _column("Idle", ".status.slurmIdle", "Idle Slurm nodes"),
    _column("Allocated", ".status.slurmAllocated", "Slurm nodes with jobs"),
    _column("Down", ".status.slurmDown", "Slurm nodes that are down"),
    _column("Drain", ".status.slurmDrain", "Slurm nodes that accept no new jobs"),
    _column("Age", ".metadata.creationTimestamp", "Since when", type_="date"),
    _column("Type", ".spec.gpuType", "Type of the GPUs", type_="string", priority=1),
    _column("Waits", _WHY, "Why workers are still waiting", type_="string", priority=1),
]

_SPEC: Final[dict[str, Any]] = {
    "type": "object",
    "description": "The wanted state; all fields except replicas come from the Tenant, and changes of them here are reverted.",
    "required": ["min", "max"],
    "properties": {
        "replicas": _number("Wanted number of workers; kubectl scale and the lease set it, between min and max.", 1024),
        "min": _number("Fewest workers.", 1024),
        "max": _number("Most workers.", 1024),
        "cpus": _number("CPUs of each worker.", 1024),
        "memory": _text("Memory of each worker.", 20),
        "gpus": _number("GPUs of each worker.", _MOST_GPUS),
        "gpuType": _text("Type of the GPUs, as Slurm names it.", 32),
        "features": {
            "type": "array",
            "maxItems": 32,
            "x-kubernetes-list-type": "atomic",
            "description": "Features of the workers, for --constraint.",
            "items": {"type": "string", "maxLength": 63},
        },
    },
    # The bounds may move under a number that is there; a number that is set must lie within them.
    "x-kubernetes-validations": [
        {
            "rule": "!has(self.replicas) || (has(oldSelf.replicas) && oldSelf.replicas == self.replicas) || "
            "(self.replicas >= self.min && self.replicas <= self.max)",
            "message": "replicas: must be between min and max; the Tenant sets these bounds",
        }
    ],
}

_CONDITION: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["type", "status"],
    "properties": {
        "type": _text("What the condition is about.", 316),
        "status": _text("Whether it holds.", 16),
        "reason": _text("Why, in one word.", 1024),
        "message": _text("Why, for people.", 4096),
        "lastTransitionTime": {"type": "string", "format": "date-time", "description": "When the status last changed."},
        "observedGeneration": {
            "type": "integer",
            "format": "int64",
            "minimum": 0,
            "description": "Generation to which it refers.",
        },
    },
}

_STATUS: Final[dict[str, Any]] = {
    "type": "object",
    "description": "What runs.",
    "properties": {
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0, "description": "Generation acted on."},
        "selector": _text("Label selector of the workers.", 512),
        "replicas": _number("Workers that exist."),
        "readyReplicas": _number("Workers that Slurm can use."),
        "updatedReplicas": _number("Workers made from the spec as it is now."),
        "desiredReplicas": _number("Workers that the lease wants."),
        "slurmIdle": _number("Idle Slurm nodes."),
        "slurmAllocated": _number("Slurm nodes with jobs."),
        "slurmDown": _number("Slurm nodes that are down."),
        "slurmDrain": _number("Slurm nodes that accept no new jobs."),
        "conditions": {
            "type": "array",
            "maxItems": 16,
            "description": "The state of the set.",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": _CONDITION,
        },
    },
}

_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "description": "Workers of one kind: pods that each run a slurmd.",
    "required": ["spec"],
    "properties": {
        "apiVersion": _text("Group and version of this object's schema.", 63),
        "kind": _text("Kind of this object.", 63),
        "metadata": {"type": "object"},
        "spec": _SPEC,
        "status": _STATUS,
    },
}
