"""Everything an embedded host can leave on a machine: finds it, removes it, and checks that it is gone.

`clear` needs neither the supervisor nor containerd, so it also cleans up after a host that died. `leftovers` is an independent
check afterwards: it lists what still exists, one line each.
"""

import contextlib
import ctypes
import json
import os
import re
import shutil
import time
from pathlib import Path

from workstation.hostcluster import cgroups, machine_settings
from workstation.hostcluster import mounts as mount_table
from workstation.hostcluster.component import BRIDGE, REAL_POD_RANGE, HostContext, Progress
from workstation.hostcluster.configuration import NETWORK

MARKER = ".bulkhead-host"
_MNT_DETACH = 2
_GATEWAY = REAL_POD_RANGE.split("/")[0].rsplit(".", 1)[0] + ".1"  # the address of every host end of a pod's device
_CABLE = re.compile(r"bulkhead-n\d+")
_CNI_CACHE = Path("/var/lib/cni")  # libcni's own cache, at a fixed place
_FIXED_FOLDERS = (
    _CNI_CACHE / "results",
    _CNI_CACHE,
    Path("/var/log/containers"),
    Path("/var/lib/kubelet"),
    Path("/run/containerd/s"),
)
_TABLE = re.compile(r"^table (\w+) (bulkhead\S*|kube-proxy)$", re.MULTILINE)
_KUBE_PROXY = "kube-proxy"
_CHAIN = re.compile(r"^-N (\S+)$", re.MULTILINE)
_JUMP = re.compile(r"^-A (\S+) (.*-j (\S+).*)$", re.MULTILINE)
_OUR_NETWORK = f'name: \\"{NETWORK}\\"'  # in the comment of a rule, as iptables prints it
# Also finds an embedded host that an older release started: its programs were in another package.
_PACKAGES = ("workstation.hostcluster.", "bulkhead.hostcluster.")


def mounts(ctx: HostContext) -> list[str]:
    """Mount points in the host's folders, deepest first, including those that hold namespaces of nodes."""
    return mount_table.below(mount_table.TABLE.read_text(), (ctx.run_dir, ctx.data_dir))


def _unmount(ctx: HostContext) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for _ in range(3):  # mounts on top of each other need another round
        found = mounts(ctx)
        if not found:
            return
        for where in found:
            libc.umount2(where.encode(), _MNT_DETACH)


def devices() -> list[str]:
    """Our bridge, the cables of nodes, and the host ends of pods' devices."""
    found = []
    for link in json.loads(machine_settings.run("ip", "-j", "addr") or "[]"):
        addresses = {item.get("local") for item in link.get("addr_info", [])}
        name = link["ifname"]
        if name == BRIDGE or _CABLE.fullmatch(name) or (name.startswith("veth") and _GATEWAY in addresses):
            found.append(name)
    return found


def tables() -> list[tuple[str, str]]:
    """The nftables tables of the host and of its kube-proxy."""
    if shutil.which("nft") is None:
        return []
    found: list[tuple[str, str]] = _TABLE.findall(machine_settings.run("nft", "list", "tables"))
    other = machine_settings.has_other_kubelet()
    return [(family, name) for family, name in found if name != _KUBE_PROXY or not other]


def _ours(rules: str) -> set[str]:
    """The chains of an iptables table that are the host's.

    Podman and containerd use the same CNI plugins, so a chain is the host's by the name of its network. The chains that the
    plugin for ports shares between networks go with the last network.
    """
    chains = _CHAIN.findall(rules)
    own = {chain for _, rule, chain in _JUMP.findall(rules) if _OUR_NETWORK in rule and chain.startswith("CNI-")}
    if not [chain for chain in chains if chain.startswith("CNI-DN-") and chain not in own]:
        own |= {chain for chain in chains if chain.startswith("CNI-HOSTPORT-")}
    if not machine_settings.has_other_kubelet():
        own |= {chain for chain in chains if chain.startswith("KUBE-")}
    return own


def chains() -> list[tuple[str, str, str]]:
    """Chains that the host's CNI plugins created through iptables, as (program, table, chain)."""
    found = []
    for program in ("iptables", "ip6tables"):
        if shutil.which(program) is None:
            continue
        for table in ("filter", "nat", "mangle"):
            try:
                rules = machine_settings.run(program, "-w", "5", "-t", table, "-S")
            except RuntimeError:
                continue  # this kernel does not have the table
            found += [(program, table, chain) for chain in sorted(_ours(rules))]
    return found


def _remove_chains() -> None:
    found = chains()
    for program, table in {(program, table) for program, table, _ in found}:
        for chain, rule, target in _JUMP.findall(machine_settings.run(program, "-w", "5", "-t", table, "-S")):
            if (program, table, target) in found:
                with contextlib.suppress(RuntimeError):
                    machine_settings.run("sh", "-c", f"{program} -w 5 -t {table} -D {chain} {rule}")
    for flag in ("-F", "-X"):
        for program, table, chain in found:
            with contextlib.suppress(RuntimeError):
                machine_settings.run(program, "-w", "5", "-t", table, flag, chain)


def processes(ctx: HostContext) -> dict[int, str]:
    """Processes of the host: in its cgroups, or running for its data wherever they are."""
    found: dict[int, str] = {}
    grouped = cgroups.processes()
    marks = (f"{ctx.data_dir}/", f"{ctx.run_dir}/")
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            program = str((entry / "exe").readlink())
        except OSError:
            continue  # it ended, or it is a kernel thread
        ours = program.startswith(str(ctx.cache_dir)) or any(package in command for package in _PACKAGES)
        if int(entry.name) in grouped or (ours and any(mark in command for mark in marks)):
            found[int(entry.name)] = command.strip()[:160]
    return found


def _stands(folder: Path) -> bool:
    if folder.is_mount():
        return any(folder.iterdir())
    return folder.exists() or folder.is_symlink()


def leftovers(ctx: HostContext, *, data_kept: bool) -> list[str]:
    """What is left of a host, one line each; empty if the machine is clean."""
    found = [f"process {pid}: {command}" for pid, command in processes(ctx).items()]
    found += [f"mount {where}" for where in mounts(ctx)]
    found += [f"network device {name}" for name in devices()]
    found += [f"nftables table {family} {name}" for family, name in tables()]
    found += [f"{program} chain {chain} in {table}" for program, table, chain in chains()]
    found += [f"cgroup {group}" for group in cgroups.groups()]
    linked = [] if machine_settings.has_other_kubelet() else [machine_settings.DEVICE_PLUGINS]
    folders = [ctx.run_dir, *linked, *([] if data_kept else [ctx.data_dir])]
    found += [f"folder {folder}" for folder in folders if _stands(folder)]
    return found


def _end_processes(ctx: HostContext, report: Progress) -> None:
    report.detail("ending the pods' processes")
    cgroups.thaw()  # a paused node must also end
    cgroups.end("kubepods", "nodes", grace=3)
    report.detail("ending the components' processes")
    cgroups.end(grace=2)
    for pid in processes(ctx):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)


def _remove_devices() -> None:
    # Devices of pods go away with their namespaces; the kernel does that later.
    until = time.monotonic() + 3
    while [name for name in devices() if name.startswith("veth")] and time.monotonic() < until:
        time.sleep(0.05)
    for name in devices():
        with contextlib.suppress(RuntimeError):
            machine_settings.run("ip", "link", "delete", name)


def clear(ctx: HostContext, report: Progress) -> None:
    """End and remove everything except the data folder."""
    _end_processes(ctx, report)
    report.detail("removing mounts and network devices")
    _unmount(ctx)
    _remove_devices()
    for family, name in tables():
        machine_settings.run("nft", "delete", "table", family, name)
    _remove_chains()
    cgroups.remove()
    if ctx.run_dir.exists() and not mounts(ctx):  # never delete through a mount that could not be removed
        shutil.rmtree(ctx.run_dir, ignore_errors=True)


def is_ours(data_dir: Path) -> bool:
    """Whether a host created this folder: no other folder is ever removed."""
    return (data_dir / MARKER).exists() or (data_dir / "pki" / "etcd-ca.crt").exists()


def remove_files(ctx: HostContext, *, data: bool) -> None:
    """Remove files that components put at fixed paths, and the data folder on request."""
    for entry in (_CNI_CACHE / "results").glob("*"):
        if f'"{ctx.run_dir}/' in entry.read_text(errors="replace"):  # it names a network namespace of this host
            entry.unlink(missing_ok=True)
    for entry in Path("/var/log/containers").glob("*.log"):
        if entry.is_symlink() and str(entry.readlink()).startswith(str(ctx.data_dir)):
            entry.unlink(missing_ok=True)
    for folder in _FIXED_FOLDERS:
        with contextlib.suppress(OSError):
            folder.rmdir()  # only if it is empty
    if data and is_ours(ctx.data_dir) and not mounts(ctx):
        _remove_tree(ctx.data_dir)


def _remove_tree(folder: Path) -> None:
    """Remove a folder; if it is a mount, remove only its content."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    if not folder.is_mount():
        folder.rmdir()
