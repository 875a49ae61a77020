"""The pages of real kubelets, by container runtime: what each writes about one pod, and what a tenant gets of it.

The shapes are those of pages that people have published in issues of Kubernetes, cAdvisor, RKE2 and CRI-O; names and values are
made up. `page` below writes one, with all lines that such a page has of a pod: its sandbox, its container, its sum.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest

from bulkhead.gpus.attribution import Name
from bulkhead.podfigures import Figures, figures
from tests.nodefigures.pages import BLUE, RED
from tests.nodefigures.pages import page as among_others

WORK: Final = "bh-red-work"
POD: Final = Name(WORK, "web-x")
SANDBOX, MAIN = "5a" * 32, "c0" * 32
AT: Final = 1734380410856


@dataclass(frozen=True)
class Runtime:
    """How a kubelet names what a runtime started."""

    pod: Callable[[str], str]  # the pod's control group, by UID
    scope: Callable[[str], str]  # a container's within it, by ID
    name: Callable[[str, str, str], str]  # label `name`, by container, UID and ID
    sandbox: str = ""  # label `container` of the sandbox
    pause: str = "registry.k8s.io/pause:3.10"
    image: str = "docker.io/library/busybox:1.36"


def systemd(uid: str, above: str = "", quality: str = "-burstable") -> str:
    prefix = "kubelet-kubepods" if above else "kubepods"
    outer = f"{above}/{prefix}.slice" + (f"/{prefix}{quality}.slice" if quality else "")
    return f"{outer}/{prefix}{quality}-pod{uid.replace('-', '_')}.slice"


def by_id(_container: str, _uid: str, ident: str) -> str:
    return ident


def k8s(container: str, uid: str, _ident: str) -> str:
    return f"k8s_{container}_{POD.name}_{POD.namespace}_{uid}_0"


RUNTIMES: Final = {
    "containerd, systemd": Runtime(systemd, lambda ident: f"cri-containerd-{ident}.scope", by_id),
    "containerd, cgroupfs": Runtime(lambda uid: f"/kubepods/besteffort/pod{uid}", lambda ident: ident, by_id),
    "containerd, cgroupfs below another group": Runtime(
        lambda uid: f"/bulkhead/kubepods/pod{uid}", lambda ident: ident, by_id, image="sha256:" + "1d" * 32
    ),
    "containerd, kind": Runtime(
        lambda uid: systemd(uid, "/kubelet.slice", "-besteffort"), lambda ident: f"cri-containerd-{ident}.scope", by_id
    ),
    "CRI-O": Runtime(systemd, lambda ident: f"crio-{ident}.scope", k8s, sandbox="POD", pause=""),
    "Docker, guaranteed": Runtime(
        lambda uid: systemd(uid, quality=""),
        lambda ident: f"docker-{ident}.scope",
        k8s,
        sandbox="POD",
        image="sha256:" + "c1" * 32,
    ),
}


def lines(runtime: Runtime, uid: str, devices: dict[str, float], *, pod: Name = POD) -> list[str]:
    """What the page has of one pod: 1,000 bytes received, and writes by device."""
    group, where = runtime.pod(uid), f'namespace="{pod.namespace}",pod="{pod.name}"'
    sandbox = (
        f'container="{runtime.sandbox}",id="{group}/{runtime.scope(SANDBOX)}",image="{runtime.pause}"',
        f'name="{runtime.name("POD", uid, SANDBOX)}",{where}',
    )
    main = f'id="{group}/{runtime.scope(MAIN)}",image="{runtime.image}",name="{runtime.name("main", uid, MAIN)}",{where}'
    found = [f'container_network_receive_bytes_total{{{sandbox[0]},interface="eth0",{sandbox[1]}}} 1000 {AT}']
    for device, value in devices.items():
        whole = f'container="",device="{device}",id="{group}",image="",name="",{where}'
        found += [
            f"container_fs_writes_bytes_total{{{whole}}} {value!r} {AT}",
            f'container_fs_writes_bytes_total{{container="main",device="{device}",{main}}} {value!r} {AT}',
        ]
    return found


def values(found: Figures) -> dict[str, float]:
    return {sample.name: sample.value for sample in found.by_pod.get(POD, ())}


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_page_of_each_runtime_is_understood_whole(runtime: str) -> None:
    of = RUNTIMES[runtime]
    # Another tenant's pod, and a static pod, whose UID is a digest without dashes.
    others = lines(of, BLUE, {"/dev/sda": 666}, pod=Name("bh-blue-work", "web-x"))
    static = [line.replace(BLUE.replace("-", "_"), "ab" * 16).replace(BLUE, "ab" * 16) for line in others]
    found = figures(among_others([*lines(of, RED, {"/dev/sda": 36_864}), *others, *static]), "n1", {POD: RED})
    assert values(found) == {"container_network_receive_bytes_total": 1000, "container_fs_writes_bytes_total": 36_864}
    received, written = found.by_pod[POD]
    assert received.labels == {"namespace": WORK, "pod": "web-x", "interface": "eth0", "uid": RED, "node": "n1"}
    assert written.labels == {"namespace": WORK, "pod": "web-x", "container": "main", "uid": RED, "node": "n1"}


def test_what_a_page_adds_up_is_no_line_that_was_left_out() -> None:
    """It would be counted as trouble at each scrape of each node."""
    mine = lines(RUNTIMES["containerd, systemd"], RED, {"/dev/sda": 7})
    assert figures(among_others(mine), "n1", {POD: RED}).left_out == 0


DISKS: Final = {
    "one": ({"/dev/vda": 5.0}, 5.0),
    "two": ({"/dev/nvme0n1": 5.0, "/dev/nvme1n1": 6.0}, 11.0),
    # Both layers have the same bytes, and one a little more.
    "LVM": ({"/dev/dm-0": 2_004_000.0, "/dev/sda": 2_000_000.0}, 2_004_000.0),
    "LVM within LUKS": ({"/dev/dm-0": 100.0, "/dev/dm-1": 100.0, "/dev/nvme0n1": 100.0}, 100.0),
    "a mapped name": ({"/dev/mapper/root": 100.0, "/dev/dm-0": 100.0, "/dev/sda": 100.0}, 100.0),
    "RAID of two": ({"/dev/md0": 100.0, "/dev/sda": 50.0, "/dev/sdb": 50.0}, 100.0),
    "a layer whose disks are not charged": ({"/dev/md127": 100.0, "/dev/sda": 1.0}, 100.0),
    "a layer alone": ({"/dev/dm-3": 9.0}, 9.0),
    "a disk without a name": ({"": 4.0}, 4.0),
}


@pytest.mark.parametrize("disks", DISKS)
def test_bytes_count_once_however_many_layers_measure_them(disks: str) -> None:
    devices, expected = DISKS[disks]
    found = figures(among_others(lines(RUNTIMES["CRI-O"], RED, devices)), "n1", {POD: RED})
    assert values(found)["container_fs_writes_bytes_total"] == expected


def test_the_longest_names_that_a_pod_can_have_are_read() -> None:
    """CRI-O joins container, pod, namespace and UID in one label."""
    pod = Name("bh-" + "t" * 55 + "-work", "p" * 63)
    found = figures(among_others(lines(RUNTIMES["CRI-O"], RED, {"/dev/sda": 1}, pod=pod)), "n1", {pod: RED})
    assert len(found.by_pod[pod]) == 2
