"""When the first certificate of each plane ends, as the leading controller exports it; read through the host's API.

    pods of the controller ── pods/NAME:8080/proxy/metrics ──> bulkhead_tenant_certificate_end_seconds ──> Ending of each tenant

Only the leader has these series, so the other pods' pages say nothing. No Secret is read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from bulkhead.api import labels
from bulkhead.api.untrusted import mapping, text
from bulkhead.gpus.exposition import parse
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, KubeError
from workstation.cli.console.alarms import Ending
from workstation.cli.output import plain

_METRIC: Final = "bulkhead_tenant_certificate_end_seconds"
_PORT: Final = 8080
_MAX_PODS: Final = 8
_MAX_BYTES: Final = 16 * 1024 * 1024
_MAX_TENANTS: Final = 10_000
_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Ends:
    """What was read. `missing` says why nothing was; empty if something was."""

    tenants: Mapping[str, Ending] = field(default_factory=dict)
    missing: str = ""


async def read_ends(client: Client) -> Ends:
    """The end of each plane's first certificate."""
    try:
        pods = await client.list(kinds.PODS, label_selector=labels.CONTROLLER)
    except KubeError as error:
        return Ends(missing=plain(error))
    missing = "no pod of the controller runs"
    for pod in pods.items[:_MAX_PODS]:
        meta = mapping(pod.get("metadata"))
        if mapping(pod.get("status")).get("phase") != "Running":
            continue
        where, name = (quote(text(meta.get(part)), safe="") for part in ("namespace", "name"))
        path = f"/api/v1/namespaces/{where}/pods/{name}:{_PORT}/proxy/metrics"
        try:
            page = await client.transport.request("GET", path, accept="text/plain", timeout=_SECONDS, max_body=_MAX_BYTES)
        except Forbidden:
            return Ends(missing="you may not read pods/proxy of the controller, whose metrics tell them")
        except KubeError as error:
            missing = plain(error)
            continue
        found = endings(page)
        if found:
            return Ends(found)
        missing = "the controller has not reported them yet"
    return Ends(missing=missing)


def endings(page: bytes) -> dict[str, Ending]:
    """The first end of each tenant in a page of metrics."""
    found: dict[str, Ending] = {}
    for sample in parse(page, {_METRIC}, max_bytes=_MAX_BYTES, max_samples=_MAX_TENANTS).samples:
        tenant, certificate = sample.labels.get("tenant", ""), sample.labels.get("certificate", "")
        if tenant and (tenant not in found or sample.value < found[tenant].at):
            found[tenant] = Ending(certificate, sample.value)
    return found
