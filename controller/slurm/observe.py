"""One look at a Slurm cluster: its pods and NodeSets in the plane, the nodes below them, and Slurm's own view of it all.

The plane's part has to succeed, or there is no look. Slurm's part may fail by itself: then the view is None with the reason
beside it, and everything that needs Slurm's word waits.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.kube.objects import Obj, Resource
from controller.slurm.fleet import Worker, worker_of
from controller.slurm.model import SlurmView
from controller.slurm.rest import SlurmError, SlurmRest
from controller.slurm.spec import NAMESPACE, NODE_SET_GROUP, NODE_SET_VERSION

NODE_SETS = Resource(NODE_SET_GROUP, NODE_SET_VERSION, "nodesets", "NodeSet", True)
_VIEW_SECONDS = 25.0


@dataclass(frozen=True, slots=True)
class Seen:
    """The cluster at one moment."""

    pods: tuple[Obj, ...] = ()
    node_sets: Mapping[str, Obj] = field(default_factory=dict)
    nodes: tuple[Obj, ...] = ()
    view: SlurmView | None = None
    trouble: str = ""

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The workers' pods."""
        found = (worker_of(pod) for pod in self.pods)
        return tuple(sorted((each for each in found if each is not None), key=lambda each: (each.node_set, each.ordinal)))

    @property
    def targets(self) -> dict[str, int]:
        """What every NodeSet asks for; those that were never scaled are left out."""
        asked = {name: (obj.get("spec") or {}).get("replicas") for name, obj in self.node_sets.items()}
        return {name: int(count) for name, count in asked.items() if isinstance(count, int)}


async def observe(client: Client, rest: SlurmRest) -> Seen:
    """Look at everything at once."""
    pods, node_sets, nodes, (view, trouble) = await asyncio.gather(
        _list(client, kinds.PODS, NAMESPACE), _list(client, NODE_SETS, NAMESPACE), _list(client, kinds.NODES), _view(rest)
    )
    return Seen(
        pods=pods,
        node_sets={str(obj["metadata"]["name"]): obj for obj in node_sets},
        nodes=nodes,
        view=view,
        trouble=trouble,
    )


def cordoned(nodes: Iterable[Obj]) -> dict[str, str]:
    """The nodes that take no new work, each with what is wrong with it."""
    found = {}
    for node in nodes:
        name = str(node["metadata"]["name"])
        conditions: list[Obj] = (node.get("status") or {}).get("conditions") or []
        ready = next((each for each in conditions if each.get("type") == "Ready"), {})
        if (node.get("spec") or {}).get("unschedulable") is True:
            found[name] = "is cordoned"
        elif ready.get("status") in {"False", "Unknown"}:
            found[name] = "is not ready"
    return found


async def _list(client: Client, resource: Resource, namespace: str | None = None) -> tuple[Obj, ...]:
    try:
        listed = await client.list(resource, namespace)
    except NotFound:
        # The CRD, or the namespace, is not there yet.
        return ()
    return tuple(listed.items)


async def _view(rest: SlurmRest) -> tuple[SlurmView | None, str]:
    try:
        async with asyncio.timeout(_VIEW_SECONDS):
            return await rest.view(), ""
    except SlurmError as error:
        return None, str(error)
    except TimeoutError:
        return None, f"slurmrestd: no whole answer within {_VIEW_SECONDS:g} s"
