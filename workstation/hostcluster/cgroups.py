"""The host's own subtree in every cgroup hierarchy of the machine: v1, v2, or both.

Every process of the host runs in `/bulkhead`: components in `/bulkhead/system`, containerd, its shims and the kubelet in
`/bulkhead/agents`, pods in `/bulkhead/kubepods`. Further real nodes have the same three below `/bulkhead/nodes/<name>`. So
every process of the host can be found and ended, even without the supervisor, and a whole node can be frozen.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from workstation.hostcluster.component import CGROUP

_MOUNTS = Path("/proc/self/mounts")
# The host's components share the CPUs with every tenant's pods, and get eight times the weight that the kubelet gives to all
# pods on two cores (v1, v2). Twice is not enough where the kernel gives a group that runs more than its weight, as those from
# 6.12 to 6.19 do (docs/decisions/0004): with pods that compute on both cores, the API server got a tenth of them, and planes
# waited for it too. The subtree itself keeps the default weight: with twenty times that, one busy pod made its user's kubectl
# wait for seconds. What starts containers computes for long and in bursts, so it gets twice the weight of the pods alone: with
# that of the API server, each start made all planes wait.
_WEIGHTS = {
    "system": {"cpu.shares": "16384", "cpu.weight": "632"},
    "agents": {"cpu.shares": "4096", "cpu.weight": "157"},
}


def hierarchies() -> list[Path]:
    """Mount points of all cgroup hierarchies."""
    found = []
    for line in _MOUNTS.read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2") and Path(where) not in found:
            found.append(Path(where))
    return found


def _quiet_write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError:
        return  # a controller that this hierarchy does not have


def _inherit_cpuset(folder: Path) -> None:
    """Fill a new v1 cpuset group: it is empty, and no process may enter an empty one."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        own, parent = folder / name, folder.parent / name
        if own.exists() and not own.read_text().strip():
            own.write_text(parent.read_text())


def _hand_down(folder: Path) -> None:
    """Enable controllers for the groups below this one (v2)."""
    if (folder / "cgroup.subtree_control").exists():
        for controller in ("cpu", "memory", "pids", "cpuset", "io"):
            _quiet_write(folder / "cgroup.subtree_control", f"+{controller}")


def _create_part(folder: Path, weights: Mapping[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    _inherit_cpuset(folder)
    for name, weight in weights.items():
        if (folder / name).exists():
            _quiet_write(folder / name, weight)


def create(group: str = CGROUP) -> None:
    """Create the host's or a node's group in every hierarchy, with its `system` and `agents`."""
    for top in hierarchies():
        _hand_down(top)
        folder = top
        for name in group.split("/"):
            folder /= name
            folder.mkdir(exist_ok=True)
            _inherit_cpuset(folder)
            _hand_down(folder)
        for part, weights in _WEIGHTS.items():
            _create_part(folder / part, weights)


def join() -> None:
    """Move this process into `/bulkhead/system`; its children start there."""
    for top in hierarchies():
        (top / CGROUP / "system" / "cgroup.procs").write_text(str(os.getpid()))


def groups(part: str = "") -> Iterator[Path]:
    """Every group of the subtree, deepest first."""
    for top in hierarchies():
        own = top / CGROUP / part
        if own.is_dir():
            for folder, _, _ in os.walk(own, topdown=False):
                yield Path(folder)


def processes(*parts: str) -> set[int]:
    """The processes in the subtree, or in some parts of it, except this one."""
    found: set[int] = set()
    for group in (group for part in parts or ("",) for group in groups(part)):
        try:
            found.update(int(line) for line in (group / "cgroup.procs").read_text().split())
        except (FileNotFoundError, OSError):
            continue  # the group is gone by now
    return found - {os.getpid(), 0}


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def freeze(part: str) -> None:
    """Freeze every process of a part: by the v1 freezer hierarchy if there is one, else by v2."""
    tops = [top / CGROUP / part for top in hierarchies()]
    for name, frozen in (("freezer.state", "FROZEN"), ("cgroup.freeze", "1")):
        files = [top / name for top in tops if (top / name).exists()]
        for file in files:
            file.write_text(frozen)
        if files:
            return


def thaw(*parts: str) -> None:
    """Thaw the processes."""
    for group in (group for part in parts or ("",) for group in groups(part)):
        if (group / "freezer.state").exists():
            _quiet_write(group / "freezer.state", "THAWED")
        elif (group / "cgroup.freeze").exists():
            _quiet_write(group / "cgroup.freeze", "0")


def end(*parts: str, grace: float, deadline: float = 20.0) -> set[int]:
    """Terminate the processes of these parts (or all), then kill them. Returns those that survived."""
    if grace > 0:
        _signal(processes(*parts), signal.SIGTERM)
        until = time.monotonic() + grace
        while processes(*parts) and time.monotonic() < until:
            time.sleep(0.05)
    until = time.monotonic() + deadline
    while (left := processes(*parts)) and time.monotonic() < until:
        thaw(*parts)  # a frozen process does not end before it is thawed
        _signal(left, signal.SIGKILL)
        time.sleep(0.05)
    return processes(*parts)


def remove_part(part: str) -> None:
    """Remove the groups of a part whose processes have ended."""
    for group in groups(part):
        with contextlib.suppress(OSError):
            group.rmdir()


def remove(deadline: float = 10.0) -> list[Path]:
    """Remove the subtree everywhere. Returns the groups that remain."""
    until = time.monotonic() + deadline
    while True:
        left = []
        for group in groups():
            try:
                group.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                left.append(group)
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.1)
