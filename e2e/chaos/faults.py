"""Injects each fault, proves that it happened, lifts it, and checks that the target recovers. One small class for each fault.

A fault affects only its target. `inject` returns evidence that the fault happened. `lift` undoes what the tenant or the
operator would undo. `recovered` raises `NotYetError` until the target works again by itself.
"""

import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from e2e import machine, names, tenants, workloads
from e2e.api import Api, ApiError, Obj, UnreachableError, path_of
from e2e.machine import Process
from e2e.poll import NotYetError, WaitTimeoutError, until
from e2e.tenants import Tenant
from e2e.workloads import is_ready

Proof = tuple[bool, str]


@dataclass(frozen=True, slots=True)
class Scene:
    """What a fault may use: the host as its admin, the target, and a way to report progress."""

    host: Api
    target: Tenant
    newcomer: str  # the name of a tenant that does not exist yet
    note: Callable[[str], None]


class Fault(Protocol):
    """The shape of every fault."""

    def inject(self, scene: Scene) -> Sequence[Proof]: ...

    def lift(self, scene: Scene) -> None: ...

    def recovered(self, scene: Scene) -> None: ...

    def over(self, scene: Scene) -> None:  # noqa: ARG002 -- for those of which something is left
        """Raises `NotYetError` while something is left of the fault; most faults leave nothing."""
        return


def plane_pod(scene: Scene, tenant: str) -> Obj:
    return scene.host.get("Pod", "plane-0", names.plane_namespace(tenant))


def component_processes(host: Api, namespace: str, prefix: str, program: str) -> list[Process]:
    """The processes of a program in the pods of one namespace whose names begin with `prefix`."""
    pods = [item for item in host.list("Pod", namespace) if item["metadata"]["name"].startswith(prefix)]
    return [process for pod in pods for process in machine.processes_of_pod(pod["metadata"]["uid"], program)]


def kill(processes: Sequence[Process], what: str) -> Proof:
    """SIGKILL, and the proof that exactly these processes are gone."""
    if not processes:
        return False, f"{what}: no process found to kill"
    for process in processes:
        process.send(signal.SIGKILL)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and any(process.state not in {"", "Z"} for process in processes):
        time.sleep(0.01)
    alive = [process.pid for process in processes if process.state not in {"", "Z"}]
    numbers = ", ".join(str(process.pid) for process in processes)
    return (False, f"{what}: still running: {alive}") if alive else (True, f"{what}: process {numbers} killed and gone")


def tenant_works(tenant: Tenant) -> None:
    """The tenant can write, and a new pod of it runs."""
    name = f"again-{time.monotonic_ns()}"
    try:
        tenant.api.create(workloads.pod(name))
        workloads.wait_running(tenant.api, name, seconds=20, patience=1)
    except (WaitTimeoutError, UnreachableError) as exc:
        raise NotYetError(str(exc)) from exc
    except ApiError as exc:
        raise NotYetError(str(exc)) from exc
    finally:
        _quietly(lambda: tenant.api.delete("Pod", name, "default", grace=0))


@dataclass(frozen=True, slots=True)
class KillApiServer(Fault):
    """SIGKILL to the API server of the target's plane."""

    def inject(self, scene: Scene) -> Sequence[Proof]:
        pod = plane_pod(scene, scene.target.name)
        proof = kill(machine.processes_of_pod(pod["metadata"]["uid"], "kube-apiserver"), "kube-apiserver of the target")
        try:
            scene.target.api.request("GET", "/version", timeout=2)
        except (ApiError, UnreachableError) as exc:
            return [proof, (True, f"the target's API did not answer: {str(exc)[:120]}")]
        return [proof]

    def lift(self, scene: Scene) -> None:
        """Nothing to undo."""

    def recovered(self, scene: Scene) -> None:
        tenant_works(scene.target)


@dataclass(frozen=True, slots=True)
class FreezeEtcd(Fault):
    """SIGSTOP to the target's etcd for a while; a replacement that a restart brings in the meantime is stopped too."""

    seconds: float = 60.0

    def inject(self, scene: Scene) -> Sequence[Proof]:
        uid = plane_pod(scene, scene.target.name)["metadata"]["uid"]
        begin = time.monotonic()
        frozen, samples, pids, failure = 0, 0, set[int](), ""
        while time.monotonic() < begin + self.seconds:
            for process in machine.processes_of_pod(uid, "etcd"):
                process.send(signal.SIGSTOP)
                pids.add(process.pid)
            time.sleep(0.5)
            states = [process.state for process in machine.processes_of_pod(uid, "etcd")]
            samples += 1
            frozen += bool(states) and all(state == "T" for state in states)
            if not failure:
                failure = _write_fails(scene.target.api)
        share = frozen / max(1, samples)
        text = f"etcd (process {sorted(pids)}) stood still in {share:.0%} of {samples} samples over {self.seconds:.0f} s"
        return [(share > 0.9, text), (bool(failure), f"a write to the target failed: {failure[:120] or 'no'}")]

    def lift(self, scene: Scene) -> None:
        uid = plane_pod(scene, scene.target.name)["metadata"]["uid"]
        for process in machine.processes_of_pod(uid, "etcd"):
            process.send(signal.SIGCONT)

    def recovered(self, scene: Scene) -> None:
        tenant_works(scene.target)


@dataclass(frozen=True, slots=True)
class KillSyncerBeforeStatus(Fault):
    """SIGKILL to the target's syncer when its host pod appears, before the syncer writes the status of the virtual pod."""

    attempts: int = 5

    def inject(self, scene: Scene) -> Sequence[Proof]:
        proofs: list[Proof] = []
        for attempt in range(self.attempts):
            # The moment is short, so this process must not wait for a core.
            machine.stand(machine.Standing.PROBE)
            try:
                proofs = self._try(scene, f"between-{attempt}")
            finally:
                machine.stand(machine.Standing.LOAD)
            if all(proven for proven, _ in proofs):
                return proofs
            scene.note(f"attempt {attempt + 1}: {proofs[-1][1]}")
            until("the syncer to be back", partial(_syncer_ready, scene), seconds=180)
        return proofs

    def _try(self, scene: Scene, name: str) -> list[Proof]:
        host, target = scene.host, scene.target
        processes = component_processes(host, target.plane, "syncer", "syncer")
        version = host.collection_version("Pod", target.work)
        found: list[Proof] = []

        def strike() -> None:
            for event in host.watch("Pod", target.work, version=version, seconds=15):
                metadata = event["object"]["metadata"]
                if event["type"] == "ADDED" and (metadata.get("annotations") or {}).get("bulkhead.dev/virtual-name") == name:
                    found.append(kill(processes, "syncer of the target"))
                    return

        watcher = threading.Thread(target=strike, daemon=True)
        watcher.start()
        target.api.create(workloads.pod(name))
        watcher.join(timeout=20)
        virtual = target.api.get("Pod", name, "default")
        status = virtual.get("status", {})
        untouched = not status.get("podIP") and not status.get("containerStatuses") and not virtual["spec"].get("nodeName")
        text = f"the host pod of {name} existed and the virtual pod had {'no' if untouched else 'a'} status and binding yet"
        return [*(found or [(False, f"no host pod of {name} appeared")]), (untouched, text)]

    def lift(self, scene: Scene) -> None:
        """Nothing to undo."""

    def recovered(self, scene: Scene) -> None:
        pods = scene.target.api.list("Pod", "default")
        between = [pod for pod in pods if pod["metadata"]["name"].startswith("between-")]
        if not between:
            raise NotYetError("no pod is left that was created while the syncer died")
        for pod in between:
            if not is_ready(pod):
                raise NotYetError(workloads.describe(pod))
            workloads.host_pod_of(scene.host, pod, scene.target.work)
        tenant_works(scene.target)


@dataclass(frozen=True, slots=True)
class FailClosedWebhook(Fault):
    """A validating webhook in the target without a server, which every write must pass."""

    seconds: float = 20.0

    def inject(self, scene: Scene) -> Sequence[Proof]:
        rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"], "scope": "*"}
        webhook = {
            "name": "nobody.answers.example",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 2,
            "clientConfig": {"url": "https://127.0.0.1:9/"},
            "rules": [rule],
        }
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "closed"},
            "webhooks": [webhook],
        }
        scene.target.api.apply(body)
        deadline = time.monotonic() + self.seconds
        refusal = ""
        while time.monotonic() < deadline:
            refusal = refusal or _write_fails(scene.target.api)
            time.sleep(0.5)
        syncers = component_processes(scene.host, scene.target.plane, "syncer", "syncer")
        proven = "webhook" in refusal
        return [(proven, f"a write was refused: {refusal[:140] or 'no'}"), (bool(syncers), "the target's syncer still runs")]

    def lift(self, scene: Scene) -> None:
        closed = partial(scene.target.api.delete, "ValidatingWebhookConfiguration", "closed")
        until("the webhook to be deleted", closed, seconds=30)

    def recovered(self, scene: Scene) -> None:
        tenant_works(scene.target)


@dataclass(frozen=True, slots=True)
class Flood(Fault):
    """Thousands of ConfigMaps and hundreds of CRDs, written to the target as fast as it accepts them."""

    config_maps: int = 5000
    definitions: int = 200
    writers: int = 4
    namespace: str = "flood"

    def inject(self, scene: Scene) -> Sequence[Proof]:
        api = scene.target.api
        api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        begin = time.monotonic()
        with ThreadPoolExecutor(self.writers, "flood") as pool:
            definitions = pool.map(lambda n: self._retry(api, self._definition(n)), range(self.definitions))
            config_maps = pool.map(lambda n: self._retry(api, self._config_map(n)), range(self.config_maps))
            accepted = sum(definitions), sum(config_maps)
        took = time.monotonic() - begin
        there = len(api.list("ConfigMap", self.namespace, labels="flood=yes"))
        kinds = len(api.list("CustomResourceDefinition", labels="flood=yes"))
        proven = there >= self.config_maps and kinds >= self.definitions
        text = (
            f"{there} ConfigMaps and {kinds} CRDs in the target after {took:.0f} s ({accepted[1]} and {accepted[0]} accepted)"
        )
        return [(proven, text)]

    def _retry(self, api: Api, obj: Obj) -> bool:
        """An overloaded plane may refuse for a while; the flood does not give up at once."""
        for _ in range(20):
            try:
                api.create(obj)
            except UnreachableError:
                time.sleep(0.5)
            except ApiError as exc:
                if exc.status == 409:
                    return True
                time.sleep(0.5)
            else:
                return True
        return False

    def _config_map(self, number: int) -> Obj:
        metadata = {"name": f"flood-{number}", "namespace": self.namespace, "labels": {"flood": "yes"}}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": "y" * 200}}

    def _definition(self, number: int) -> Obj:
        made = workloads.custom_resource(f"floods{number}", "flood.example.com", f"Flood{number}")
        made["metadata"]["labels"] = {"flood": "yes"}
        return made

    def lift(self, scene: Scene) -> None:
        api, selector = scene.target.api, {"labelSelector": "flood=yes"}
        _quietly(lambda: api.request("DELETE", path_of("CustomResourceDefinition"), query=selector, timeout=180))
        _quietly(lambda: api.request("DELETE", path_of("ConfigMap", self.namespace), query=selector, timeout=180))
        _quietly(lambda: api.delete("Namespace", self.namespace))

    def recovered(self, scene: Scene) -> None:
        tenant_works(scene.target)

    def over(self, scene: Scene) -> None:
        """A plane that removes hundreds of definitions needs more time than others."""
        kinds = len(scene.target.api.list("CustomResourceDefinition", labels="flood=yes"))
        workloads.expect(not kinds, f"{kinds} CRDs")


@dataclass(frozen=True, slots=True)
class KillControllerMidway(Fault):
    """SIGKILL to the controller after it began to provision a new tenant and before that tenant is Ready."""

    def inject(self, scene: Scene) -> Sequence[Proof]:
        host = scene.host
        controllers = component_processes(host, names.SYSTEM_NAMESPACE, "bulkhead-controller", "controller")
        host.create(tenants.manifest(scene.newcomer, gpus=1))
        space = names.plane_namespace(scene.newcomer)

        def begun() -> None:
            if not host.list("Secret", space):
                raise NotYetError(f"nothing in {space} yet")

        until(f"provisioning of {scene.newcomer} to begin", begun, seconds=30, interval=0.02)
        proof = kill(controllers, "controller")
        tenant = host.get("Tenant", scene.newcomer)
        midway = not tenants.is_ready(tenant)
        made = len(host.list("Secret", space))
        return [proof, (midway, f"{scene.newcomer} was {'not ' if midway else ''}Ready then, with {made} Secrets made")]

    def lift(self, scene: Scene) -> None:
        """Nothing to undo."""

    def recovered(self, scene: Scene) -> None:
        tenant = scene.host.get("Tenant", scene.newcomer)
        if not tenants.is_ready(tenant):
            raise NotYetError(tenants.explain(tenant))


def _syncer_ready(scene: Scene) -> None:
    pods = [item for item in scene.host.list("Pod", scene.target.plane) if item["metadata"]["name"].startswith("syncer")]
    if not pods or not all(is_ready(pod) for pod in pods):
        raise NotYetError("; ".join(workloads.describe(pod) for pod in pods) or "no syncer pod")
    # The kubelet reports a killed process as running until it has noticed.
    if not component_processes(scene.host, scene.target.plane, "syncer", "syncer"):
        raise NotYetError("no process of the syncer")


def _write_fails(api: Api) -> str:
    """The error of a small write; empty when it was accepted."""
    body = {"data": {"probe": str(time.monotonic())}}
    try:
        api.request("PATCH", path_of("ConfigMap", "default", "chaos-observer"), body=body, timeout=3,
                    content_type="application/merge-patch+json")  # fmt: skip
    except (ApiError, UnreachableError) as exc:
        return str(exc)
    return ""


def _quietly(call: Callable[[], object]) -> None:
    """Cleaning up after a fault must not hide what the experiment found."""
    try:
        call()
    except (ApiError, UnreachableError):
        return
