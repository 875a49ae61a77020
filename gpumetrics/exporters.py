"""Where the exporters are: one address for each node, from the EndpointSlices of their Service. Pure."""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Any, NamedTuple

from bulkhead.api.untrusted import mapping, mappings, sequence, text


class Exporter(NamedTuple):
    """An exporter of one node."""

    node: str
    address: str
    port: int

    @property
    def url(self) -> str:
        """Its page."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}/metrics"


def exporters(slices: Iterable[Mapping[str, Any]], port: int = 0) -> dict[str, Exporter]:
    """One exporter for each node: of several the least, so that the choice stays. `port` 0 takes the slice's first port."""
    found: dict[str, Exporter] = {}
    for slice_ in slices:
        chosen = port or _port(slice_)
        for endpoint in mappings(slice_.get("endpoints")) if chosen else ():
            node = text(endpoint.get("nodeName"))
            address = next((a for a in map(text, sequence(endpoint.get("addresses"))) if _is_address(a)), "")
            if node and address and mapping(endpoint.get("conditions")).get("ready") is not False:
                exporter = Exporter(node, address, chosen)
                found[node] = min(found.get(node, exporter), exporter)
    return found


def _port(slice_: Mapping[str, Any]) -> int:
    ports = (port.get("port") for port in mappings(slice_.get("ports")))
    return next((port for port in ports if isinstance(port, int) and 0 < port < 65536), 0)


def _is_address(value: str) -> bool:
    try:
        return not ip_address(value).is_loopback
    except ValueError:
        return False
