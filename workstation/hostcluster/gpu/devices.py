"""The fake GPUs themselves: character device nodes, their health, and what a container gets. No gRPC, no kubelet.

A device is healthy while its node exists and is the right character device. Removing the node makes that GPU fail; experiments
break a GPU this way.
"""

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MAJOR = 195  # NVIDIA's character device number; no driver answers it here
RESOURCE = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One fake GPU."""

    index: int  # on its node
    node: Path
    first_minor: int = 0  # of the GPUs of its node, so that two nodes have different devices

    @property
    def minor(self) -> int:
        """Its device number."""
        return self.first_minor + self.index

    @property
    def identity(self) -> str:
        """Its ID for the kubelet, unique among all nodes."""
        return f"bulkhead-gpu-{self.minor}"

    @property
    def container_path(self) -> str:
        """Its path in a container."""
        return f"/dev/nvidia{self.index}"

    def healthy(self) -> bool:
        """Whether its device node is intact."""
        try:
            facts = self.node.lstat()
        except OSError:
            return False
        return stat.S_ISCHR(facts.st_mode) and facts.st_rdev == os.makedev(MAJOR, self.minor)


@dataclass(frozen=True, slots=True)
class Grant:
    """What a container with GPUs gets."""

    environment: dict[str, str]
    gpus: tuple[Gpu, ...]


def make_nodes(folder: Path, count: int, first_minor: int = 0) -> tuple[Gpu, ...]:
    """Create the device nodes; nodes that a crash left are reused."""
    folder.mkdir(parents=True, exist_ok=True)
    gpus = tuple(Gpu(index, folder / f"nvidia{index}", first_minor) for index in range(count))
    for gpu in gpus:
        if not gpu.healthy():
            gpu.node.unlink(missing_ok=True)
            os.mknod(gpu.node, stat.S_IFCHR | 0o666, os.makedev(MAJOR, gpu.minor))
            gpu.node.chmod(0o666)  # mknod is subject to the umask
    return gpus


def remove_nodes(gpus: Iterable[Gpu]) -> None:
    """Remove the nodes."""
    for gpu in gpus:
        gpu.node.unlink(missing_ok=True)


def grant(gpus: Iterable[Gpu], identities: Iterable[str]) -> Grant:
    """The environment and devices for these IDs. Raises KeyError for an unknown one."""
    known = {gpu.identity: gpu for gpu in gpus}
    chosen = tuple(sorted((known[identity] for identity in identities), key=lambda gpu: gpu.index))
    return Grant({"NVIDIA_VISIBLE_DEVICES": ",".join(str(gpu.index) for gpu in chosen)}, chosen)


def prefer(gpus: Iterable[Gpu], available: Iterable[str], required: Iterable[str], size: int) -> list[str]:
    """The devices to allocate: the required ones, then the lowest numbers, so that neighbours stay together."""
    order = {gpu.identity: gpu.index for gpu in gpus}
    chosen = list(required)
    rest = sorted(
        (identity for identity in available if identity not in chosen), key=lambda identity: order.get(identity, size)
    )
    return (chosen + rest)[:size]
