"""A noisy neighbour: pods of the target that take all they can get of CPU, memory, processes, network or disk."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from e2e import machine, workloads
from e2e.api import Obj
from e2e.chaos.faults import crowds, packets, parts
from e2e.chaos.faults.fault import Fault, Proof, Scene, of_pod, quietly
from e2e.chaos.faults.naming import LABELS, SELECTOR
from e2e.chaos.faults.webhooks import IMAGE
from e2e.poll import WaitTimeoutError, until
from e2e.workloads import expect

Kind = Literal["cpu", "memory", "processes", "network", "disk"]
_PORT: Final = 7000
_COMMANDS: Final[dict[str, str]] = {
    "cpu": "for n in 1 2 3 4; do while :; do :; done & done; wait",
    # tail keeps the whole line that never ends.
    "memory": "tail /dev/zero",
    "processes": "",  # see `_STARTS`: a shell ends once it gets no more
    "network": "",  # two pods, see `_commands`
    "disk": "while :; do dd if=/dev/zero of=/scratch/file bs=1M count=256 conv=fsync 2>/dev/null; done",
}


_STARTS: Final = """
import os, time
while True:
    try:
        if not os.fork():
            time.sleep(600)
            os._exit(0)
    except OSError:
        time.sleep(0.2)
"""

_SINK: Final = f"""
import socket, threading
def drain(connection):
    while connection.recv(1 << 20): pass
server = socket.create_server(("", {_PORT}))
while True:
    threading.Thread(target=drain, args=(server.accept()[0],), daemon=True).start()
"""
_SENDS: Final = f"""
import socket, time
while True:
    try:
        connection = socket.create_connection(("ADDRESS", {_PORT}))
        while True: connection.sendall(bytes(1 << 20))
    except OSError:
        time.sleep(0.2)
"""


@dataclass(frozen=True, slots=True)
class Noise(Fault):
    """Pods that take all they can get of one thing, on the node where the other tenants' pods run."""

    kind: Kind = "cpu"
    pods: int = 2
    seconds: float = 20.0

    def inject(self, scene: Scene) -> Sequence[Proof]:
        uids = self._start(scene)
        before = self._used(scene, uids)
        time.sleep(self.seconds)
        if self.kind == "processes":  # thousands of forks take as long as the machine has time for them
            with suppress(WaitTimeoutError):
                until("the kernel to refuse a process", partial(self._refused, scene, uids, before), seconds=20, interval=2.0)
        return [self._proof(scene, uids, self._used(scene, uids) - before)]

    def _start(self, scene: Scene) -> list[str]:
        """The UIDs of the host pods, which run."""
        api = scene.target.api
        spec = self._python(_STARTS) if self.kind == "processes" else self._spec(_COMMANDS[self.kind])
        if self.kind == "network":
            api.create(workloads.pod("noise-sink", self._python(_SINK), labels=LABELS))
            address = workloads.wait_running(api, "noise-sink", seconds=60)["status"]["podIP"]
            spec = self._python(_SENDS.replace("ADDRESS", address))
        for number in range(self.pods):
            api.create(workloads.pod(f"noise-{number}", spec, labels=LABELS))
        return until("the noisy pods to start", partial(self._host_pods, scene), seconds=60)

    def _refused(self, scene: Scene, uids: Sequence[str], before: float) -> None:
        expect(self._used(scene, uids) > before, "none was refused")

    def _host_pods(self, scene: Scene) -> list[str]:
        listed = scene.host.list("Pod", scene.target.work, labels=SELECTOR)
        started = [pod for pod in listed if pod.get("status", {}).get("containerStatuses")]
        expect(len(started) >= self.pods and all(_has_run(pod) for pod in started), f"{len(started)} pods have started")
        return [of_pod(pod) for pod in started]

    def _spec(self, script: str) -> Obj:
        spec = workloads.pod_spec(("sh", "-c", script))
        spec["containers"][0]["resources"]["limits"]["memory"] = "128Mi"
        if self.kind == "disk":
            spec["volumes"] = [{"name": "scratch", "emptyDir": {"sizeLimit": "512Mi"}}]
            spec["containers"][0]["volumeMounts"] = [{"name": "scratch", "mountPath": "/scratch"}]
        return spec

    def _python(self, program: str) -> Obj:
        spec = self._spec("")
        spec["containers"][0] |= {"image": IMAGE, "command": ["python3", "-c", program]}
        # A class bounds how far a limit may exceed its request.
        spec["containers"][0]["resources"] = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "3Gi"}}
        return spec

    def _used(self, scene: Scene, uids: Sequence[str]) -> float:
        """What the noisy pods have used so far: seconds of CPU, ends for want of memory, processes, or bytes."""
        processes = [process for uid in uids for process in machine.processes_of_pod(uid)]
        if self.kind == "cpu":
            return float(sum(_ticks(process) for process in processes)) / os.sysconf("SC_CLK_TCK")
        if self.kind == "memory":
            return float(sum(_killed(pod) for pod in scene.host.list("Pod", scene.target.work, labels=SELECTOR)))
        if self.kind == "processes":
            return float(parts.refused_processes(processes))
        if self.kind == "network":
            listed = scene.host.list("Pod", scene.target.work, labels=SELECTOR)
            return float(sum(packets.received(packets.cable(pod)) for pod in listed if of_pod(pod) in uids))
        return float(sum(crowds.written_bytes(process.pid) for process in processes))

    def _proof(self, scene: Scene, uids: Sequence[str], used: float) -> Proof:
        if self.kind == "cpu":
            return used > self.seconds * 0.3, f"{self.pods} pods computed for {used:.0f} core seconds in {self.seconds:.0f} s"
        if self.kind == "memory":
            listed = scene.host.list("Pod", scene.target.work, labels=SELECTOR)
            killed = sum(_killed(pod) for pod in listed)
            return killed >= self.pods, f"{killed} containers of {len(listed)} pods were ended for want of memory"
        if self.kind == "processes":
            counts = [len(machine.processes_of_pod(uid)) for uid in uids]
            refused = f"the kernel refused more {used:.0f} times"
            return min(counts) > 200 and used > 0, f"the pods have {counts} processes; {refused}"
        mib = used / (1 << 20)
        return mib > 50, f"{self.pods} pods gave {mib:.0f} MiB to the {self.kind} in {self.seconds:.0f} s, as the kernel counts"

    def lift(self, scene: Scene) -> None:
        for pod in scene.target.api.list("Pod", "default", labels=SELECTOR):
            name = pod["metadata"]["name"]
            quietly(partial(scene.target.api.delete, "Pod", name, "default", grace=0))

    def over(self, scene: Scene) -> None:
        left = scene.host.list("Pod", scene.target.work, labels=SELECTOR)
        expect(not left, f"{len(left)} noisy pods are left")


def _has_run(pod: Obj) -> bool:
    state = pod["status"]["containerStatuses"][0]
    return "running" in state.get("state", {}) or bool(state.get("restartCount")) or "terminated" in state.get("state", {})


def _killed(pod: Obj) -> bool:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    ends = [item.get(state, {}).get("terminated") for item in statuses for state in ("state", "lastState")]
    return any(end and (end.get("reason") == "OOMKilled" or end.get("exitCode") == 137) for end in ends)


def _ticks(process: machine.Process) -> int:
    try:
        return machine.cpu_ticks(process.pid)
    except ProcessLookupError:
        return 0
