"""Two that write on one virtual node, the host and the tenant: whose the cordon, the taints and the labels are.

`spec.unschedulable` and each taint of a virtual node is the host's or the tenant's. The node itself says whose, so that nothing
is forgotten in a crash: with the annotation `bulkhead.dev/cordoned-by: host` the cordon is the host's alone, and goes
with it; without it the tenant wants it too, and it stays. `bulkhead.dev/host-taints` names the taints that are the host's.
With what it writes there a tenant can deceive only itself.

    host cordons, virtual node open   -> cordoned, annotated      tenant lifts the host's cordon         -> cordoned, annotated
    host cordons, tenant has cordoned -> nothing to write         host uncordons                         -> open, if annotated
    host taints                       -> tainted, annotated       host takes a taint away                -> gone, if annotated
    tenant taints                     -> stays                    tenant takes the host's taint away     -> it comes back

`placement` decides what the tenant's own marks mean for its pods.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings

BY_HOST: Final = "host"
# Labels that a tenant sees as the host has them. Beside those of Kubernetes and ours they are what NVIDIA's feature discovery
# and operator write of a node, by which DaemonSets, the operator and validation suites select. Not what they write for the
# host's own operands (`nvidia.com/gpu.deploy.*`), or at every start (`nvidia.com/gfd.timestamp`).
_SHOWN: Final = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        marks.ZONE,
        marks.RACK,
        marks.NVLINK_DOMAIN,
        marks.SIMULATED,
        marks.GPU_PRODUCT,
        marks.GPU_COUNT,
        marks.GPU_CLIQUE,
        *(
            f"nvidia.com/gpu.{fact}"
            for fact in (
                "present",
                "memory",
                "family",
                "mode",
                "replicas",
                "sharing-strategy",
                "compute.major",
                "compute.minor",
            )
        ),
        *(f"nvidia.com/cuda.driver.{part}" for part in ("major", "minor", "rev")),
        *(f"nvidia.com/cuda.runtime.{part}" for part in ("major", "minor")),
        *(f"nvidia.com/cuda.driver-version.{part}" for part in ("full", "major", "minor", "revision")),
        *(f"nvidia.com/cuda.runtime-version.{part}" for part in ("full", "major", "minor")),
        *(f"nvidia.com/mig.{fact}" for fact in ("capable", "strategy", "config", "config.state")),
        "nvidia.com/mps.capable",
        "nvidia.com/vgpu.present",
    }
)
# And of each MIG profile.
_SHOWN_OF_PROFILES: Final = re.compile(
    r"nvidia\.com/mig-[0-9][-+.0-9a-z]{1,38}\.(count|product|memory|multiprocessors|replicas|sharing-strategy|slices\.[cg]i|engines\.[a-z]+)"
)
_COUNT: Final = ".count"
# The tenant's pods tolerate these for a while by default, and no controller of the plane acts on them.
HIDDEN_TAINTS: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "bulkhead.dev/")


def is_shown(key: str) -> bool:
    """Whether a tenant sees a label of the host's nodes."""
    return key in _SHOWN or _SHOWN_OF_PROFILES.fullmatch(key) is not None


def shown(labels: Mapping[str, Any], has: Mapping[str, int]) -> dict[str, str]:
    """What a tenant sees of a host node's labels. What counts devices says how many of them the tenant has, by resource."""
    found = {key: value for key, value in sorted(labels.items()) if is_shown(key)}
    for key in [key for key in found if key.endswith(_COUNT)]:
        resource = marks.GPU if key == marks.GPU_COUNT else key.removesuffix(_COUNT)
        if resource in has:
            found[key] = str(has[resource])
        elif key != marks.GPU_COUNT:
            del found[key]
    return found


class Cordon(NamedTuple):
    """What a virtual node should say."""

    unschedulable: bool
    host_alone: bool

    @property
    def annotation(self) -> str | None:
        """The value of the annotation."""
        return BY_HOST if self.host_alone else None


class Taints(NamedTuple):
    """What a virtual node should say."""

    taints: list[Obj]
    annotation: str | None


class Marks(NamedTuple):
    """What the tenant itself wrote on a node."""

    cordoned: bool
    labels: dict[str, str]
    taints: tuple[Obj, ...]


NO_MARKS: Final = Marks(cordoned=False, labels={}, taints=())


def decide_cordon(virtual: Obj, *, by_host: bool) -> Cordon:
    """What a virtual node should say of its cordon that says `virtual` now."""
    held, alone = _unschedulable(virtual), annotated_cordon(virtual) == BY_HOST
    return Cordon(unschedulable=True, host_alone=alone or not held) if by_host else Cordon(held and not alone, host_alone=False)


def decide_taints(virtual: Obj, by_host: Collection[Obj]) -> Taints:
    """What a virtual node should say of its taints: the host's first. One that both want is the host's."""
    return Taints([*by_host, *_own_taints(virtual, {_name(taint) for taint in by_host})], host_taints(by_host))


def host_taints(by_host: Collection[Obj]) -> str | None:
    """What the annotation says of the host's taints."""
    return ",".join(sorted(_name(taint) for taint in by_host)) or None


def annotated_taints(virtual: Obj) -> Any:
    """What the annotation of a virtual node says of the host's taints."""
    return _annotation(virtual, marks.HOST_TAINTS)


def by_tenant(virtual: Obj) -> bool:
    """Whether the tenant itself wants a virtual node cordoned."""
    return _unschedulable(virtual) and annotated_cordon(virtual) != BY_HOST


def annotated_cordon(virtual: Obj) -> Any:
    """What the annotation of a virtual node says of its cordon."""
    return _annotation(virtual, marks.CORDONED_BY)


def of_tenant(virtual: Obj) -> Marks:
    """What the tenant itself wrote on a virtual node."""
    labels = mapping(mapping(virtual.get("metadata")).get("labels"))
    own = {
        key: value for key, value in labels.items() if not is_shown(key) and key != marks.PLATFORM and isinstance(value, str)
    }
    return Marks(by_tenant(virtual), own, tuple(_own_taints(virtual, frozenset())))


def _own_taints(virtual: Obj, besides: Collection[str]) -> list[Obj]:
    annotated = annotated_taints(virtual)
    known = {*besides, *(annotated.split(",") if isinstance(annotated, str) else ())}
    # No API server gives any other.
    found = [
        taint
        for taint in mappings(mapping(virtual.get("spec")).get("taints"))
        if all(isinstance(part, str) for part in taint.values())
    ]
    return [dict(taint) for taint in found if _name(taint) not in known and not _name(taint).startswith(HIDDEN_TAINTS)]


def _name(taint: Mapping[str, Any]) -> str:
    """What distinguishes taints of one node."""
    return f"{taint.get('key') or ''}:{taint.get('effect') or ''}"


def _annotation(virtual: Obj, name: str) -> Any:
    return mapping(mapping(virtual.get("metadata")).get("annotations")).get(name)


def _unschedulable(node: Obj) -> bool:
    return mapping(node.get("spec")).get("unschedulable") is True
