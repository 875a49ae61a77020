"""Breaks one real node of a running host and brings it back, as a fault in a machine room would; and lists the nodes' states.

    killed  every process of it is killed at once, and its network and mounts go, as in a power failure; its disk remains
    paused  every process of it is frozen, as if the machine hangs; its network still answers pings
    cut     its network cable is unplugged; its pods continue, and the cluster gets no news of them

The supervisor is told first, and leaves the node alone until it returns. The cluster is not told: it has to detect the fault.
The first node cannot be lost, because it is the machine with the control plane.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from workstation.hostcluster import cgroups, cluster, namespaces, state
from workstation.hostcluster.component import RUN_DIR, HostContext, Progress
from workstation.hostcluster.node import Node, nodes_of
from workstation.hostcluster.supervisor import load_context


def _kill(node: Node) -> None:
    left = cgroups.end(node.part, grace=0)
    if left:
        raise cluster.HostError(f"node {node.name}: processes {sorted(left)} do not end")
    cgroups.remove_part(node.part)
    namespaces.remove(node)


LOSE: Mapping[str, Callable[[Node], None]] = {
    "killed": _kill,
    "paused": lambda node: cgroups.freeze(node.part),
    "cut": lambda node: namespaces.plug(node, connected=False),
}
_RETURN: Mapping[str, Callable[[Node], None]] = {
    "killed": lambda _: None,  # it is started like a new node
    "paused": lambda node: cgroups.thaw(node.part),
    "cut": lambda node: namespaces.plug(node, connected=True),
}


@dataclass(frozen=True, slots=True)
class NodeState:
    """One line of `bulkhead host node list`."""

    name: str
    state: str  # "ready", "not ready", or how it was lost
    address: str
    pods: str
    detail: str  # which of its components are not ready


def overview(found: state.HostState) -> tuple[NodeState, ...]:
    """The state of the real nodes as the supervisor knows it, from each node's components."""
    ctx = cluster.bare_context(state.options_from_json(found.options))
    return tuple(_state_of(found, node) for node in nodes_of(ctx))


def _state_of(found: state.HostState, node: Node) -> NodeState:
    words = [(item, item.name.rpartition("/")[2]) for item in found.components if item.phase != "ready"]
    ill = ", ".join(f"{word} {item.phase}" for item, word in words if item.name == node.component(word))
    lost = found.lost.get(node.name)
    return NodeState(node.name, lost or ("not ready" if ill else "ready"), node.address, node.pod_range, "" if lost else ill)


def _running(run_dir: Path) -> tuple[HostContext, state.HostState]:
    living = cluster.alive(run_dir)
    if living is None or living.phase != "running":
        raise cluster.HostError("no host is up; start one with `bulkhead host up --nodes 3`")
    return load_context(run_dir)[0], living


def find(ctx: HostContext, name: str) -> Node:
    """The node with this name, if it can be lost."""
    nodes = {node.name: node for node in nodes_of(ctx)}
    machine, *further = nodes
    if name == machine:
        raise cluster.HostError(
            f"{name} has the host's control plane and cannot be lost by itself; `bulkhead host down` stops everything"
        )
    if name not in nodes:
        there = ", ".join(further) or "none; `bulkhead host up --nodes 3` adds some"
        raise cluster.HostError(f"{name!r} is not a node that can be lost; those are: {there}")
    return nodes[name]


def lose(name: str, how: str, report: Progress, *, run_dir: Path = RUN_DIR) -> None:
    """Break a node."""
    with cluster.exclusive(report):
        ctx, living = _running(run_dir)
        node = find(ctx, name)
        if name in ctx.lost:
            if ctx.lost[name] == how:
                return
            raise cluster.HostError(f"{name} is already {ctx.lost[name]}; run `bulkhead host node return {name}` first")
        report.step(f"Losing {name}: {how}")
        cluster.tell(replace(ctx, lost={**ctx.lost, name: how}), living, report)
        LOSE[how](node)


def bring_back(name: str, report: Progress, *, run_dir: Path = RUN_DIR) -> None:
    """Bring a lost node back, and wait until it is Ready in the cluster."""
    with cluster.exclusive(report):
        ctx, living = _running(run_dir)
        node = find(ctx, name)
        how = ctx.lost.get(name)
        if how is None:
            return
        report.step(f"Bringing back {name}, which was {how}")
        left = replace(ctx, lost={other: its for other, its in ctx.lost.items() if other != name})
        _RETURN[how](node)
        cluster.prepare_nodes(left)
        cluster.tell(left, living, report)
        report.step(f"Waiting for the node {name}")
        cluster.await_node(Node(left, node.index), report)
