"""A wrong clock in a program that runs on Python, by libfaketime.

The library comes into the pod as a ConfigMap, by a policy of the host's own API that changes the pod at its admission. So no
image changes, and neither Deployment does. The clock is set while the program runs, by a file that the library reads each
second. Only the calendar is wrong: the monotonic clock keeps its pace, as it does on a machine whose date is corrected.
"""

import base64
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, Literal

from e2e import names, workloads
from e2e.api import ApiError, Obj, UnreachableError
from e2e.chaos.faults import parts
from e2e.chaos.faults.fault import Proof, Reversible, Scene, quietly, tenant_works, write_fails
from e2e.machine import Process
from e2e.poll import until
from e2e.workloads import expect

LIBRARY: Final = "libfaketime.so.1"
PLACES: Final = tuple(Path("/usr/lib").glob(f"*/faketime/{LIBRARY}"))
_NAME: Final = "chaos-clock"
_FILE: Final = "faketime"  # in the pod's /tmp
_ENVIRONMENT: Final = {
    "LD_PRELOAD": f"/faketime/{LIBRARY}",
    "FAKETIME_TIMESTAMP_FILE": f"/tmp/{_FILE}",  # noqa: S108 -- in the pod
    "FAKETIME_CACHE_DURATION": "1",
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    "FAKETIME_DISABLE_SHM": "1",
}
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
Program = Literal["syncer", "controller"]


def policy(namespace: str, selector: Obj) -> tuple[Obj, Obj]:
    """The policy that gives new pods the library, and its binding. Pure."""
    env = ", ".join(f'Object.spec.containers.env{{name: "{name}", value: "{value}"}}' for name, value in _ENVIRONMENT.items())
    mount = 'Object.spec.containers.volumeMounts{name: "faketime", mountPath: "/faketime", readOnly: true}'
    container = f"Object.spec.containers{{name: c.name, env: [{env}], volumeMounts: [{mount}]}}"
    volume = f'Object.spec.volumes{{name: "faketime", configMap: Object.spec.volumes.configMap{{name: "{_NAME}"}}}}'
    expression = f"Object{{spec: Object.spec{{volumes: [{volume}], containers: object.spec.containers.map(c, {container})}}}}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    match = {"resourceRules": [rule], "objectSelector": {"matchLabels": selector}}
    match["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
    about = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": _NAME}}
    spec = {"failurePolicy": "Fail", "reinvocationPolicy": "Never", "matchConstraints": match, "mutations": [mutation]}
    return (
        {**about, "kind": "MutatingAdmissionPolicy", "spec": spec},
        {**about, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": _NAME}},
    )


@dataclass(frozen=True, slots=True)
class WrongClock(Reversible):
    """The clock of the target's syncer, or of the controller, jumps ahead and back while it works."""

    program: Program = "syncer"
    jumps: tuple[str, ...] = ("+600", "-3600")  # seconds from the true time
    seconds: float = 15.0  # at each

    def unmet(self, scene: Scene) -> str:  # noqa: ARG002 -- of this machine
        return "" if PLACES else "libfaketime is not installed on this machine; `make setup` installs it"

    def _place(self, scene: Scene) -> tuple[str, str, Obj]:
        if self.program == "syncer":
            selector = {"bulkhead.dev/component": "syncer", "bulkhead.dev/tenant": scene.target.name}
            return scene.target.plane, "syncer", selector
        return names.SYSTEM_NAMESPACE, "bulkhead-controller", {"app.kubernetes.io/component": "controller"}

    def inject(self, scene: Scene) -> Sequence[Proof]:
        namespace, prefix, selector = self._place(scene)
        self.undo.later("the pods with the true clock", partial(self._restart, scene))
        self.undo.later("the policy that brings the library", partial(_remove, scene, namespace))
        library = base64.b64encode(PLACES[0].read_bytes()).decode()
        metadata = {"name": _NAME, "namespace": namespace}
        scene.host.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "binaryData": {LIBRARY: library}})
        for obj, plural in zip(policy(namespace, selector), ("policies", "policybindings"), strict=True):
            path = f"{_ADMISSION}/mutatingadmission{plural}/{_NAME}"
            query = {"fieldManager": "bulkhead-chaos", "force": "true"}
            scene.host.request("PATCH", path, body=obj, query=query, content_type="application/apply-patch+yaml")
        time.sleep(2)  # the API server has to load the policy
        self._restart(scene)
        process = until("the program with the library", partial(self._with_library, scene, namespace, prefix), seconds=90)
        proofs: list[Proof] = []
        for jump in self.jumps:
            _set(process, jump)
            time.sleep(2)
            failure = "" if self.program == "controller" else write_fails(scene.target.api)
            quietly(partial(self._make_it_work, scene))
            time.sleep(self.seconds)
            off, where = self._offset(scene, namespace, process)
            text = f"{where}: its clock was {off:+.0f} s off, {jump} s were asked for; write failed: {failure or 'no'}"
            proofs.append((abs(off - float(jump)) < 90, text))
        return proofs

    def _restart(self, scene: Scene) -> None:
        namespace, prefix, _ = self._place(scene)
        parts.fresh_pods(scene.host, namespace, prefix)
        until(f"{prefix} to be ready", partial(parts.deployment_ready, scene.host, namespace, prefix, self.program), seconds=90)

    def _with_library(self, scene: Scene, namespace: str, prefix: str) -> Process:
        found = [p for p in parts.component_processes(scene.host, namespace, prefix, self.program) if _has_library(p)]
        expect(bool(found), f"no process of {self.program} has the library")
        return found[0]

    def _make_it_work(self, scene: Scene) -> None:
        """Something to do for the program, which it logs."""
        if self.program == "syncer":
            scene.target.api.create(workloads.pod(f"wrong-clock-{time.monotonic_ns()}", labels={"chaos": "clock"}))
        else:
            note = {"metadata": {"annotations": {"chaos": str(time.monotonic_ns())}}}
            scene.host.patch("Tenant", scene.target.name, note)

    def _offset(self, scene: Scene, namespace: str, process: Process) -> tuple[float, str]:
        """How far the program's own clock is off, by what it wrote itself, and where that was read."""
        now = datetime.now(UTC)
        if self.program == "controller":
            lease = scene.host.get("Lease", "bulkhead-controller", namespace)["spec"]["renewTime"]
            return (datetime.fromisoformat(lease) - now).total_seconds(), "its lease"
        pods = parts.pods_named(scene.host, namespace, "syncer")
        try:
            path = f"/api/v1/namespaces/{namespace}/pods/{pods[0]['metadata']['name']}/log"
            text = scene.host.text(path, {"tailLines": "50", "timestamps": "true"})
        except (ApiError, UnreachableError) as error:
            return 0.0, f"no log: {error}"
        del process
        return last_offset(text), "its log"

    def recovered(self, scene: Scene) -> None:
        namespace, prefix, _ = self._place(scene)
        parts.deployment_ready(scene.host, namespace, prefix, self.program)
        tenant_works(scene.target)

    def over(self, scene: Scene) -> None:
        namespace, prefix, _ = self._place(scene)
        for pod in scene.target.api.list("Pod", "default", labels="chaos=clock"):
            scene.target.api.delete("Pod", pod["metadata"]["name"], "default", grace=0)
        kept = [p.pid for p in parts.component_processes(scene.host, namespace, prefix, self.program) if _has_library(p)]
        expect(not kept, f"processes with the library: {kept}")


_STAMPS: Final = re.compile(r"^(\d{4}-\d\d-\d\dT[\d:]+)\.?\d*Z .*?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)", re.MULTILINE)


def last_offset(log: str) -> float:
    """The seconds between the kubelet's and the program's own time in the last line of a log that has both. Pure."""
    found = _STAMPS.findall(log)
    if not found:
        return 0.0
    true, own = (datetime.fromisoformat(text.replace(" ", "T")) for text in found[-1])
    return (own - true).total_seconds()


def _has_library(process: Process) -> bool:
    try:
        return LIBRARY in Path(f"/proc/{process.pid}/maps").read_text()
    except OSError:
        return False


def _set(process: Process, offset: str) -> None:
    file = Path(f"/proc/{process.pid}/root/tmp", _FILE)
    file.write_text(f"{offset}\n")
    file.chmod(0o644)


def _remove(scene: Scene, namespace: str) -> None:
    for plural in ("policybindings", "policies"):
        try:
            scene.host.request("DELETE", f"{_ADMISSION}/mutatingadmission{plural}/{_NAME}")
        except ApiError as error:
            if error.status != 404:
                raise
    scene.host.delete("ConfigMap", _NAME, namespace)
    time.sleep(2)
