"""Where a tenant's nodes stand in the network, for Slurm: from the labels that the Kubernetes mode reads too.

Pure. A unit is an NVLink domain, or a rack where there is none. Slurm knows the units from topology.yaml; a worker registers
as not placed yet, which lets its jobs run at once, and is moved to its unit when its pod's node is known.
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
    """The units that the nodes stand in, in a fixed order."""
    if kind == FLAT:
        return TopologySpec(FLAT)
    units = sorted({unit for node in nodes if (unit := unit_of(node)) is not None})
    return TopologySpec(kind, tuple(units[:MOST_UNITS]))


def grown(topology: TopologySpec, kept: Iterable[str]) -> TopologySpec:
    """The topology with units that Slurm's files had before: slurmctld does not start while a node's unit is missing."""
    if topology.kind == FLAT:
        return topology
    known = [unit for unit in kept if _UNIT.fullmatch(unit) and unit not in {UNPLACED, ROOT_SWITCH, *topology.units}]
    return TopologySpec(topology.kind, tuple(sorted({*topology.units, *known})[:MOST_UNITS]))


def units_in(text: str) -> frozenset[str]:
    """The units in a topology.yaml of ours; a tenant may have changed it."""
    return frozenset(_LINE.findall(text[:_FILE_CHARACTERS]))


def unit_of(node: Obj) -> str | None:
    """The unit that a node stands in; None when its labels do not say."""
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
    """A label's value as a name of Slurm's; two values that differ only in odd signs become one, which costs locality only."""
    text = re.sub(r"[^a-z0-9-]+", "-", str(value or "").lower()).strip("-")
    if not text:
        return None
    return (text if text.startswith(f"{prefix}-") else f"{prefix}-{text}")[:_UNIT_NAME_CHARACTERS]


def _labels(node: Obj) -> Mapping[str, Any]:
    return mapping(mapping(node.get("metadata")).get("labels"))
