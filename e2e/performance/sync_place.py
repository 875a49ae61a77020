"""Where the synchronisation benchmark runs: simulated nodes, host namespaces, tenants; made before and removed after.

Only what it made itself, by name, is removed.
"""

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from bulkhead.api import names
from bulkhead.hostcluster.kwok.nodes import node_status, simulated_node
from e2e import machine, tenants
from e2e.api import Api
from e2e.poll import NotYetError, until

NAMESPACE = "bench"
_PODS_A_NODE = 250
_FIRST_NODE = 900  # beyond the simulated nodes that the host makes
# What planes ask of CPU by default is more than two cores promise to twenty of them. It is a promise and a weight, no limit.
_MANY_PLANES = 15
_MODEST = {"resources": {"apiServer": {"requests": {"cpu": "10m"}, "limits": {"cpu": "1"}}}}

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Place:
    """What the benchmark may use."""

    host: Path
    natives: tuple[str, ...]
    planes: tuple[tuple[str, Path], ...]  # tenant, kubeconfig

    @classmethod
    @contextlib.contextmanager
    def prepared(cls, prefix: str, count: int, most_pods: int, note: Note, *, keep: bool) -> Iterator[Self]:
        """Make it all, and take it away again however the block ends (`keep` leaves the tenants)."""
        host = machine.host_api()
        chosen = [f"{prefix}-{number}" for number in range(count)]
        natives = [f"{prefix}-native-{number}" for number in range(count)]
        nodes = range(_FIRST_NODE, _FIRST_NODE + -(-most_pods // _PODS_A_NODE) + 1)
        try:
            note(f"making {len(nodes)} simulated nodes, {count} namespaces and {count} tenants")
            _nodes(host, nodes)
            for name in natives:
                if host.find("Namespace", name) is None:
                    tenants.make_namespace(host, name)
            yield cls(machine.KUBECONFIG, tuple(natives), tuple(_planes(host, chosen, note)))
        finally:
            note("taking away what was made")
            for name in natives:
                host.delete("Namespace", name)
            if not keep:
                with ThreadPoolExecutor(4) as pool:
                    list(pool.map(lambda name: tenants.remove(host, name, seconds=300), chosen))
            for index in nodes:
                host.delete("Node", simulated_node(index, 0, 1)["metadata"]["name"])


def _nodes(host: Api, indices: range) -> None:
    for index in indices:
        node = simulated_node(index, 0, 1)
        name = node["metadata"]["name"]
        if host.find("Node", name) is None:
            host.create(node)
        host.patch("Node", name, {"status": node_status(index, 0)["status"]}, subresource="status")

    def ready() -> None:
        for index in indices:
            name = simulated_node(index, 0, 1)["metadata"]["name"]
            conditions = host.get("Node", name).get("status", {}).get("conditions") or []
            if not any(one["type"] == "Ready" and one["status"] == "True" for one in conditions):
                raise NotYetError(f"{name} is not Ready")

    until("the simulated nodes to be Ready", ready, seconds=60)


def _planes(host: Api, chosen: list[str], note: Note) -> Iterator[tuple[str, Path]]:
    many: dict[str, Any] = {"controlPlane": _MODEST} if len(chosen) > _MANY_PLANES else {}
    if many:
        note(f"more than {_MANY_PLANES} planes: each API server asks for 10m of CPU instead of 50m")
    for name in chosen:
        if host.find("Tenant", name) is None:
            host.create(tenants.manifest(name, gpus=0, quota={"objects": {"pods": 2000, "secrets": 4000}}, **many))
    tenants.wait_ready(host, chosen, seconds=120 + 20.0 * len(chosen))
    note(f"{len(chosen)} tenants Ready")
    for name in chosen:
        tenant = tenants.open_tenant(name)
        if tenant.api.find("Namespace", NAMESPACE) is None:
            tenants.make_namespace(tenant.api, NAMESPACE)
        yield name, tenant.kubeconfig


def work_namespace(tenant: str) -> str:
    return names.work_namespace(tenant)
