"""Faults of a Slurm tenant, caused from outside: a killed daemon, a deleted pod, a stopped program of the plane.

Processes are found through the control group of the host pod of a virtual pod, so the tenant is not involved. Each fault proves
that it happened. `Door` runs commands in a login node through the host while the plane's API is away.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from e2e import commands, machine, names, workloads
from e2e.api import Api, Obj, UnreachableError
from e2e.commands import Outcome
from e2e.names import SLURM_NAMESPACE
from e2e.poll import NotYetError, until
from e2e.slurm.clusters import ALICE, Cluster
from e2e.slurm.login import inside


def kill_daemon(host: Api, cluster: Cluster, pod: str, program: str) -> None:
    """SIGKILL to a daemon in a pod. Returns when its process is gone and a new one runs."""
    uid = mirror(host, cluster, pod)["metadata"]["uid"]
    before = _running(uid, program)
    proven, text = machine.kill(before, f"{program} of {cluster.name}")
    assert proven, text

    def back() -> None:
        now = {process.pid for process in _running(uid, program)}
        workloads.expect(bool(now - {process.pid for process in before}), f"{program} has not started again")

    until(f"{program} of {cluster.name} to run again", back, seconds=90)


def _running(uid: str, program: str) -> list[machine.Process]:
    """A daemon's processes by the first word of their names; some daemons append their state to it."""
    return [process for process in machine.processes_of_pod(uid) if program in process.program.split(" ")[0]]


def wait_ready_again(cluster: Cluster, pod: str, *, seconds: float = 120.0) -> Obj:
    """Wait until a pod of the cluster is ready."""
    return workloads.wait_running(cluster.api, pod, namespace=SLURM_NAMESPACE, seconds=seconds)


def mirror(host: Api, cluster: Cluster, pod: str) -> Obj:
    """The host pod behind a pod of the cluster."""
    return workloads.host_pod_of(host, cluster.pod(pod), cluster.tenant.work)


@dataclass(frozen=True, slots=True)
class Door:
    """A login node, reached only through the host's API."""

    namespace: str
    pod: str

    @classmethod
    def of(cls, host: Api, cluster: Cluster) -> "Door":
        return cls(cluster.tenant.work, mirror(host, cluster, "login-0")["metadata"]["name"])

    def run(self, *words: str, user: str = ALICE, given: str = "", check: bool = True, seconds: float = 60.0) -> Outcome:
        exec_ = ("-n", self.namespace, "exec", "-i", self.pod, "-c", "login", "--", *inside(user, words))
        return commands.kubectl(machine.KUBECONFIG, *exec_, given=given, check=check, seconds=seconds)


@contextlib.contextmanager
def frozen_api(host: Api, cluster: Cluster) -> Iterator[None]:
    """The plane's API server is stopped, however often it is restarted, until the block ends."""
    uid = host.get("Pod", "plane-0", names.plane_namespace(cluster.name))["metadata"]["uid"]
    over = threading.Event()

    def freeze() -> None:
        while not over.is_set():
            _send(uid, signal.SIGSTOP)
            over.wait(0.3)

    thread = threading.Thread(target=freeze, name="freeze", daemon=True)
    thread.start()
    try:
        until("the plane's API to be silent", lambda: _silent(cluster), seconds=30)
        yield
        _silent(cluster)
    finally:
        over.set()
        thread.join(timeout=10)
        _send(uid, signal.SIGCONT)


def _send(uid: str, number: signal.Signals) -> None:
    for process in machine.processes_of_pod(uid, "kube-apiserver"):
        process.send(number)


def _silent(cluster: Cluster) -> None:
    try:
        cluster.api.request("GET", "/version", timeout=2)
    except UnreachableError:
        return
    raise NotYetError("it still answers")
