"""Kills, freezes and starves the processes of one plane."""

import errno
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Self

from e2e import machine, workloads
from e2e.api import Api, ApiError, Obj, UnreachableError
from e2e.chaos.faults import parts
from e2e.chaos.faults.crew import crew
from e2e.chaos.faults.fault import Fault, Proof, Reversible, Scene, of_pod, quietly, tenant_works, write, write_fails
from e2e.chaos.faults.naming import LABELS, SELECTOR, marker
from e2e.poll import NotYetError, WaitTimeoutError, until
from e2e.workloads import expect

_FILLER_BYTES: Final = 512 << 10  # of a write that has to cost etcd memory; an object may have 1.5 MiB


@dataclass(frozen=True, slots=True)
class KillApiServer(Fault):
    """SIGKILL to the API server of the target's plane."""

    def inject(self, scene: Scene) -> Sequence[Proof]:
        proof = machine.kill(parts.plane_processes(scene, "kube-apiserver"), "kube-apiserver of the target")
        failure = _silence(scene.target.api)
        return [proof, (bool(failure), f"the target's API did not answer: {failure[:120]}")]


@dataclass(frozen=True, slots=True)
class KillControllerManager(Fault):
    """SIGKILL to the plane's controller manager, just when a Deployment has to grow."""

    replicas: int = 4

    def inject(self, scene: Scene) -> Sequence[Proof]:
        proof = machine.kill(parts.plane_processes(scene, "kube-controller-manager"), "controller manager of the target")
        grown = workloads.deployment("grows", self.replicas, workloads.pod_spec(where=workloads.SIMULATED))
        scene.target.api.apply(grown)
        return [proof]

    def recovered(self, scene: Scene) -> None:
        status = scene.target.api.get("Deployment", "grows", "default").get("status", {})
        expect(
            status.get("readyReplicas") == self.replicas, f"{status.get('readyReplicas', 0)} of {self.replicas} pods are ready"
        )

    def over(self, scene: Scene) -> None:
        scene.target.api.delete("Deployment", "grows", "default")
        left = scene.target.api.list("Pod", "default", labels="app=grows")
        expect(not left, f"{len(left)} pods of the Deployment are left")


@dataclass(frozen=True, slots=True)
class Freeze(Reversible):
    """SIGSTOP to a program of the plane for a while; a replacement that a restart brings in the meantime is stopped too."""

    program: str = "etcd"
    seconds: float = 60.0

    def inject(self, scene: Scene) -> Sequence[Proof]:
        find = partial(machine.processes_of_pod, of_pod(parts.plane_pod(scene)), self.program)
        self.undo.later(f"thaw {self.program}", partial(parts.thaw, find))
        failure, end = "", time.monotonic() + self.seconds
        with parts.frozen(find, f"{self.program} of the target") as seen:
            while time.monotonic() < end:
                failure = failure or write_fails(scene.target.api)
                time.sleep(0.3)
        return [seen.proof(), (bool(failure), f"a write to the target failed: {failure[:120] or 'no'}")]


@dataclass(slots=True)
class _Writers:
    """Writes small objects one after another in several threads, and remembers which of them were acknowledged."""

    api: Api
    prefix: str
    threads: int = 4
    acknowledged: dict[str, str] = field(default_factory=dict)
    failed: int = 0
    _over: threading.Event = field(default_factory=threading.Event)
    _pool: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._pool = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(self.threads)]
        for thread in self._pool:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._pool:
            thread.join(timeout=20)

    def _run(self, number: int) -> None:
        turn = 0
        while not self._over.is_set():
            name, value = f"{self.prefix}-{number}-{turn % 50}", marker()
            metadata = {"name": name, "namespace": "default", "labels": dict(LABELS)}
            body: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"at": value}}
            try:
                self.api.apply(body)
            except (ApiError, UnreachableError):
                # It may have been written all the same, so nothing is known of this name.
                self.acknowledged.pop(name, None)
                self.failed += 1
                self._over.wait(0.1)
            else:
                self.acknowledged[name] = value
            turn += 1


@dataclass(frozen=True, slots=True)
class KillEtcdWhileWriting(Fault):
    """SIGKILL to the target's etcd amid writes, several times. Every acknowledged write must be there afterwards."""

    kills: int = 6
    _written: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def inject(self, scene: Scene) -> Sequence[Proof]:
        proofs: list[Proof] = []
        parts.rest(scene)
        with _Writers(scene.target.api, f"written-{time.monotonic_ns()}") as writers:
            for number in range(self.kills):
                before = len(writers.acknowledged)
                until("writes to be acknowledged", lambda more=before: _more(writers, more), seconds=60)  # type: ignore[misc]
                proofs.append(machine.kill(parts.plane_processes(scene, "etcd"), f"etcd of the target, time {number + 1}"))
                if number % 2:
                    parts.fresh_pods(scene.host, scene.target.plane, "plane-")
                until("the target to take writes again", lambda: write(scene.target.api), seconds=90, note=scene.note)
                writers.prefix = f"written-{time.monotonic_ns()}"
        self._written.clear()
        self._written.update(writers.acknowledged)
        proofs.append((writers.failed > 0, f"{writers.failed} writes failed meanwhile; {len(self._written)} were acknowledged"))
        return proofs

    def recovered(self, scene: Scene) -> None:
        found = {item["metadata"]["name"]: item["data"]["at"] for item in _labelled(scene.target.api)}
        lost = [name for name, value in self._written.items() if found.get(name) != value]
        expect(not lost, f"{len(lost)} of {len(self._written)} acknowledged writes are lost, such as {lost[:3]}")
        tenant_works(scene.target)

    def over(self, scene: Scene) -> None:
        _remove_labelled(scene.target.api)


def _more(writers: _Writers, before: int) -> None:
    expect(len(writers.acknowledged) >= before + 20, f"{len(writers.acknowledged)} writes acknowledged")


def _labelled(api: Api) -> list[Obj]:
    return api.list("ConfigMap", "default", labels=SELECTOR)


def _remove_labelled(api: Api) -> None:
    query = {"labelSelector": SELECTOR}
    api.request("DELETE", "/api/v1/namespaces/default/configmaps", query=query, timeout=60)


@dataclass(frozen=True, slots=True)
class KillApiServerWhileCreating(Fault):
    """SIGKILL to the API server while many pods are created. Each pod must run afterwards, once."""

    pods: int = 200
    namespace: str = "default"

    def inject(self, scene: Scene) -> Sequence[Proof]:
        api, spec = scene.target.api, workloads.pod_spec(where=workloads.SIMULATED)
        proofs: list[Proof] = []
        tried: list[bool] = []

        def create(number: int) -> int:
            failures = 0
            for _ in range(120):
                try:
                    api.create(workloads.pod(f"many-{number}", spec, labels=LABELS))
                except (ApiError, UnreachableError) as error:
                    if isinstance(error, ApiError) and error.status == 409:
                        break
                    failures += 1
                    time.sleep(0.5)
                else:
                    break
            tried.append(True)
            return failures

        with crew(8) as pool:
            failures = pool.map(create, range(self.pods))
            until(
                "a third of the pods", lambda: expect(len(tried) > self.pods // 3, f"{len(tried)}"), seconds=60, interval=0.02
            )
            proofs.append(machine.kill(parts.plane_processes(scene, "kube-apiserver"), "kube-apiserver of the target"))
            failed = sum(failures)
        return [*proofs, (failed > 0, f"{failed} of the creates failed and were repeated")]

    def recovered(self, scene: Scene) -> None:
        virtual = scene.target.api.list("Pod", self.namespace, labels=SELECTOR)
        ready = [pod for pod in virtual if workloads.is_ready(pod)]
        expect(len(ready) == self.pods, f"{len(ready)} of {self.pods} pods are ready, {len(virtual)} exist")
        host = scene.host.list("Pod", scene.target.work, labels=SELECTOR)
        expect(len(host) == self.pods, f"{len(host)} host pods for {self.pods} virtual ones")

    def over(self, scene: Scene) -> None:
        remove_pods(scene)


def remove_pods(scene: Scene) -> None:
    """Delete the target's labelled pods; raises `NotYetError` while one of them is left on either side."""
    body = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
    path, query = "/api/v1/namespaces/default/pods", {"labelSelector": SELECTOR}
    quietly(lambda: scene.target.api.request("DELETE", path, body=body, query=query, timeout=60))
    left = len(scene.target.api.list("Pod", "default", labels=SELECTOR))
    host = len(scene.host.list("Pod", scene.target.work, labels=SELECTOR))
    expect(not left and not host, f"{left} pods and {host} host pods are left")


@dataclass(frozen=True, slots=True)
class OutOfMemory(Reversible):
    """The kernel ends a program of the plane for want of memory, several times: the limit of its control group is lowered."""

    program: str = "kube-apiserver"
    container: str = "kube-apiserver"
    times: int = 2

    def inject(self, scene: Scene) -> Sequence[Proof]:
        proofs: list[Proof] = []
        parts.rest(scene)
        for number in range(self.times):
            process = until("a process to starve", lambda: self._only(scene), seconds=120)
            before = self._restarts(scene)
            limit = parts.memory_limit(process)
            self.undo.later(f"the memory limit of {self.program}", partial(_put_back, limit, limit.read_text()))
            _lower(limit, anonymous_bytes((limit.parent / "memory.stat").read_text()))
            until("the kernel to end it", lambda doomed=process: self._ended(scene, doomed), seconds=60)  # type: ignore[misc]
            until("the restart", lambda then=before: self._restarted(scene, then), seconds=150)  # type: ignore[misc]
            reason = self._reason(scene)
            proofs.append((reason == "OOMKilled", f"{self.program} (process {process.pid}), time {number + 1}: {reason}"))
        return proofs

    def _ended(self, scene: Scene, process: machine.Process) -> None:
        """A program that needs nothing at the moment is ended once it does. etcd sees writes only: lists come from a cache."""
        quietly(lambda: scene.target.api.request("GET", "/openapi/v2", timeout=2))
        quietly(lambda: scene.target.api.request("GET", "/api/v1/configmaps", timeout=2))
        quietly(lambda: write(scene.target.api, timeout=2, filler=_FILLER_BYTES))
        expect(machine.gone([process], seconds=0.1), f"process {process.pid} is still there")

    def _only(self, scene: Scene) -> machine.Process:
        found = parts.plane_processes(scene, self.program)
        expect(bool(found), f"no process of {self.program}")
        return found[0]

    def _restarts(self, scene: Scene) -> int:
        return parts.restarts(scene.host, scene.target.plane, "plane-0", self.container)

    def _restarted(self, scene: Scene, before: int) -> None:
        expect(self._restarts(scene) > before, f"{self.container} has restarted {before} times")

    def _reason(self, scene: Scene) -> str:
        status = parts.plane_pod(scene)["status"]["containerStatuses"]
        last = next(item for item in status if item["name"] == self.container).get("lastState", {})
        return str(last.get("terminated", {}).get("reason") or "no reason")


def anonymous_bytes(stat: str) -> int:
    """The memory that a group cannot give back, from its memory.stat: `rss` in v1, `anon` in v2.

    The resident set of a process would mislead: most of that of etcd is its database, mapped, which the kernel takes back
    and reads again without ending anything.
    """
    figures = dict(line.split() for line in stat.splitlines() if line.startswith(("rss ", "anon ")))
    return int(figures.get("rss") or figures.get("anon") or 0)


def _lower(knob: Path, used: int) -> None:
    """The lowest limit that the kernel accepts: v1 refuses one below what cannot be reclaimed."""
    for more in range(200):
        try:
            knob.write_text(str(used * 3 // 4 + (more << 20)))
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
        else:
            return
    raise OSError(f"{knob} takes no limit near the {used >> 20} MiB in use")


def _put_back(knob: Path, value: str) -> None:
    """The group has ended with its container, unless the kernel spared it."""
    if knob.exists():
        knob.write_text(value)


def _silence(api: Api, *, seconds: float = 3.0) -> str:
    """Why the API does not answer; empty if it does within the time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            api.request("GET", "/version", timeout=2)
        except (ApiError, UnreachableError) as error:
            return str(error)
        time.sleep(0.05)
    return ""


@dataclass(frozen=True, slots=True)
class KillProgramsAtOnce(Fault):
    """SIGKILL to every program of the plane and to its syncer at the same moment, as a power failure would."""

    def inject(self, scene: Scene) -> Sequence[Proof]:
        found = [*machine.processes_of_pod(of_pod(parts.plane_pod(scene))), *parts.syncers(scene)]
        found = [process for process in found if process.program != "pause"]
        for process in found:
            process.send(signal.SIGKILL)
        ended = machine.gone(found)
        names_ = ", ".join(sorted({process.program for process in found}))
        return [(ended and len(found) >= 4, f"{len(found)} processes killed and gone: {names_}")]

    def recovered(self, scene: Scene) -> None:
        try:
            parts.syncer_ready(scene)
        except WaitTimeoutError as error:
            raise NotYetError(str(error)) from error
        tenant_works(scene.target)
