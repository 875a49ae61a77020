"""Creates and removes the parts of a further real node on the machine: network and mount namespaces, a cable, routes.

    machine ── bulkhead0 (172.31.255.1) ──┬── bulkhead-n2 ═ eth0 (172.31.255.2) of node 2, pods 10.244.16.0/20
                                          └── bulkhead-n3 ═ eth0 (172.31.255.3) of node 3, pods 10.244.32.0/20

Packets between pods of two nodes are routed and keep their addresses. The machine masquerades packets that leave the cluster,
as for its own pods. Paths that are fixed in programs are the node's own folders in its mount namespace. Files in the run folder
hold the namespaces, so these outlive every process, and end when the files are unmounted.
"""

import contextlib
import os
import shlex
import shutil
from collections.abc import Iterable
from pathlib import Path

from workstation.hostcluster import cgroups, mounts
from workstation.hostcluster.component import BRIDGE, NODE_ADDRESS
from workstation.hostcluster.files import write_file
from workstation.hostcluster.machine_settings import run
from workstation.hostcluster.node import NODE_RANGE, Node, nodes_of


def own_folders(node: Node) -> dict[Path, str]:
    """The node's folders, and the fixed paths on which they are mounted."""
    return {
        node.kubelet_dir: "/var/lib/kubelet",  # device plugins
        node.run_dir / "libcni": "/var/lib/cni",  # libcni's record of attachments, which a restart of the node removes
        node.data_dir / "logs" / "containers": "/var/log/containers",
    }


def enter_script(node: Node, hierarchies: Iterable[Path], part: str = "system") -> str:
    """The script behind `Node.enter`: joins the node's cgroups and namespaces, then becomes the command."""
    groups = " ".join(shlex.quote(str(top / node.cgroup / part / "cgroup.procs")) for top in hierarchies)
    net, mnt = (shlex.quote(str(path)) for path in (node.network, node.mounts))
    within = "" if node.is_machine else f"nsenter --net={net} --mount={mnt} -- "
    return (
        f"# sh {node.run_dir}/SCRIPT COMMAND... runs a command on the node {node.name}, in the control group {part}.\n"
        f'for group in {groups}; do echo $$ > "$group" || exit 1; done\n'
        f'exec {within}"$@"\n'
    )


def _write_scripts(node: Node) -> None:
    tops = cgroups.hierarchies()
    write_file(node.run_dir / "enter-as-agent", enter_script(node, tops, "agents").encode())
    if not node.is_machine:
        write_file(node.run_dir / "enter", enter_script(node, tops).encode())


def network_commands(node: Node) -> list[list[str]]:
    """The commands to run in the node's network namespace once its cable is there."""
    commands = [
        ["link", "set", "lo", "up"],
        ["addr", "replace", f"{node.address}/{NODE_RANGE.partition('/')[2]}", "dev", "eth0"],
        ["link", "set", "eth0", "up"],
        ["route", "replace", "default", "via", NODE_ADDRESS],
        # Otherwise packets to an address that no pod has would go back and forth between node and machine.
        ["route", "replace", "unreachable", node.pod_range],
    ]
    others = [other for other in nodes_of(node.ctx) if not other.is_machine and other.index != node.index]
    commands += [["route", "replace", other.pod_range, "via", other.address] for other in others]
    return [["ip", *command] for command in commands]


def _exists(node: Node) -> bool:
    held = mounts.below(mounts.TABLE.read_text(), [node.network.parent])
    return str(node.network) in held and str(node.mounts) in held


def _folder_of_namespaces(folder: Path) -> None:
    """Prepare the folder that holds mount namespaces: its mounts must not propagate to others."""
    if str(folder) in mounts.below(mounts.TABLE.read_text(), [folder.parent]):
        return
    folder.mkdir(parents=True, exist_ok=True)
    run("mount", "--bind", str(folder), str(folder))
    run("mount", "--make-private", str(folder))


def _own_mounts(node: Node) -> None:
    """Unmount the mounts of others, which this node would otherwise hold as long as it lives, and mount its own folders."""
    within = ("nsenter", f"--mount={node.mounts}", "--")
    table = run(*within, "cat", str(mounts.TABLE))
    for where in mounts.below(table, [node.ctx.run_dir, node.ctx.data_dir]):
        run(*within, "umount", "--lazy", where)
    for folder, place in own_folders(node).items():
        folder.mkdir(parents=True, exist_ok=True)
        Path(place).mkdir(parents=True, exist_ok=True)
        run(*within, "mount", "--bind", str(folder), place)
    # A volume that a pod propagates must reach other pods of this node. Nothing reaches the machine.
    run(*within, "mount", "--make-rshared", "/")


def _let_go(node: Node) -> None:
    """Remove the files that hold the namespaces."""
    for path in (node.mounts, node.network):
        with contextlib.suppress(RuntimeError):  # not mounted
            run("umount", "--lazy", str(path))
        path.unlink(missing_ok=True)


def _unshare(node: Node) -> None:
    """Create both namespaces, held by files.

    The kernel lets only a file of an older mount namespace hold one. Linux 6.18 compares their age by numbers that each CPU
    hands out itself, so a container's namespace may seem to be younger than the new one; on the CPU that created it, it never
    does.
    """
    refused: RuntimeError | None = None
    for cpu in sorted(os.sched_getaffinity(0)):
        for path in (node.network, node.mounts):
            path.touch()
        held = (f"--net={node.network}", f"--mount={node.mounts}")
        try:
            run("taskset", "--cpu-list", str(cpu), "unshare", *held, "--propagation", "private", "true")
        except RuntimeError as error:
            refused = error
            _let_go(node)
        else:
            return
    raise refused or RuntimeError(f"{node.name}: its namespaces could not be created on any CPU")


def _create(node: Node) -> None:
    _folder_of_namespaces(node.network.parent)
    _unshare(node)
    _own_mounts(node)
    run("ip", "link", "add", node.link, "type", "veth", "peer", "name", "eth0", "netns", str(node.network))
    run("ip", "link", "set", node.link, "master", BRIDGE, "up")


def _route(node: Node) -> None:
    within = ("nsenter", f"--net={node.network}", "--")
    for command in network_commands(node):
        run(*within, *command)
    run(*within, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
    run("ip", "route", "replace", NODE_RANGE, "dev", BRIDGE, "src", NODE_ADDRESS)
    run("ip", "route", "replace", node.pod_range, "via", node.address, "dev", BRIDGE)


def ensure(nodes: Iterable[Node]) -> None:
    """Create what is missing for these nodes, and update the routes between them."""
    for node in nodes:
        if not node.is_machine:
            if not _exists(node):
                remove(node)
                _create(node)
            _route(node)
        _write_scripts(node)


def remove(node: Node) -> None:
    """Remove the namespaces and the cable, and what a power failure takes; the node's processes must have ended."""
    _let_go(node)
    if Path(f"/sys/class/net/{node.link}").exists():
        with contextlib.suppress(RuntimeError):  # it went away with its namespace
            run("ip", "link", "delete", node.link)
    shutil.rmtree(node.run_dir, ignore_errors=True)


def plug(node: Node, *, connected: bool) -> None:
    """Plug the node's network cable in, or pull it out."""
    run("ip", "link", "set", node.link, "up" if connected else "down")
