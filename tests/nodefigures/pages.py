"""Pages as a kubelet's cAdvisor writes them."""

from collections.abc import Iterable
from typing import Final

RECEIVED: Final = "container_network_receive_bytes_total"
WRITTEN: Final = "container_fs_writes_bytes_total"
RED = "3f1d2c7e-0000-4000-8000-00000000000a"
BLUE = "3f1d2c7e-0000-4000-8000-00000000000b"


def slice_of(uid: str, container: str = "") -> str:
    """The control group of a pod, or of a container, by systemd's names."""
    pod = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid.replace('-', '_')}.slice"
    return f"{pod}/cri-containerd-{container}.scope" if container else pod


def plain(uid: str, container: str = "") -> str:
    """The same by the kubelet's own names."""
    return f"/kubepods/besteffort/pod{uid}/{container or 'sandbox'}"


def network(
    namespace: str,
    pod: str,
    group: str,
    value: float,
    *,
    name: str = RECEIVED,
    interface: str = "eth0",
) -> str:
    labels = f'container="",id="{group}",image="registry.k8s.io/pause:3.10",interface="{interface}",name="0a1b"'
    return f'{name}{{{labels},namespace="{namespace}",pod="{pod}"}} {value} 1395066363000'


def disk(
    namespace: str,
    pod: str,
    group: str,
    value: float,
    *,
    name: str = WRITTEN,
    container: str = "main",
    device: str = "/dev/nvme0n1",
    image: str = "docker.io/library/busybox:1.36",
) -> str:
    labels = f'container="{container}",device="{device}",id="{group}",image="{image}",name="0a1b"'
    return f'{name}{{{labels},namespace="{namespace}",pod="{pod}"}} {value:g} 1395066363000'


def page(lines: Iterable[str]) -> bytes:
    """With what else is on such a page."""
    others = (
        "# HELP container_fs_limit_bytes Number of bytes that can be consumed by the container on this filesystem.",
        "# TYPE container_fs_limit_bytes gauge",
        'container_fs_limit_bytes{container="",device="/dev/nvme0n1",id="/",image="",name="",namespace="",pod=""} 5.2e+11 1',
        'container_network_receive_bytes_total{container="",id="/",image="",interface="eno1",name="",namespace="",pod=""} 9 1',
        'machine_memory_bytes{boot_id="x",machine_id="y",system_uuid="z"} 6.7e+10',
    )
    return "\n".join((*others, *lines, "")).encode()
