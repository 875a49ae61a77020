"""Computes the network topology of a tenant's nodes for Slurm, from the same labels that Kubernetes mode uses.

Pure. A unit is an NVLink domain, or a rack if there is none. Slurm knows the units from topology.yaml. A worker registers as
unplaced, so that its jobs can run at once, and is moved to its unit when its pod's node is known.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping
from controller.slurm.config import ROOT_SWITCH, TOPOLOGY, UNPLACED
from controller.slurm.spec import TopologySpec

FLAT: Final = "flat"
MOST_UNITS: Final = 512
_UNIT_NAME_CHARACTERS: Final = 60
_FILE_CHARACTERS: Final = 256 * 1024
_UNIT: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")
_LINE: Final = re.compile(r"^ *- (?:switch|block): ([a-z0-9][a-z0-9-]{0,59})$", re.MULTILINE)
_UNIT_LABELS: Final = ((labels.NVLINK_DOMAIN, "nvlink"), (labels.GPU_CLIQUE, "nvlink"), (labels.RACK, "rack"))
_FEATURE_LABELS: Final = (
    (labels.GPU_PRODUCT, "gpu"),
    (labels.ZONE, "zone"),
    (labels.RACK, "rack"),
    (labels.NVLINK_DOMAIN, "nvlink"),
)


def topology_of(kind: str, nodes: Iterable[Obj]) -> TopologySpec:
    """The units of the nodes, in a fixed order."""
    if kind == FLAT:
        return TopologySpec(FLAT)
    units = sorted({unit for node in nodes if (unit := unit_of(node)) is not None})
    return TopologySpec(kind, tuple(units[:MOST_UNITS]))


def grown(topology: TopologySpec, kept: Iterable[str]) -> TopologySpec:
    """The topology, with the units that Slurm's files had before: slurmctld does not start if a node's unit is missing."""
    if topology.kind == FLAT:
        return topology
    known = [unit for unit in kept if _UNIT.fullmatch(unit) and unit not in {UNPLACED, ROOT_SWITCH, *topology.units}]
    return TopologySpec(topology.kind, tuple(sorted({*topology.units, *known})[:MOST_UNITS]))


def units_in(text: str) -> frozenset[str]:
    """The units in the platform's topology.yaml; a tenant may have changed it."""
    return frozenset(_LINE.findall(text[:_FILE_CHARACTERS]))


def unit_of(node: Obj) -> str | None:
    """The unit of a node; None if its labels name none."""
    own = _labels(node)
    return next((named for label, prefix in _UNIT_LABELS if (named := _name(prefix, own.get(label)))), None)


def place(topology: TopologySpec, node: Obj | None) -> str:
    """A worker's place as Slurm writes it, on this node: `platform:<unit>`; empty in a flat network."""
    if topology.kind == FLAT:
        return ""
    unit = unit_of(node) if node is not None else None
    return f"{TOPOLOGY}:{unit if unit in topology.units else UNPLACED}"


def features_of(node: Obj, *, gpus: bool = True) -> tuple[str, ...]:
    """What a node's labels add to its workers' features: the product of the GPUs they have, zone, rack, NVLink domain."""
    own = _labels(node)
    read = [label for label in _FEATURE_LABELS if gpus or label[0] != labels.GPU_PRODUCT]
    return tuple(named for label, prefix in read if (named := _name(prefix, own.get(label))))


def _name(prefix: str, value: Any) -> str | None:
    """A label's value as a name for Slurm; values that differ only in unusual characters become one, which costs locality."""
    text = re.sub(r"[^a-z0-9-]+", "-", str(value or "").lower()).strip("-")
    if not text:
        return None
    return (text if text.startswith(f"{prefix}-") else f"{prefix}-{text}")[:_UNIT_NAME_CHARACTERS]


def _labels(node: Obj) -> Mapping[str, Any]:
    return mapping(mapping(node.get("metadata")).get("labels"))
