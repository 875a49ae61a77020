"""What the host measured of pods, as the tenant's own API reports it: metrics.k8s.io/v1beta1. Pure.

A pod's figures are its own containers' alone: what the virtual spec does not name is left out. A node's figures are the sum
over the tenant's own pods there, because what the whole node uses shows what other tenants do.

    host PodMetrics (host name) + virtual pod ──> PodMetrics (virtual name) ──sum per node──> NodeMetrics
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from bulkhead.api.objects import Obj
from bulkhead.api.quantity import readable
from syncer.translate.podspec.containers import container_names

API_VERSION: Final = "metrics.k8s.io/v1beta1"
_MEASURED: Final = ("cpu", "memory")


def pod_metrics(virtual: Obj, measured: Obj) -> Obj:
    """The PodMetrics of a virtual pod from that of its host pod; malformed quantities count as not measured."""
    meta = virtual["metadata"]
    own = container_names(virtual)
    containers = [
        {"name": str(container["name"]), "usage": _plain(_usage(container))}
        for container in measured.get("containers") or []
        if container.get("name") in own
    ]
    head: Obj = {"name": meta["name"], "namespace": meta["namespace"]}
    if meta.get("labels"):
        head["labels"] = meta["labels"]
    return {"metadata": head | _created(measured), **_when(measured), "containers": containers}


def node_metrics(node: str, measured: Iterable[Obj]) -> Obj:
    """The NodeMetrics of a node from the PodMetrics of the tenant's pods there, one at least; as fresh as the oldest."""
    pods = sorted(measured, key=lambda sample: str(sample.get("timestamp", "")))
    usages = [_usage(container) for pod in pods for container in pod["containers"]]
    total = {name: sum((usage[name] for usage in usages if name in usage), Decimal(0)) for name in _MEASURED}
    return {"metadata": {"name": node} | _created(pods[0]), **_when(pods[0]), "usage": _plain(total)}


def working_sets(measured: Obj) -> dict[str, int]:
    """Bytes of memory by container; malformed quantities count as not measured."""
    usages = ((str(container.get("name")), _usage(container)) for container in measured.get("containers") or [])
    return {name: int(usage["memory"]) for name, usage in usages if "memory" in usage}


def _usage(container: Mapping[str, Any]) -> dict[str, Decimal]:
    measured = ((str(name), readable(value)) for name, value in (container.get("usage") or {}).items() if name in _MEASURED)
    return {name: amount for name, amount in measured if amount is not None}


def _plain(usage: Mapping[str, Decimal]) -> dict[str, str]:
    """In the units that metrics-server uses."""
    written = {}
    if "cpu" in usage:
        written["cpu"] = f"{int(usage['cpu'] * 10**9)}n"
    if "memory" in usage:
        written["memory"] = f"{int(usage['memory'] / 1024)}Ki"
    return written


def _created(measured: Obj) -> Obj:
    return {"creationTimestamp": str(measured["timestamp"])} if measured.get("timestamp") else {}


def _when(measured: Obj) -> Obj:
    return {name: str(measured[name]) for name in ("timestamp", "window") if measured.get(name)}
