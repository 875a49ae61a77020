"""Canary secrets: one in each tenant, mounted by a pod of it. No text of the platform, the host or another tenant may have it.

    plant (each tenant) ──> … the run … ──> search: logs of all containers, events, Tenants ──> what leaked, and whether the
                                                                                               search found its control

A canary is random and stays in this process: the history says only where one was found. The control is a harmless mark in a
log of each tenant, which the same search has to find.
"""

import base64
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from e2e import names, workloads
from e2e.api import Api, ApiError, UnreachableError, path_of
from e2e.chaos.history import HOST, Planted, Searched
from e2e.tenants import Tenant

NAME: Final = "chaos-canary"
CONTROL_POD: Final = "stay-secret"  # mounts the canary, and writes the control into its log
# A later run finds an earlier one's tenants with their pods. One whose container ends by itself looks restarted by a fault.
STAY_SECONDS: Final = 365 * 24 * 3600
_LOG_BYTES: Final = 16 << 20  # more than a kubelet keeps in one file, which is all that it returns
_CANARIES: Final[dict[str, str]] = {}
Text = tuple[str, str, str, bool]  # owner, place, text, whether the control has to be in it


def control(tenant: str) -> str:
    """The mark that a pod of the tenant writes into its log."""
    return f"chaos-control-of-{tenant}"


def pod_spec(tenant: str) -> dict[str, Any]:
    """A pod that mounts the canary, has it in its environment, and writes the control into its log."""
    spec = workloads.pod_spec(("sh", "-c", f"echo {control(tenant)}; exec sleep {STAY_SECONDS}"))
    spec["volumes"] = [{"name": "canary", "secret": {"secretName": NAME}}]
    container = spec["containers"][0]
    container["volumeMounts"] = [{"name": "canary", "mountPath": "/canary"}]
    container["env"] = [{"name": "CANARY", "valueFrom": {"secretKeyRef": {"name": NAME, "key": "value"}}}]
    return spec


def plant(tenant: Tenant) -> Planted:
    """Make the tenant's canary, with a value that no earlier run had."""
    value = _CANARIES[tenant.name] = f"canary-{secrets.token_hex(16)}"
    metadata = {"name": NAME, "namespace": "default"}
    tenant.api.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"value": value}})
    return Planted(time.monotonic(), tenant.name)


def search(host: Api, opened: Mapping[str, Tenant], note: Callable[[str], None]) -> list[Searched]:
    """Look through every text within reach. A text that cannot be read counts as not searched."""
    found = [judged(time.monotonic(), text, _CANARIES) for text in (*_of_host(host), *_of_tenants(host, opened))]
    total = sum(item.bytes for item in found)
    note(f"searched {len(found)} texts, {total / 1e6:.1f} MB, for the canaries of {len(_CANARIES)} tenants")
    return found


def judged(at: float, text: Text, canaries: Mapping[str, str]) -> Searched:
    """Which canaries are in a text, as they are or in base64. Pure."""
    owner, place, content, has_control = text
    leaked = tuple(
        tenant
        for tenant, value in sorted(canaries.items())
        if tenant != owner and any(form in content for form in _forms(value))
    )
    seen = control(owner) in content if has_control else None
    return Searched(at, owner, place, len(content), leaked, seen)


def _forms(value: str) -> Sequence[str]:
    """The canary, and its base64 at each of the three places where it may begin within a longer text."""
    encoded = [base64.b64encode(b"x" * shift + value.encode()).decode() for shift in range(3)]
    return (value, *(form[4 if shift else 0 :].rstrip("=")[:-1] for shift, form in enumerate(encoded)))


def _of_host(host: Api) -> Iterator[Text]:
    """Texts of the platform and of the host: logs of its containers, events, and the Tenants' statuses."""
    for pod in host.list("Pod"):
        labels = pod["metadata"].get("labels") or {}
        if labels.get("bulkhead.dev/managed-by") == "syncer":
            continue
        yield from _logs(host, pod, HOST, control_of="")
    for kind in ("Event", "Tenant"):
        yield HOST, f"{kind}s of the host", _dump(host, kind), False


def _of_tenants(host: Api, opened: Mapping[str, Tenant]) -> Iterator[Text]:
    """Texts of tenants: the logs of their host pods, and the events of their planes."""
    for name, tenant in opened.items():
        for pod in host.list("Pod", tenant.work, labels=names.MIRRORED):
            original = (pod["metadata"].get("annotations") or {}).get("bulkhead.dev/virtual-name", "")
            yield from _logs(host, pod, name, control_of=original if original == CONTROL_POD else "")
        yield name, f"events of {name}", _dump(tenant.api, "Event"), False


def _logs(host: Api, pod: Mapping[str, Any], owner: str, *, control_of: str) -> Iterator[Text]:
    space, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    if (pod["spec"].get("nodeSelector") or {}).get("bulkhead.dev/simulated"):
        return  # nothing runs on the simulated nodes
    for container in pod["spec"]["containers"]:
        query = {"container": container["name"], "limitBytes": str(_LOG_BYTES)}
        try:
            text = host.text(path_of("Pod", space, name) + "/log", query)
        except (ApiError, UnreachableError):
            continue  # it has not started, or it is gone
        yield owner, f"log of {space}/{name}/{container['name']}", text, bool(control_of)


def _dump(api: Api, kind: str) -> str:
    try:
        return str(api.list(kind))
    except (ApiError, UnreachableError):
        return ""
