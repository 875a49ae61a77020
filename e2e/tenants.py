"""Tenants as an admin manages them: create, wait until Ready, fetch the kubeconfig, delete, wait until nothing is left.

Host API in, plain values out. A kubeconfig comes from the `bulkhead kubeconfig` command, as for a new user.
"""

import contextlib
import hashlib
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e import commands, machine, names
from e2e.api import Api, ApiError, Obj
from e2e.names import GPU
from e2e.poll import Note, NotYetError, until
from e2e.workloads import describe, expect
from e2e.workloads import is_ready as is_pod_ready

KUBECONFIGS = Path("build/e2e/kubeconfigs")


@dataclass(frozen=True, slots=True)
class Tenant:
    """A Ready tenant: its name and its API."""

    name: str
    api: Api

    @property
    def plane(self) -> str:
        return names.plane_namespace(self.name)

    @property
    def work(self) -> str:
        return names.work_namespace(self.name)

    @property
    def kubeconfig(self) -> Path:
        return self.api.kubeconfig


def manifest(name: str, *, gpus: int = 8, tenant_class: str = "standard", **spec: Any) -> Obj:
    """A Tenant of the example class with a nominal quota of `gpus`."""
    quota = {"resources": {GPU: {"nominal": gpus}}}
    return {
        "apiVersion": names.API_VERSION,
        "kind": "Tenant",
        "metadata": {"name": name},
        "spec": {"class": tenant_class, "quota": quota, **spec},
    }


def conditions(tenant: Obj) -> dict[str, Obj]:
    return {item["type"]: item for item in tenant.get("status", {}).get("conditions") or []}


def explain(tenant: Obj) -> str:
    """One line: the conditions that are not True, and why."""
    waiting = [
        f"{kind}={item['status']} {item.get('reason', '')}: {item.get('message', '')}"
        for kind, item in conditions(tenant).items()
        if item["status"] != "True" and kind != "Ready"
    ]
    return "; ".join(waiting) or "no conditions yet"


def is_ready(tenant: Obj) -> bool:
    """Ready, for the present spec."""
    ready = conditions(tenant).get("Ready", {})
    observed = ready.get("observedGeneration", tenant["metadata"].get("generation"))
    return ready.get("status") == "True" and observed == tenant["metadata"].get("generation")


def wait_ready(host: Api, wanted: Sequence[str], *, seconds: float = 120.0, note: Note | None = None) -> dict[str, float]:
    """Wait until all are Ready. Returns the seconds until each was first seen Ready."""
    if not wanted:
        raise ValueError("wait_ready: no tenant is named, so none would be waited for")
    begin = time.monotonic()
    ready_after: dict[str, float] = {}

    def probe() -> dict[str, float]:
        missing = []
        for name in wanted:
            if name in ready_after:
                continue
            tenant = host.get("Tenant", name)
            if is_ready(tenant):
                ready_after[name] = time.monotonic() - begin
            else:
                missing.append(f"{name}: {explain(tenant)}")
        if missing:
            raise NotYetError(" | ".join(missing)[:600])
        return ready_after

    return until(f"{', '.join(wanted)} to be Ready", probe, seconds=seconds, interval=0.1, note=note)


def wait_condition(
    host: Api, name: str, kind: str, *, status: str, reason: str | None = None, says: str = "", seconds: float = 60.0
) -> Obj:
    """Wait until a tenant's condition has this status, this reason and these words in its message, if given."""

    def probe() -> Obj:
        tenant = host.get("Tenant", name)
        item = conditions(tenant).get(kind)
        if item is None or item["status"] != status or (reason is not None and item.get("reason") != reason):
            raise NotYetError(f"{kind} is {item}; others: {explain(tenant)}")
        if says not in item.get("message", ""):
            raise NotYetError(f"{kind} is {item}, and does not say {says!r}")
        return item

    return until(f"{name}: {kind}={status} {reason or ''}", probe, seconds=seconds)


def open_tenant(name: str, *, timeout: float = 15.0) -> Tenant:
    """Fetch the kubeconfig by the command line and open the tenant's API."""
    KUBECONFIGS.mkdir(parents=True, exist_ok=True)
    path = KUBECONFIGS / f"{name}.yaml"

    def fetch() -> None:
        outcome = commands.bulkhead("kubeconfig", name, "--static", kubeconfig=machine.KUBECONFIG)
        path.touch(mode=0o600)
        path.write_text(outcome.out)

    fetch()
    tenant = Tenant(name, Api(path, timeout=timeout, renew=fetch))
    until(f"the API of tenant {name}", lambda: _answers(tenant.api), seconds=30)
    return tenant


def renewing_kubeconfig(name: str) -> Path:
    """A kubeconfig for programs that run longer than the hour of a certificate: its plugin fetches the next one."""
    KUBECONFIGS.mkdir(parents=True, exist_ok=True)
    path = KUBECONFIGS / f"{name}.renewing.yaml"
    commands.bulkhead("kubeconfig", name, "--write", str(path), kubeconfig=machine.KUBECONFIG)
    return path


def create(host: Api, name: str, *, gpus: int = 8, seconds: float = 120.0, **spec: Any) -> Tenant:
    """Create a tenant, or use the existing one, and wait until it is Ready."""
    if host.find("Tenant", name) is None:
        host.create(manifest(name, gpus=gpus, **spec))
    wait_ready(host, [name], seconds=seconds)
    return open_tenant(name)


def give_quota(host: Api, name: str, quota: Obj) -> None:
    """Give a tenant this quota instead of the one that it has, and wait until the host counts by it."""
    host.patch("Tenant", name, {"spec": {"quota": _instead(host.get("Tenant", name)["spec"].get("quota") or {}, quota)}})
    wait_ready(host, [name])

    def counted() -> None:
        for found in host.list("ResourceQuota", names.work_namespace(name)):
            counts = found.get("status", {}).get("hard")
            expect(counts == found["spec"]["hard"], f"{found['metadata']['name']} counts by {counts}")

    until(f"the host to count by the quota of {name}", counted, seconds=30, interval=0.1)


def _instead(former: Obj, wanted: Obj) -> Obj:
    """The merge patch that makes `wanted` out of `former`."""
    patch: Obj = dict.fromkeys(former.keys() - wanted.keys())
    for key, value in wanted.items():
        patch[key] = _instead(former.get(key) or {}, value) if isinstance(value, dict) else value
    return patch


def remove(host: Api, name: str, *, seconds: float = 120.0) -> None:
    """Delete a tenant and wait until nothing of it is left on the host."""
    host.delete("Tenant", name)
    wait_gone(host, name, seconds=seconds)


def wait_gone(host: Api, name: str, *, seconds: float = 120.0) -> None:
    def probe() -> None:
        if rest := leftovers(host, name):
            raise NotYetError(", ".join(rest))

    until(f"nothing of tenant {name} to be left", probe, seconds=seconds)


def leftovers(host: Api, name: str) -> list[str]:
    """What still exists on the host for this tenant.

    While the Tenant itself is there, nothing else is looked for: it goes last, and its condition says what it waits for.
    """
    tenant = host.find("Tenant", name)
    if tenant is not None:
        return [f"Tenant {name}: {conditions(tenant).get('Ready', {}).get('message', 'no conditions yet')}"]
    rest = []
    namespaces = (names.plane_namespace(name), names.work_namespace(name))
    rest += [f"Namespace {space}" for space in namespaces if host.find("Namespace", space) is not None]
    selector = f"bulkhead.dev/tenant={name}"
    for kind in ("ServiceCIDR", "ClusterRole", "ClusterRoleBinding", "PersistentVolume"):
        rest += [f"{kind} {item['metadata']['name']}" for item in host.list(kind, labels=selector)]
    for volume in host.list("PersistentVolume"):
        claim = volume["spec"].get("claimRef") or {}
        if claim.get("namespace") in namespaces:
            rest.append(f"PersistentVolume {volume['metadata']['name']}")
    if host.find("ServiceCIDR", namespaces[0]) is not None:
        rest.append(f"ServiceCIDR {namespaces[0]}")
    return rest


def wait_other_plane(host: Api, name: str, former: str, *, seconds: float = 90.0) -> None:
    """Wait until the plane's first pod is another than the one with the UID `former`, and is ready.

    The pod counts: the Tenant's status describes a replaced plane as it was, until the controller has seen the change.
    """
    space = names.plane_namespace(name)

    def probe() -> None:
        pod = host.get("Pod", "plane-0", space)
        if pod["metadata"]["uid"] == former or not is_pod_ready(pod):
            raise NotYetError("the former pod" if pod["metadata"]["uid"] == former else "the next pod is not ready")

    until(f"the next pod of the plane of {name}", probe, seconds=seconds)
    wait_ready(host, [name])


def hurry(host: Api, name: str) -> None:
    """Make the kubelet update the files of the plane's first pod now, and not in its next round, half a minute later."""
    touched = {"metadata": {"annotations": {"e2e/touched": f"{time.time():.3f}"}}}
    host.patch("Pod", "plane-0", touched, names.plane_namespace(name))


def look(host: Api, name: str) -> None:
    """Make the controller look at a tenant now, and not in its next round, up to two minutes later."""
    touched = {"metadata": {"annotations": {"e2e/touched": f"{time.time():.3f}"}}}
    host.patch("Tenant", name, touched)


def _answers(api: Api) -> bool:
    if not api.ready():
        raise NotYetError(f"https://{api.host}:{api.port}/readyz does not say ok")
    return True


def empty(host: Api, tenant: Tenant, *, seconds: float = 60.0) -> None:
    """Delete the pods of the default namespace, and wait until they are gone on the host, where they hold GPUs until then."""
    for pod in tenant.api.list("Pod", "default"):
        tenant.api.delete("Pod", pod["metadata"]["name"], "default", grace=0)

    def none() -> None:
        left = [*tenant.api.list("Pod", "default"), *host.list("Pod", tenant.work)]
        expect(not left, "; ".join(map(describe, left)))

    until(f"no pod of {tenant.name} to be left", none, seconds=seconds)


def make_namespace(api: Api, name: str) -> None:
    """Create a namespace in a plane and wait until pods can be created in it."""
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def probe() -> None:
        if api.find("ServiceAccount", "default", name) is None:
            raise NotYetError("no default ServiceAccount")

    until(f"namespace {name} to be usable", probe, seconds=30)


@contextlib.contextmanager
def namespace_for_a_test(api: Api) -> Iterator[str]:
    """A namespace of its own in a plane, ready for pods; removed afterwards."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    make_namespace(api, name)
    yield name
    api.delete("Namespace", name)


def with_token(api: Api, token: str) -> Api:
    """The same API server, with a bearer token instead of the certificate."""
    config = yaml.safe_load(api.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = KUBECONFIGS / f"token-{hashlib.sha256(token.encode()).hexdigest()[:12]}.yaml"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return Api(path)


def who(api: Api) -> str:
    """The user name that the API server sees; empty if it does not accept the credentials."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = api.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=body)
    except ApiError as exc:
        if exc.status in {401, 403}:
            return ""
        raise
    return str(answer["status"]["userInfo"]["username"]) if isinstance(answer, dict) else ""
