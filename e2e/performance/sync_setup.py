"""Where the synchronisation benchmark runs: simulated nodes, host namespaces, tenants; created as needed, removed afterwards.

Planes are created when a load needs them, because idle planes use some CPU. It removes only the objects that it created itself,
by name.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from bulkhead.api import names
from bulkhead.api.conditions import condition_of
from e2e import install, machine, tenants
from e2e.api import Api
from e2e.poll import NotYetError, until
from workstation.hostcluster.kwok.nodes import node_status, simulated_node

NAMESPACE = "bench"
_PODS_A_NODE = 250
_FIRST_NODE = 900  # beyond the simulated nodes that the host makes
# By default, twenty planes request more CPU than two cores have. A request is a reservation and a weight, not a limit.
_MANY_PLANES = 15
# Allows more pods and Secrets than the example class.
_CLASS = "e2e-bench-sync"
_OBJECTS = {"pods": 2000, "secrets": 4000}
# `spec.controlPlane`, so that many planes fit on two cores: a request is a reservation and a weight, not a limit.
MODEST = {"resources": {"apiServer": {"requests": {"cpu": "10m"}, "limits": {"cpu": "1"}}}}

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Setup:
    """What the benchmark may use: namespaces on the host, and as many planes as it needs."""

    host: Path
    natives: tuple[str, ...]
    tenants: tuple[str, ...]
    note: Note
    # `spec.controlPlane` of each Tenant; None for the usual one.
    control_plane: Mapping[str, Any] | None = None

    def planes(self, count: int) -> list[tuple[str, Path]]:
        """The first `count` tenants, Ready, and their kubeconfigs; missing ones are created."""
        if self.control_plane is None and len(self.tenants) > _MANY_PLANES:
            return _planes(self.tenants[:count], self.note, MODEST, ", each API server asking for 10m of CPU instead of 50m")
        return _planes(self.tenants[:count], self.note, self.control_plane)

    @classmethod
    @contextlib.contextmanager
    def prepared(
        cls,
        prefix: str,
        count: int,
        most_pods: int,
        note: Note,
        *,
        keep: bool,
        control_plane: Mapping[str, Any] | None = None,
    ) -> Iterator[Self]:
        """Create everything, and remove it however the block ends (`keep` leaves the tenants)."""
        host = machine.host_api()
        chosen = [f"{prefix}-{number}" for number in range(count)]
        natives = [f"{prefix}-native-{number}" for number in range(count)]
        nodes = range(_FIRST_NODE, _FIRST_NODE + -(-most_pods // _PODS_A_NODE) + 1)
        try:
            note(f"making {len(nodes)} simulated nodes and {count} namespaces")
            _nodes(host, nodes)
            for name in natives:
                if host.find("Namespace", name) is None:
                    tenants.make_namespace(host, name)
            yield cls(machine.KUBECONFIG, tuple(natives), tuple(chosen), note, control_plane)
        finally:
            note("removing what the benchmark created")
            for name in natives:
                host.delete("Namespace", name)
            if not keep:
                with ThreadPoolExecutor(4) as pool:
                    list(pool.map(lambda name: tenants.remove(host, name, seconds=300), _there(host, chosen)))
                host.delete("TenantClass", _CLASS)
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
            if condition_of(host.get("Node", name), "Ready").get("status") != "True":
                raise NotYetError(f"{name} is not Ready")

    until("the simulated nodes to be Ready", ready, seconds=60)


def _there(host: Api, chosen: Sequence[str]) -> list[str]:
    return [name for name in chosen if host.find("Tenant", name) is not None]


def _planes(
    chosen: Sequence[str], note: Note, control_plane: Mapping[str, Any] | None, remark: str = ""
) -> list[tuple[str, Path]]:
    host = machine.host_api()
    missing = sorted(set(chosen) - set(_there(host, chosen)))
    if missing:
        note(f"making {len(missing)} tenants{remark}")
    _class(host)
    many: dict[str, Any] = {"controlPlane": dict(control_plane)} if control_plane else {}
    for name in missing:
        host.create(tenants.manifest(name, gpus=0, tenant_class=_CLASS, **many))
    tenants.wait_ready(host, list(chosen), seconds=120 + 20.0 * len(chosen))
    opened = [tenants.open_tenant(name) for name in chosen]
    for tenant in opened:
        if tenant.api.find("Namespace", NAMESPACE) is None:
            tenants.make_namespace(tenant.api, NAMESPACE)
    return [(tenant.name, tenant.kubeconfig) for tenant in opened]


def _class(host: Api) -> None:
    standard = next(obj for obj in install.example_objects() if obj["kind"] == "TenantClass")
    quota = standard["spec"]["quota"]
    spec = standard["spec"] | {"quota": quota | {"objects": quota["objects"] | _OBJECTS}}
    host.apply(standard | {"metadata": {"name": _CLASS}, "spec": spec})


def work_namespace(tenant: str) -> str:
    return names.work_namespace(tenant)
