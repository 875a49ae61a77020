"""The parts that faults hit: the pods of a plane and of the platform, and their processes as `/proc` and cgroups show them.

A process is found through its control group, so neither kubelet nor container runtime is asked. What a part does after a fault
is read from the host's API.
"""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from e2e import machine, names, workloads
from e2e.api import Api, ApiError, Obj, UnreachableError
from e2e.chaos.faults.fault import Proof, Scene, of_pod
from e2e.machine import Process
from e2e.poll import NotYetError, until
from e2e.workloads import is_ready


def plane_pod(scene: Scene, member: int = 0) -> Obj:
    return scene.host.get("Pod", f"plane-{member}", scene.target.plane)


def plane_processes(scene: Scene, program: str, member: int = 0) -> list[Process]:
    return machine.processes_of_pod(of_pod(plane_pod(scene, member)), program)


def pods_named(host: Api, namespace: str, prefix: str) -> list[Obj]:
    return [item for item in host.list("Pod", namespace) if item["metadata"]["name"].startswith(prefix)]


def component_processes(host: Api, namespace: str, prefix: str, program: str) -> list[Process]:
    """The processes of a program in the pods of one namespace whose names begin with `prefix`."""
    pods = pods_named(host, namespace, prefix)
    return [process for pod in pods for process in machine.processes_of_pod(of_pod(pod), program)]


def syncers(scene: Scene) -> list[Process]:
    return component_processes(scene.host, scene.target.plane, "syncer", "syncer")


def controllers(host: Api) -> list[Process]:
    return component_processes(host, names.SYSTEM_NAMESPACE, "bulkhead-controller", "controller")


def host_processes(program: str) -> list[Process]:
    """The processes of one of the host's own components."""
    found = []
    for process in machine.processes_of_host():
        groups = _read(Path(f"/proc/{process.pid}/cgroup"))
        if process.program == program and f":{machine.CONTROL_GROUP}/system" in groups:
            found.append(process)
    return found


@dataclass(slots=True)
class Frozen:
    """Samples of processes that should stand still."""

    what: str
    samples: int = 0
    still: int = 0
    pids: set[int] = field(default_factory=set)

    def proof(self, share: float = 0.9) -> Proof:
        seen = self.still / max(1, self.samples)
        numbers = sorted(self.pids)
        return seen > share, f"{self.what} (process {numbers}) stood still in {seen:.0%} of {self.samples} samples"


@contextmanager
def frozen(find: Callable[[], list[Process]], what: str, *, interval: float = 0.4) -> Iterator[Frozen]:
    """Until the block ends, these processes are stopped, and those that replace them; the end lets all of them run."""
    seen, over = Frozen(what), threading.Event()

    def keep() -> None:
        while not over.is_set():
            try:
                found = find()
            except (ApiError, UnreachableError):
                found = []
            for process in found:
                process.send(signal.SIGSTOP)
                seen.pids.add(process.pid)
            over.wait(interval)
            states = [process.state for process in found if not process.ended]
            seen.samples += 1
            seen.still += bool(states) and all(state == "T" for state in states)

    thread = threading.Thread(target=keep, name=f"freeze {what}", daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join(timeout=10)
        thaw(find)


def thaw(find: Callable[[], list[Process]]) -> None:
    """Let all these processes run."""
    for process in find():
        process.send(signal.SIGCONT)


def restarts(host: Api, namespace: str, pod: str, container: str) -> int:
    """How often a container has restarted; 0 if the pod is not there."""
    found = host.find("Pod", pod, namespace)
    statuses = (found or {}).get("status", {}).get("containerStatuses") or []
    return next((int(item["restartCount"]) for item in statuses if item["name"] == container), 0)


def deployment_ready(host: Api, namespace: str, prefix: str, program: str) -> None:
    """Raises `NotYetError` until the pods are ready, and have a process: the kubelet notices late that one was killed."""
    pods = [pod for pod in pods_named(host, namespace, prefix) if not pod["metadata"].get("deletionTimestamp")]
    if not pods or not all(is_ready(pod) for pod in pods):
        raise NotYetError("; ".join(workloads.describe(pod) for pod in pods) or f"no pod {prefix}*")
    if not component_processes(host, namespace, prefix, program):
        raise NotYetError(f"no process of {program}")


def syncer_ready(scene: Scene) -> None:
    deployment_ready(scene.host, scene.target.plane, "syncer", "syncer")


def rest(scene: Scene) -> None:
    """Replace the target's plane pod if its containers have restarted: the kubelet would make the next restart wait longer."""
    pod = plane_pod(scene)
    if not any(workloads.restarts(pod).values()):
        return
    scene.host.delete("Pod", "plane-0", scene.target.plane, grace=0)

    def serves() -> None:
        new = plane_pod(scene)
        if of_pod(new) == of_pod(pod) or not is_ready(new):
            raise NotYetError(workloads.describe(new))

    until("a fresh pod of the target's plane", serves, seconds=60)


def fresh_pods(host: Api, namespace: str, prefix: str) -> None:
    """Replace pods at once, so that the kubelet does not wait longer and longer before it restarts their containers."""
    for pod in pods_named(host, namespace, prefix):
        host.delete("Pod", pod["metadata"]["name"], namespace, grace=0)


def knob(process: Process, controller: str, *names_: str) -> Path:
    """A file of a process's control group, on a machine with cgroups v1 or v2, whose names differ."""
    paths = dict(line.split(":", 2)[1:] for line in _read(Path(f"/proc/{process.pid}/cgroup")).splitlines())
    for group, folder in ((controller, controller), ("", "")):
        for name in names_ if group in paths else ():
            if (found := Path("/sys/fs/cgroup", folder, paths[group].lstrip("/"), name)).exists():
                return found
    raise OSError(f"process {process.pid} ({process.program}) has no control group with {' or '.join(names_)}")


def memory_limit(process: Process) -> Path:
    return knob(process, "memory", "memory.limit_in_bytes", "memory.max")


def refused_processes(processes: Iterable[Process]) -> int:
    """How often the kernel refused a process to the pods of these ones, at the kubelet's limit.

    The limit is the pod's. cgroup v1 counts at the container that asked, which is not the one of `pause`; v2 at the pod whose
    limit it was.
    """
    counters: set[Path] = set()
    for process in processes:
        with suppress(OSError):  # it has ended
            container = knob(process, "pids", "pids.events")
            counters |= {container, container.parent.parent / "pids.events"}
    lines = [line for path in counters for line in _read(path).splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("max "))


def too_few_members(scene: Scene) -> str:
    """Why a fault of one member cannot be made on the target; empty if it can."""
    members = len(pods_named(scene.host, scene.target.plane, "plane-"))
    return "" if members >= 3 else f"the plane of {scene.target.name} has {members} member; this needs a plane of three"


def volume_of(scene: Scene, member: int = 0) -> Path:
    """The folder on this machine behind the volume of the target's etcd."""
    claim = scene.host.get("PersistentVolumeClaim", f"data-plane-{member}", scene.target.plane)
    volume = scene.host.get("PersistentVolume", claim["spec"]["volumeName"])
    return Path(volume["spec"]["local"]["path"])


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
