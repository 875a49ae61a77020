"""Faults of what all tenants share: the controller, the host's API server and etcd, and all syncers at once.

The target of these is the platform. Tenants' planes must serve all the time; what needs the part that is away may wait.
"""

import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from e2e import machine, names, tenants, workloads
from e2e.api import Api, ApiError, UnreachableError
from e2e.chaos.faults import parts
from e2e.chaos.faults.fault import Fault, Proof, Reversible, Scene, quietly, tenant_works, write_fails
from e2e.poll import NotYetError, until
from e2e.workloads import expect

_CONTROLLER: Final = "bulkhead-controller"
_BROKEN: Final = (ApiError, UnreachableError)


def _controller_ready(host: Api) -> None:
    parts.deployment_ready(host, names.SYSTEM_NAMESPACE, _CONTROLLER, "controller")


@dataclass(frozen=True, slots=True)
class KillControllerMidway(Fault):
    """SIGKILL to the controller after it began to provision a new tenant and before that tenant is Ready."""

    def inject(self, scene: Scene) -> Sequence[Proof]:
        host = scene.host
        tenants.remove(host, scene.newcomer)
        controllers = parts.controllers(host)
        host.create(tenants.manifest(scene.newcomer, gpus=1))
        space = names.plane_namespace(scene.newcomer)
        until(f"provisioning of {scene.newcomer} to begin", partial(_some, host, "Secret", space), seconds=30, interval=0.02)
        proof = machine.kill(controllers, "controller")
        midway = not tenants.is_ready(host.get("Tenant", scene.newcomer))
        made = len(host.list("Secret", space))
        return [proof, (midway, f"{scene.newcomer} was {'not ' if midway else ''}Ready then, with {made} Secrets made")]

    def recovered(self, scene: Scene) -> None:
        tenant = scene.host.get("Tenant", scene.newcomer)
        expect(tenants.is_ready(tenant), tenants.explain(tenant))

    def over(self, scene: Scene) -> None:
        newcomer_gone(scene)


def newcomer_gone(scene: Scene) -> None:
    """Delete the new tenant; raises `NotYetError` while something of it is left."""
    scene.host.delete("Tenant", scene.newcomer)
    left = tenants.leftovers(scene.host, scene.newcomer)
    expect(not left, f"left of {scene.newcomer}: {', '.join(left)}")


def _some(host: Api, kind: str, namespace: str) -> None:
    expect(bool(host.list(kind, namespace)), f"no {kind} in {namespace} yet")


def _begun(scene: Scene, kind: str) -> None:
    """The controller has reached a step of provisioning: the first object of a kind is there."""
    space = names.plane_namespace(scene.newcomer)
    if kind == "Namespace":
        expect(scene.host.find("Namespace", space) is not None, "no namespace")
    else:
        _some(scene.host, kind, space)


STEPS: Final = ("Namespace", "Secret", "StatefulSet", "Pod", "Deployment")


@dataclass(frozen=True, slots=True)
class KillControllerAtSteps(Fault):
    """SIGKILL to the controller at each step of provisioning a new tenant, and again while it deletes that tenant."""

    steps: tuple[str, ...] = STEPS

    def inject(self, scene: Scene) -> Sequence[Proof]:
        host = scene.host
        proofs: list[Proof] = []
        tenants.remove(host, scene.newcomer)
        host.create(tenants.manifest(scene.newcomer, gpus=1))
        for number, kind in enumerate(self.steps):
            until(f"the first {kind}", partial(_begun, scene, kind), seconds=60, interval=0.01)
            proofs.append(machine.kill(parts.controllers(host), f"controller, at the first {kind}"))
            if number % 2:
                parts.fresh_pods(host, names.SYSTEM_NAMESPACE, _CONTROLLER)
            until("the controller to be back", partial(_controller_ready, host), seconds=60)
        tenants.wait_ready(host, [scene.newcomer], seconds=60)
        host.delete("Tenant", scene.newcomer)
        space = names.plane_namespace(scene.newcomer)
        until("its deletion to begin", lambda: expect(_leaves(host, space), "nothing goes yet"), seconds=30, interval=0.01)
        proofs.append(machine.kill(parts.controllers(host), "controller, amid the deletion"))
        return proofs

    def recovered(self, scene: Scene) -> None:
        _controller_ready(scene.host)
        newcomer_gone(scene)

    def lift(self, scene: Scene) -> None:
        quietly(lambda: scene.host.delete("Tenant", scene.newcomer))


def _leaves(host: Api, namespace: str) -> bool:
    """Whether the deletion of a plane has begun."""
    space = host.find("Namespace", namespace)
    pod = host.find("Pod", "plane-0", namespace)
    return space is None or pod is None or any(bool(item["metadata"].get("deletionTimestamp")) for item in (space, pod))


@dataclass(frozen=True, slots=True)
class FrozenLeader(Reversible):
    """The controller that leads stands still for longer than its lease; a second one takes over; the first resumes."""

    seconds: float = 30.0

    def inject(self, scene: Scene) -> Sequence[Proof]:
        host = scene.host
        tenants.remove(host, scene.newcomer)
        self.undo.later("one controller", partial(_scale, host, 1))
        _scale(host, 2)
        until("two controllers", lambda: expect(len(parts.controllers(host)) == 2, "one"), seconds=60)
        until("both to be ready", partial(_controller_ready, host), seconds=60)
        first = until("a leader", partial(_leader, host), seconds=30)
        pod = host.get("Pod", first.split("_")[0], names.SYSTEM_NAMESPACE)
        find = partial(machine.processes_of_pod, pod["metadata"]["uid"], "controller")
        self.undo.later("thaw the first controller", partial(parts.thaw, find))
        with parts.frozen(find, "controller that leads") as seen:
            second = until("another leader", lambda: _other_leader(host, first), seconds=self.seconds)
            host.create(tenants.manifest(scene.newcomer, gpus=1))
            tenants.wait_ready(host, [scene.newcomer], seconds=60)
            time.sleep(3)
        time.sleep(8)
        still = _leader(host)
        return [
            seen.proof(0.8),
            (second != first, f"{second} took the lease from {first} and made a tenant"),
            (still == second, f"after {first} had resumed, the leader is {still}"),
        ]

    def recovered(self, scene: Scene) -> None:
        _controller_ready(scene.host)
        tenant_works(scene.target)
        _leader(scene.host)

    def over(self, scene: Scene) -> None:
        expect(len(parts.controllers(scene.host)) == 1, "more than one controller")
        newcomer_gone(scene)


def _scale(host: Api, replicas: int) -> None:
    host.patch("Deployment", _CONTROLLER, {"spec": {"replicas": replicas}}, names.SYSTEM_NAMESPACE)


def _leader(host: Api) -> str:
    holder = str(host.get("Lease", _CONTROLLER, names.SYSTEM_NAMESPACE)["spec"].get("holderIdentity") or "")
    expect(bool(holder), "no controller leads")
    return holder


def _other_leader(host: Api, first: str) -> str:
    holder = _leader(host)
    expect(holder != first, f"{first} still leads")
    return holder


@dataclass(frozen=True, slots=True)
class KillHostPart(Fault):
    """SIGKILL to a component of the host, such as its API server or its etcd; the host's supervisor restarts it."""

    program: str = "kube-apiserver"

    def inject(self, scene: Scene) -> Sequence[Proof]:
        proof = machine.kill(parts.host_processes(self.program), f"{self.program} of the host")
        silent = _silent_for(scene.host)
        failure = write_fails(scene.target.api)
        return [proof, (True, f"the host's API {silent}"), (not failure, f"a tenant's API took a write: {failure or 'yes'}")]

    def recovered(self, scene: Scene) -> None:
        _host_works(scene)


def _silent_for(host: Api) -> str:
    """What the host's API does in the next two seconds."""
    end = time.monotonic() + 2
    while time.monotonic() < end:
        try:
            host.request("GET", "/readyz", raw=True, timeout=2)
        except _BROKEN as error:
            return f"did not answer: {str(error)[:100]}"
        time.sleep(0.02)
    return "answered all the time"


def _host_works(scene: Scene) -> None:
    if not scene.host.ready():
        raise NotYetError("the host's API is not ready")
    for node in scene.host.list("Node"):
        if node["metadata"]["name"].startswith(machine.NODE):
            condition = workloads.condition(node, "Ready") or {}
            expect(condition.get("status") == "True", f"node {node['metadata']['name']} is not ready")
    tenant_works(scene.target)


@dataclass(frozen=True, slots=True)
class FreezeHostPart(Reversible):
    """SIGSTOP to a component of the host for a while; tenants' APIs and running pods go on."""

    program: str = "kube-apiserver"
    seconds: float = 20.0

    def inject(self, scene: Scene) -> Sequence[Proof]:
        find = partial(parts.host_processes, self.program)
        self.undo.later(f"thaw {self.program} of the host", partial(parts.thaw, find))
        failures, tries, silent = 0, 0, 0
        with parts.frozen(find, f"{self.program} of the host") as seen:
            end = time.monotonic() + self.seconds
            while time.monotonic() < end:
                failures += bool(write_fails(scene.target.api))
                silent += not _answers(scene.host)
                tries += 1
                time.sleep(0.3)
        return [
            seen.proof(),
            (silent > tries * 0.7, f"the host's API gave no answer in {silent} of {tries} tries"),
            (failures == 0, f"{failures} of {tries} writes to a tenant's API failed meanwhile"),
        ]

    def recovered(self, scene: Scene) -> None:
        _host_works(scene)


def _answers(host: Api) -> bool:
    """Whether the host's API reads from its store within a second."""
    try:
        host.request("GET", "/api/v1/namespaces/kube-system", timeout=1)
    except _BROKEN:
        return False
    return True


@dataclass(frozen=True, slots=True)
class BusyHostApi(Reversible):
    """Clients read from the host's API server without a pause what costs it most to write, until it computes all the time."""

    clients: int = 8
    seconds: float = 20.0

    def inject(self, scene: Scene) -> Sequence[Proof]:
        over = threading.Event()
        self.undo.later("the clients", over.set)
        server = parts.host_processes("kube-apiserver")[0]
        answers: list[int] = []

        def lists(path: str) -> None:
            api = machine.host_api(timeout=30)
            while not over.is_set():
                try:
                    api.request("GET", path, raw=True)
                    answers.append(200)
                except ApiError as error:
                    answers.append(error.status)
                except UnreachableError:
                    answers.append(0)

        paths = ("/metrics", "/metrics", "/metrics", "/api/v1/secrets")
        threads = [threading.Thread(target=lists, args=(paths[n % len(paths)],), daemon=True) for n in range(self.clients)]
        before, begin = machine.wanted(server.pid), time.monotonic()
        for thread in threads:
            thread.start()
        tenant_pods = _pods_made(scene, self.seconds)
        wanted, seconds = machine.wanted(server.pid).since(before), time.monotonic() - begin
        over.set()
        for thread in threads:
            thread.join(timeout=35)
        return [
            busy(wanted, seconds, answered=len(answers)),
            (tenant_pods > 0, f"{tenant_pods} pods of the target came to run meanwhile"),
        ]

    def recovered(self, scene: Scene) -> None:
        _host_works(scene)


# Of the time, one thread of a server that computes without a pause has a core or waits for one; of one core it had so much at
# least. What it gets beyond that is the machine's to give: a host of two cores has planes and the clients on them, too.
BUSY_TIME: Final = 0.95
BUSY_CORE: Final = 0.25


def busy(wanted: machine.Wanted, seconds: float, *, answered: int) -> Proof:
    """The proof that a process computed, or wanted to, all the time. Pure."""
    had, asked = wanted.ran / seconds, (wanted.ran + wanted.waited) / seconds
    text = f"the host's API server had {had:.0%} of a core and wanted {asked:.0%}; it answered {answered} requests"
    return asked >= BUSY_TIME and had >= BUSY_CORE, text


def _pods_made(scene: Scene, seconds: float) -> int:
    made, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            tenant_works(scene.target)
        except NotYetError as error:
            scene.note(f"    {error}")
        else:
            made += 1
    return made


@dataclass(frozen=True, slots=True)
class KillAllSyncers(Fault):
    """SIGKILL to the syncers of all tenants at the same moment: all of them start again and read everything at once."""

    def inject(self, scene: Scene) -> Sequence[Proof]:
        names_ = [item["metadata"]["name"] for item in scene.host.list("Tenant")]
        find: Callable[[str], list[machine.Process]] = lambda name: parts.component_processes(  # noqa: E731
            scene.host, names.plane_namespace(name), "syncer", "syncer"
        )
        found = [process for name in names_ for process in find(name)]
        for process in found:
            process.send(signal.SIGKILL)
        gone = machine.gone(found)
        return [(gone and len(found) >= len(names_), f"{len(found)} syncers of {len(names_)} tenants killed and gone")]

    def recovered(self, scene: Scene) -> None:
        for item in scene.host.list("Tenant"):
            space = names.plane_namespace(item["metadata"]["name"])
            parts.deployment_ready(scene.host, space, "syncer", "syncer")
        tenant_works(scene.target)
