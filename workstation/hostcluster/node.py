"""Names, addresses and folders of one real node, and how a process starts on it.

Data only. The first node is the machine itself, with the control plane. Each further node is a cgroup, a network namespace and
a mount namespace of the machine; `namespaces` creates these, and a command after `Node.enter` runs in all three. What starts
containers begins with `Node.enter_as_agent` instead, on every node: the same, in a control group of its own.
"""

from dataclasses import dataclass
from pathlib import Path

from workstation.hostcluster.component import CGROUP, NODE_NAME, HostContext

MOST_NODES = 8
NODE_RANGE = "172.31.255.0/28"
_PODS_EACH = 16  # /20: so eight nodes share the range of real pods


def name_of(index: int) -> str:
    """The name of the node with this number; numbers start at 1."""
    return NODE_NAME if index == 1 else f"{NODE_NAME}-{index}"


@dataclass(frozen=True, slots=True)
class Node:
    """One real node of a host."""

    ctx: HostContext
    index: int = 1

    @property
    def is_machine(self) -> bool:
        """Whether it is the machine itself, which needs no namespaces of its own."""
        return self.index == 1

    @property
    def name(self) -> str:
        """Its name in the cluster."""
        return name_of(self.index)

    @property
    def address(self) -> str:
        """Its address on the bridge."""
        return f"172.31.255.{self.index}"

    @property
    def pod_range(self) -> str:
        """The addresses of its pods."""
        return f"10.244.{_PODS_EACH * (self.index - 1)}.0/20"

    @property
    def link(self) -> str:
        """The machine's end of its network cable."""
        return f"bulkhead-n{self.index}"

    @property
    def cgroup(self) -> str:
        """Its group in every hierarchy, below the host's own: `system`, `agents` and `kubepods`."""
        return CGROUP if self.is_machine else f"{CGROUP}/{self.part}"

    @property
    def part(self) -> str:
        """The group below the host's own."""
        return "" if self.is_machine else f"nodes/{self.name}"

    @property
    def data_dir(self) -> Path:
        """The folder that survives a power failure: images, containers, volumes, logs."""
        return self.ctx.data_dir if self.is_machine else self.ctx.data_dir / "nodes" / self.name

    @property
    def run_dir(self) -> Path:
        """The folder that a power failure removes: sockets, and the addresses of pods. Short, as names of sockets must be."""
        return self.ctx.run_dir if self.is_machine else self.ctx.run_dir / "nodes" / str(self.index)

    @property
    def config_dir(self) -> Path:
        """Configuration files of its components."""
        return self.data_dir / "config"

    @property
    def kubelet_dir(self) -> Path:
        """The kubelet's root directory."""
        return self.data_dir / "kubelet"

    @property
    def volume_dir(self) -> Path:
        """The folders of its local volumes."""
        return self.data_dir / "volumes"

    @property
    def containerd_socket(self) -> Path:
        """For `ctr -a` and the kubelet."""
        return self.run_dir / "containerd" / "containerd.sock"

    @property
    def probe_address(self) -> str:
        """Where its components answer probes: the loopback of another namespace cannot be reached."""
        return "127.0.0.1" if self.is_machine else self.address

    @property
    def network(self) -> Path:
        """The file that its network namespace is mounted on."""
        return self.ctx.run_dir / "ns" / f"{self.name}.net"

    @property
    def mounts(self) -> Path:
        """The file that its mount namespace is mounted on."""
        return self.ctx.run_dir / "ns" / f"{self.name}.mnt"

    @property
    def enter(self) -> tuple[str, ...]:
        """The words to put before a command to run it on this node."""
        return () if self.is_machine else ("/bin/sh", str(self.run_dir / "enter"))

    @property
    def enter_as_agent(self) -> tuple[str, ...]:
        """The words to put before a command that starts containers, on this node or the machine."""
        return ("/bin/sh", str(self.run_dir / "enter-as-agent"))

    def component(self, name: str) -> str:
        """The name of one of its components among those of all nodes."""
        return name if self.is_machine else f"{self.name}/{name}"

    def identity(self, name: str) -> str:
        """The name of one of its own certificates."""
        return name if self.is_machine else f"{name}-{self.index}"


def nodes_of(ctx: HostContext) -> tuple[Node, ...]:
    """Every real node of a host, the machine first."""
    return tuple(Node(ctx, index) for index in range(1, ctx.options.nodes + 1))


def present(ctx: HostContext) -> tuple[Node, ...]:
    """The real nodes that are not lost."""
    return tuple(node for node in nodes_of(ctx) if node.name not in ctx.lost)
