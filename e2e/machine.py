"""The embedded host as seen from its machine: whether it is up, its files, and the processes of a pod.

Processes are found through `/proc/*/cgroup`, because the path of a pod's control group contains the pod's UID. So neither
container runtime nor kubelet is asked, and an experiment can prove for itself that a process has died or is stopped.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from e2e.api import Api
from workstation.hostcluster import cgroups

DATA = Path(os.environ.get("BULKHEAD_DATA_DIR", "/var/lib/bulkhead"))
KUBECONFIG = DATA / "kubeconfig"
NODE = "bulkhead-host"
CONTROL_GROUP = "/bulkhead"
RESULTS = Path("build/results")
_PARTS = ("system", "agents", "kubepods", "nodes")


class HostDownError(RuntimeError):
    """The embedded host is not there; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a pod, on this machine."""

    pid: int
    program: str
    started: int  # clock ticks since boot: distinguishes a process from a later one with the same number

    @property
    def state(self) -> str:
        """R, S, D, T (stopped) or Z; empty if the process is gone or another one has its number."""
        fields = _stat(self.pid)
        return fields[0] if fields and int(fields[19]) == self.started else ""

    @property
    def ended(self) -> bool:
        """Gone, or a zombie that its parent has not noticed yet."""
        return self.state in {"", "Z"}

    def send(self, number: signal.Signals) -> bool:
        """Signal the process; False if it is already gone."""
        if not self.state:
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True


def host_api(*, timeout: float = 15.0) -> Api:
    """The host's API server with the admin's kubeconfig."""
    if not KUBECONFIG.exists():
        raise HostDownError(f"no embedded host: {KUBECONFIG} is missing; start one with `bulkhead host up`")
    return Api(KUBECONFIG, timeout=timeout)


def is_up() -> bool:
    return KUBECONFIG.exists() and host_api(timeout=3.0).ready()


def bring_up(report: Callable[[str], None], *flags: str) -> bool:
    """Start the embedded host, or make sure that it is up, with the images as they are now in the tree.

    `report` gets its progress line by line; `flags` are further flags of `host up`. True if the host was started.
    """
    was_up = is_up()
    command = [sys.executable, "-u", "-m", "workstation.cli.main", "host", "up", *flags]
    last: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout or ():
            report(line.rstrip())
            last = [*last[-20:], line.rstrip()]
        code = process.wait(timeout=30)
    if code != 0:
        raise HostDownError("`bulkhead host up` failed: " + " | ".join(last[-5:]))
    return not was_up


def processes_of_pod(pod_uid: str, program: str | None = None) -> list[Process]:
    """The running processes whose control group belongs to the pod; `program` filters by the name of the executable."""
    found = []
    for pid in _pids():
        with contextlib.suppress(OSError):
            groups = Path(f"/proc/{pid}/cgroup").read_text()
            if pod_uid not in groups and pod_uid.replace("-", "_") not in groups:
                continue
            process = process_at(pid)
            if process and process.state not in {"Z", ""} and (program is None or program in process.program.split(" ")[-1]):
                found.append(process)
    return found


def gone(processes: Iterable[Process], *, seconds: float = 5.0) -> bool:
    """Whether all these processes have ended within the time."""
    watched, deadline = list(processes), time.monotonic() + seconds
    while alive := sum(not process.ended for process in watched):
        if time.monotonic() >= deadline:
            return False
        time.sleep(min(0.01 * alive, 0.1))
    return True


def kill(processes: Sequence[Process], what: str) -> tuple[bool, str]:
    """SIGKILL. Returns whether exactly these processes are gone, as `/proc` says, and a sentence about it."""
    if not processes:
        return False, f"{what}: no process found to kill"
    for process in processes:
        process.send(signal.SIGKILL)
    if not gone(processes):
        return False, f"{what}: still running: {[process.pid for process in processes if not process.ended]}"
    return True, f"{what}: process {', '.join(str(process.pid) for process in processes)} killed and gone"


class Standing(Enum):
    """The CPU share of a process that represents another machine, next to the host's components and the group of all pods.

    Without it, a process with its session would weigh as much as the whole host, because the kernel groups processes by session
    and niceness counts only within one. The process would wait for seconds behind a busy pod, or make all pods wait.
    """

    PROBE = ("probes", 65536)  # measures: before the host's own components
    LOAD = ("load", 64)  # computes: far less than the pods together


def stand(standing: Standing) -> None:
    """Put this process and its later children into the control group of this CPU share, until the process ends.

    Call it only once the host is up: when the host starts, it ends all processes in its groups.
    """
    name, shares = standing.value
    for top in cgroups.hierarchies():
        group = top / CONTROL_GROUP.strip("/") / name
        for knob, weight in (("cpu.shares", shares), ("cpu.weight", max(1, shares // 10))):
            if (group.parent / knob).exists():
                group.mkdir(exist_ok=True)
                (group / knob).write_text(str(weight))
                (group / "cgroup.procs").write_text(str(os.getpid()))


def processes_of_host() -> list[Process]:
    """Every process of the embedded host: its components, and all containers on its nodes."""
    found = []
    for pid in _pids():
        with contextlib.suppress(OSError):
            groups = Path(f"/proc/{pid}/cgroup").read_text()
            process = process_at(pid) if any(f":{CONTROL_GROUP}/{part}" in groups for part in _PARTS) else None
            if process and process.state not in {"Z", ""}:
                found.append(process)
    return found


def process_at(pid: int) -> Process | None:
    """The process with this number, if there is one."""
    fields = _stat(pid)
    if not fields:
        return None
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    # A Python program is named by what it runs: `python3.11 -m syncer` and `python3.11 /usr/local/bin/bulkhead-syncer`.
    words = [word.decode("utf-8", "replace").rsplit("/", 1)[-1] for word in command[:4] if word and not word.startswith(b"-")]
    program = " ".join(words if words and words[0].startswith("python") else words[:1])
    return Process(pid, program, int(fields[19]))


def pss_kib(pid: int) -> int:
    """The proportional set size of a process in KiB. A process that is gone is an error, and not a small figure."""
    return _rollup(pid, "Pss:")


def rss_kib(pid: int) -> int:
    """The resident set size of a process in KiB, with the same errors as `pss_kib`."""
    return _rollup(pid, "Rss:")


def cpu_ticks(pid: int) -> int:
    """User and system time of a process so far, in clock ticks; an error if the process is gone."""
    fields = _stat(pid)
    if not fields:
        raise ProcessLookupError(f"process {pid} is gone")
    return int(fields[11]) + int(fields[12])


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the threads of a process have had of the cores so far, and for how long they waited for one, in seconds."""

    ran: float
    waited: float

    def since(self, before: "Wanted") -> "Wanted":
        """What came since an earlier look; a thread that has ended meanwhile took its times along."""
        return Wanted(max(0.0, self.ran - before.ran), max(0.0, self.waited - before.waited))


def wanted(pid: int) -> Wanted:
    """The times of all threads of a process, as the kernel's scheduler counts them; an error if the process is gone."""
    found = [_schedstat(path) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    if not found:
        raise ProcessLookupError(f"process {pid} is gone")
    return Wanted(sum(ran for ran, _ in found) / 1e9, sum(waited for _, waited in found) / 1e9)


def _schedstat(path: Path) -> tuple[int, int]:
    try:
        ran, waited, _ = path.read_text().split()
    except (OSError, ValueError):  # the thread ends just now
        return 0, 0
    return int(ran), int(waited)


@dataclass(frozen=True, slots=True)
class CoreSeconds:
    """The time of all cores of this machine together since it started, in seconds."""

    total: float
    idle: float  # also the time in which they waited for a disk
    niced: float  # what niced processes computed: they give way to all others

    @classmethod
    def now(cls) -> "CoreSeconds":
        """As /proc/stat has it now."""
        words = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
        user, nice, system, idle, waiting, *rest = (int(word) / os.sysconf("SC_CLK_TCK") for word in words)
        return cls(user + nice + system + idle + waiting + sum(rest), idle + waiting, nice)

    def busy_since(self, before: "CoreSeconds") -> float:
        """The share of the machine's CPU that was busy since then, without niced processes."""
        spare = self.idle + self.niced - before.idle - before.niced
        return 1 - spare / max(1 / os.sysconf("SC_CLK_TCK"), self.total - before.total)


def _rollup(pid: int, key: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError as error:
        raise ProcessLookupError(f"process {pid} is gone") from error
    return sum(int(line.split()[1]) for line in lines if line.startswith(key))


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may contain spaces; the first field is the state."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return []


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
