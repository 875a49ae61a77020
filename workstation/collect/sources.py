"""What an archive is made of, as data: which kind is read where, and how it is redacted. Pure."""

import io
import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bulkhead.api import auditevents, names
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping
from bulkhead.kube import resources as kinds
from bulkhead.kube.objects import Resource
from workstation.collect import redact


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of objects of the host, for one file."""

    path: str
    resource: Resource
    namespace: str | None
    redacted: Callable[[Obj], Obj]
    field_selector: str | None = None


PLATFORM: Final = (
    kinds.STATEFUL_SETS,
    kinds.DEPLOYMENTS,
    kinds.PODS,
    kinds.SERVICES,
    kinds.PERSISTENT_VOLUME_CLAIMS,
    kinds.RESOURCE_QUOTAS,
    kinds.LIMIT_RANGES,
    kinds.NETWORK_POLICIES,
    kinds.LEASES,
    kinds.EVENTS,
    kinds.JOBS,
)
TENANTS_OWN: Final = (
    (kinds.PODS, redact.pod),
    (kinds.PERSISTENT_VOLUME_CLAIMS, redact.claim),
    (kinds.SERVICES, redact.sizes),
    (kinds.EVENTS, redact.event),
    (kinds.SECRETS, redact.sizes),
    (kinds.CONFIG_MAPS, redact.sizes),
    (kinds.RESOURCE_QUOTAS, redact.ours),
    (kinds.NETWORK_POLICIES, redact.sizes),
)


def listed(tenant: str) -> tuple[Listed, ...]:
    """The lists that tell a tenant's state on the host."""
    plane, work = names.plane_namespace(tenant), names.work_namespace(tenant)
    return (
        *(Listed(f"plane/{r.plural}.json", r, plane, redact.ours) for r in PLATFORM),
        *(Listed(f"plane/{r.plural}.json", r, plane, redact.sizes) for r in (kinds.SECRETS, kinds.CONFIG_MAPS)),
        *(Listed(f"work/{r.plural}.json", r, work, redacted) for r, redacted in TENANTS_OWN),
        Listed("host/nodes.json", kinds.NODES, None, node),
        Listed("host/cohorts.json", kinds.COHORTS, None, redact.ours),
        Listed("host/tenantclasses.json", kinds.TENANT_CLASSES, None, redact.tenant),
        Listed("host/events.json", kinds.EVENTS, None, redact.ours, f"involvedObject.kind=Tenant,involvedObject.name={tenant}"),
    )


def node(obj: Obj) -> Obj:
    """A node: its name, what it has, its taints and conditions, and no address."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return {
        "kind": "Node",
        "metadata": redact.metadata(obj),
        "unschedulable": spec.get("unschedulable", False),
        "taints": spec.get("taints") or [],
        "allocatable": status.get("allocatable"),
        "conditions": [
            {key: item.get(key) for key in ("type", "status", "reason", "lastTransitionTime")}
            for item in status.get("conditions") or ()
        ],
        "versions": {key: value for key, value in (status.get("nodeInfo") or {}).items() if key.endswith(("Version", "Image"))},
    }


# Lines of an API server's metrics that tell how its etcd and its requests are; no line with a tenant's own kinds.
PLANE_METRICS: Final = (
    "apiserver_storage_size_bytes",
    "apiserver_storage_objects",
    "apiserver_current_inflight_requests",
    "apiserver_request_terminations_total",
    "etcd_request_errors_total",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
)
MOST_METRIC_LINES: Final = 2000


def lines_of_tenant(page: bytes, tenant: str) -> bytes:
    """What the controller exports of one tenant: of its etcd, its API server, its certificates, its quota."""
    label = f'tenant="{tenant}"'.encode()
    found = (line for line in page.splitlines() if line.startswith(b"bulkhead_") and _labels(line).count(label))
    return b"\n".join([*itertools.islice(found, MOST_METRIC_LINES), b""])


def platform_lines(log: bytes) -> tuple[bytes, int]:
    """A log without the audit events in it, and how many those are: they name users, and have texts that the tenant wrote.

    The log of an API server has them if its class keeps the trail on stdout. Each line begins with its time.
    """
    lines = list(io.BytesIO(log))
    kept = [line for line in lines if not auditevents.is_event(line.partition(b" ")[2])]
    return b"".join(kept), len(lines) - len(kept)


def log_of_tenant(log: bytes, tenant: str) -> bytes:
    """The lines of the controller's log that are about this tenant and no other. Each begins with its time.

    The field `tenant` of a line names the tenant that it is about; a line without it may have a namespace of the tenant. The
    name alone would not do: that of tenant `a` is part of most words.
    """
    spaces = "|".join(re.escape(name) for name in (names.plane_namespace(tenant), names.work_namespace(tenant)))
    mentioned = re.compile(rf"(?<![A-Za-z0-9-])(?:{spaces})(?![A-Za-z0-9-])".encode())

    def is_about(line: bytes) -> bool:
        try:
            found = mapping(json.loads(line.partition(b" ")[2])).get("tenant")
        except (ValueError, RecursionError):
            found = None
        return found == tenant if isinstance(found, str) else mentioned.search(line) is not None

    return b"".join(line for line in io.BytesIO(log) if is_about(line))


def _labels(line: bytes) -> tuple[bytes, ...]:
    return tuple(line.partition(b"{")[2].partition(b"}")[0].split(b","))


def metric_lines(data: bytes) -> bytes:
    """The lines of `PLANE_METRICS`."""
    kept = [line for line in data.decode(errors="replace").splitlines() if line.startswith(PLANE_METRICS)]
    return ("\n".join(kept[:MOST_METRIC_LINES]) + "\n").encode()
