"""Plain manifests of tenant work, used by the demo, the scenarios and the chaos experiments, and waits for pods.

A node selector sends real work to the real node and simulated work to the simulated nodes; nothing here knows the host.
"""

from collections.abc import Mapping, Sequence

from e2e.api import Api, Obj
from e2e.machine import NODE
from e2e.names import GPU
from e2e.poll import PATIENCE, NotYetError, until

BUSYBOX = "docker.io/library/busybox:1.36"
REAL: Mapping[str, str] = {"kubernetes.io/hostname": NODE}
SIMULATED: Mapping[str, str] = {"bulkhead.dev/simulated": "true"}
TOLERATION: Obj = {"key": "kwok.x-k8s.io/node", "operator": "Exists", "effect": "NoSchedule"}
SLEEP: Sequence[str] = ("sleep", "3600")


def is_ready(pod: Obj) -> bool:
    """Whether a pod's condition says that it is ready; the pod may be pending deletion all the same."""
    conditions = pod.get("status", {}).get("conditions") or []
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def whole(amount: str | int) -> int:
    """A whole amount in a status, of GPUs or pods; an amount with a suffix is an error."""
    return int(amount)


def pod_spec(
    command: Sequence[str] = SLEEP,
    *,
    gpus: int = 0,
    where: Mapping[str, str] | None = None,
    restart: str = "Always",
    ports: Sequence[int] = (),
    **more: object,
) -> Obj:
    """The spec of a pod with one busybox container that stops at once on SIGTERM."""
    resources: Obj = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}}
    if gpus:
        resources["limits"] |= {GPU: str(gpus)}
    container: Obj = {"name": "main", "image": BUSYBOX, "command": list(command), "resources": resources}
    if ports:
        container["ports"] = [{"containerPort": port} for port in ports]
    place = dict(REAL if where is None else where)
    spec: Obj = {"containers": [container], "restartPolicy": restart, "nodeSelector": place, "terminationGracePeriodSeconds": 1}
    if place == SIMULATED:
        spec["tolerations"] = [TOLERATION]
    return spec | more


def pod(name: str, spec: Obj | None = None, *, namespace: str = "default", labels: Mapping[str, str] | None = None) -> Obj:
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels or {"app": name})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec or pod_spec()}


def deployment(name: str, replicas: int, spec: Obj, *, namespace: str = "default") -> Obj:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def job(name: str, spec: Obj, *, namespace: str = "default") -> Obj:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"backoffLimit": 0, "template": {"metadata": {"labels": {"app": name}}, "spec": spec}},
    }


def service(name: str, app: str, port: int, *, namespace: str = "default") -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"app": app}, "ports": [{"name": "main", "port": port, "targetPort": port}]},
    }


def web_server(text: str, port: int = 8080) -> Sequence[str]:
    """A command that serves one page."""
    return ("sh", "-c", f"mkdir -p /tmp/www && echo '{text}' > /tmp/www/index.html && exec httpd -f -p {port} -h /tmp/www")


def custom_resource(plural: str, group: str, kind: str) -> Obj:
    """A CRD that accepts any object."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [version],
        },
    }


def wait_phase(
    api: Api,
    name: str,
    phases: Sequence[str],
    *,
    namespace: str = "default",
    seconds: float = 60.0,
    patience: float = PATIENCE,
) -> Obj:
    """Wait until the pod is in one of the phases; for Running, it must be Ready too."""

    def probe() -> Obj:
        current = api.get("Pod", name, namespace)
        phase = current.get("status", {}).get("phase", "")
        if phase not in phases or (phase == "Running" and not is_ready(current)):
            raise NotYetError(describe(current))
        return current

    return until(f"pod {namespace}/{name} to be {' or '.join(phases)}", probe, seconds=seconds, patience=patience)


def wait_running(api: Api, name: str, *, namespace: str = "default", seconds: float = 60.0, patience: float = PATIENCE) -> Obj:
    return wait_phase(api, name, ("Running",), namespace=namespace, seconds=seconds, patience=patience)


def wait_refused(api: Api, name: str, reason: str, *, says: str = "", namespace: str = "default", seconds: float = 30.0) -> Obj:
    """Wait until the pod is Pending with PodScheduled=False, this reason and these words. Returns the condition."""

    def probe() -> Obj:
        current = api.get("Pod", name, namespace)
        item = condition(current, "PodScheduled")
        if item is None or item.get("status") != "False" or item.get("reason") != reason:
            raise NotYetError(describe(current))
        if says not in item.get("message", ""):
            raise NotYetError(f"{describe(current)}, and does not say {says!r}")
        return item

    return until(f"pod {namespace}/{name} to be refused with {reason}", probe, seconds=seconds)


def wait_job(api: Api, name: str, *, namespace: str = "default", seconds: float = 60.0) -> Obj:
    def probe() -> Obj:
        current = api.get("Job", name, namespace)
        if current.get("status", {}).get("failed"):
            raise AssertionError(f"job {name} failed: {pods_of(api, name, namespace)}")
        if not current.get("status", {}).get("succeeded"):
            raise NotYetError(f"{current.get('status')}; {pods_of(api, name, namespace)}")
        return current

    return until(f"job {namespace}/{name} to complete", probe, seconds=seconds)


def wait_available(api: Api, name: str, replicas: int, *, namespace: str = "default", seconds: float = 60.0) -> Obj:
    def probe() -> Obj:
        current = api.get("Deployment", name, namespace)
        if current.get("status", {}).get("availableReplicas", 0) < replicas:
            raise NotYetError(f"{current.get('status')}; {pods_of(api, name, namespace)}")
        return current

    return until(f"deployment {namespace}/{name} to have {replicas} pods available", probe, seconds=seconds)


def wait_pod_gone(api: Api, name: str, *, namespace: str = "default", seconds: float = 60.0) -> None:
    def probe() -> None:
        if current := api.find("Pod", name, namespace):
            raise NotYetError(describe(current))

    until(f"pod {namespace}/{name} to be gone", probe, seconds=seconds)


def pods_of(api: Api, app: str, namespace: str) -> str:
    return "; ".join(describe(item) for item in api.list("Pod", namespace, labels=f"app={app}"))[:800]


def restarts(pod: Obj) -> dict[str, int]:
    """How often each container of a running pod has restarted; on a slow machine one may restart before the first look."""
    return {container["name"]: int(container["restartCount"]) for container in pod["status"]["containerStatuses"]}


def gpus_of(pod: Obj) -> int:
    """GPUs that a pod requests."""
    limits = [container.get("resources", {}).get("limits") or {} for container in pod["spec"]["containers"]]
    return sum(int(limit.get(GPU, 0)) for limit in limits)


def condition(obj: Obj, kind: str) -> Obj | None:
    return next((item for item in obj.get("status", {}).get("conditions") or [] if item.get("type") == kind), None)


def describe(current: Obj) -> str:
    """One line about a pod: phase, node, and what it waits for."""
    status = current.get("status", {})
    words = [current["metadata"]["name"], status.get("phase", "no phase"), current.get("spec", {}).get("nodeName", "no node")]
    scheduled = condition(current, "PodScheduled")
    if scheduled and scheduled.get("status") != "True":
        words.append(f"{scheduled.get('reason')}: {scheduled.get('message')}")
    for container in status.get("containerStatuses") or []:
        state = container.get("state", {})
        waiting = state.get("waiting") or state.get("terminated")
        if waiting:
            words.append(f"{waiting.get('reason')}: {waiting.get('message', '')}".rstrip(": "))
    if current["metadata"].get("deletionTimestamp"):
        words.append("being deleted")
    return " ".join(str(word) for word in words if word)


def host_pod_of(host: Api, virtual: Obj, work: str) -> Obj:
    """The only host pod of a virtual pod; an assertion fails if there is none, or more than one."""
    found = host.list("Pod", work, labels=f"bulkhead.dev/virtual-uid={virtual['metadata']['uid']}")
    if len(found) != 1:
        raise NotYetError(f"{len(found)} host pods for virtual pod {virtual['metadata']['name']}")
    return found[0]


def expect(holds: bool, seen: str) -> None:
    """Inside a wait: continue to wait unless this holds; `seen` is the observation."""
    if not holds:
        raise NotYetError(seen)
