"""The environment variables by which a pod finds a Service, as a kubelet sets them.

The syncer writes those of a tenant's Services into host pods; those of the tenant's API are the same for all its pods, so the
controller keeps them in one ConfigMap of the work namespace, which host pods name (docs/decisions/0012). Pure.
"""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_HTTPS: Final = 443


@dataclass(frozen=True, slots=True)
class ServicePort:
    """A port of a Service."""

    name: str
    port: int
    protocol: str = "TCP"


@dataclass(frozen=True, slots=True)
class ServiceEnv:
    """A Service with a ClusterIP."""

    name: str
    cluster_ip: str
    ports: tuple[ServicePort, ...] = ()


def of_service(service: ServiceEnv) -> dict[str, str]:
    """The variables of one Service; none without a port or an address."""
    return dict(_variables(service)) if service.ports and _is_address(service.cluster_ip) else {}


def of_api(address: str) -> dict[str, str]:
    """The variables of the API server at `address` (`KUBERNETES_…`)."""
    return of_service(ServiceEnv("kubernetes", address, (ServicePort("https", _HTTPS),)))


def _variables(service: ServiceEnv) -> Iterator[tuple[str, str]]:
    prefix = service.name.upper().replace("-", "_")
    address = service.cluster_ip
    in_url = f"[{address}]" if ":" in address else address
    first = service.ports[0]
    yield f"{prefix}_SERVICE_HOST", address
    yield f"{prefix}_SERVICE_PORT", str(first.port)
    for port in service.ports:
        if port.name:
            yield f"{prefix}_SERVICE_PORT_{port.name.upper().replace('-', '_')}", str(port.port)
    yield f"{prefix}_PORT", f"{first.protocol.lower()}://{in_url}:{first.port}"
    for port in service.ports:
        stem = f"{prefix}_PORT_{port.port}_{port.protocol.upper()}"
        yield stem, f"{port.protocol.lower()}://{in_url}:{port.port}"
        yield f"{stem}_PROTO", port.protocol.lower()
        yield f"{stem}_PORT", str(port.port)
        yield f"{stem}_ADDR", address


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True
