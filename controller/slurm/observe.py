"""Reads a Slurm cluster: its pods and NodeSets in the plane, the nodes that it runs on, and Slurm's own view.

If the plane does not answer, nothing is returned. If only Slurm fails, the view is None and the reason is given, and everything
that depends on Slurm waits. Lists are read one after the other, so that only one of them is in memory at a time.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from bulkhead.api import labels
from bulkhead.api.conditions import condition_of
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import NotFound
from bulkhead.kube.objects import Resource
from controller.inside.calls import Plane
from controller.inside.counted import Page
from controller.slurm.answers import shapes
from controller.slurm.answers.view import SlurmView
from controller.slurm.client.rest import SlurmError, SlurmRest
from controller.slurm.config.topology import units_in
from controller.slurm.lease.fleet import Worker, worker_of
from controller.slurm.objects.parts import OURS
from controller.slurm.spec import CONFIG, NAMESPACE, NODE_SET_GROUP, NODE_SET_VERSION, SLURMDBD, SLURMRESTD

NODE_SETS = Resource(NODE_SET_GROUP, NODE_SET_VERSION, "nodesets", "NodeSet", True)
_VIEW_DEADLINE_SECONDS = 25.0
# A cluster has 1024 workers at most; those that end and those that begin come on top, and some daemons.
MOST_PODS: Final = 3000
MOST_NODES: Final = 6000
MOST_NODE_SETS: Final = 200
_PLATFORM: Final = f"{labels.PLATFORM}=true"


@dataclass(frozen=True, slots=True)
class Seen:
    """The cluster at one moment."""

    pods: tuple[Obj, ...] = ()
    node_sets: Mapping[str, Obj] = field(default_factory=dict)
    nodes: tuple[Obj, ...] = ()
    view: SlurmView | None = None
    trouble: str = ""
    # The workers' pods, read once: a tenant decides how many pods and NodeSets there are.
    workers: tuple[Worker, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found = (worker_of(pod) for pod in self.pods)
        workers = sorted((worker for worker in found if worker), key=lambda worker: (worker.node_set, worker.ordinal))
        object.__setattr__(self, "workers", tuple(workers))

    @property
    def targets(self) -> dict[str, int]:
        """What every NodeSet asks for; those that were never scaled are left out."""
        asked = {name: (obj.get("spec") or {}).get("replicas") for name, obj in self.node_sets.items()}
        return {name: int(count) for name, count in asked.items() if isinstance(count, int)}


async def observe(plane: Plane, rest: SlurmRest | None) -> Seen:
    """Read all that a turn needs. A cluster without a REST API is not asked about its jobs and nodes."""
    pods = await _list(plane, kinds.PODS, NAMESPACE, shape=shapes.PODS, labelled=OURS, most=MOST_PODS)
    sets = await node_sets(plane)
    nodes = await _list(plane, kinds.NODES, shape=shapes.NODES, labelled=_PLATFORM, most=MOST_NODES)
    view, trouble = await _view(rest) if rest is not None else (None, "")
    return Seen(pods, sets, nodes, view, trouble)


async def units(plane: Plane) -> frozenset[str]:
    """The units of the network that are written in the plane already."""
    try:
        found = await plane.get(kinds.CONFIG_MAPS, CONFIG, NAMESPACE, shape=shapes.CONFIG)
    except NotFound:
        return frozenset()
    return units_in(found.data.topology if found.data is not None else "")


async def keeps_accounts(plane: Plane) -> bool:
    """Whether the plane has slurmdbd, and slurmrestd in front of it."""
    try:
        await plane.get(kinds.STATEFUL_SETS, SLURMDBD, NAMESPACE, shape=shapes.ANYTHING)
        await plane.get(kinds.DEPLOYMENTS, SLURMRESTD, NAMESPACE, shape=shapes.ANYTHING)
    except NotFound:
        return False
    return True


def cordoned(nodes: Iterable[Obj]) -> dict[str, str]:
    """The nodes that take no new work, each with what is wrong with it."""
    found = {}
    for node in nodes:
        name = str(node["metadata"]["name"])
        if (node.get("spec") or {}).get("unschedulable") is True:
            found[name] = "is cordoned"
        elif condition_of(node, "Ready").get("status") in {"False", "Unknown"}:
            found[name] = "is not ready"
    return found


async def node_sets(plane: Plane) -> dict[str, Obj]:
    """The NodeSets, the tenant's own among them."""
    try:
        found = await _list(plane, NODE_SETS, NAMESPACE, shape=shapes.NODE_SETS, most=MOST_NODE_SETS)
    except NotFound:
        # Their definition is not there yet.
        return {}
    return {str(obj["metadata"]["name"]): obj for obj in found}


async def _list(
    plane: Plane,
    resource: Resource,
    namespace: str | None = None,
    *,
    shape: msgspec.json.Decoder[Page[Any]],
    labelled: str | None = None,
    most: int,
) -> tuple[Obj, ...]:
    """The objects. Pods and nodes are always served: if they are not found, that does not mean that there are none."""
    return await plane.list(resource, namespace, shape=shape, label_selector=labelled, most=most)


async def _view(rest: SlurmRest) -> tuple[SlurmView | None, str]:
    try:
        async with asyncio.timeout(_VIEW_DEADLINE_SECONDS):
            return await rest.view(), ""
    except SlurmError as error:
        return None, str(error)
    except TimeoutError:
        return None, f"slurmrestd: no whole answer within {_VIEW_DEADLINE_SECONDS:g} s"
