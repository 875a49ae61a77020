"""The ways into a tenant's plane, as `PlaneSpec` holds them: whom it trusts, where it is reached from outside. Data alone."""

from dataclasses import dataclass
from ipaddress import ip_address

from bulkhead.api.providers import Provider


@dataclass(frozen=True, slots=True)
class Trusted:
    """An identity provider of the tenant, and what is known of it."""

    provider: Provider
    keys: str = ""  # its public keys, a JSON Web Key Set; empty: never seen
    trouble: str = ""  # why it does not answer, and what to do
    asked: bool = True


@dataclass(frozen=True, slots=True)
class Revoked:
    """A user or group whose tokens do not count, or none that were issued before a moment (seconds since 1970)."""

    kind: str
    name: str
    before: int | None = None


@dataclass(frozen=True, slots=True)
class Balancer:
    """What the Service of a load balancer says, besides its port."""

    annotations: tuple[tuple[str, str], ...] = ()
    class_name: str = ""
    source_ranges: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gateway:
    """A Gateway of the host, and which of its listeners."""

    namespace: str
    name: str
    section: str = ""


@dataclass(frozen=True, slots=True)
class Exposure:
    """How the API server is reached from outside of the host."""

    type: str = "None"
    hostnames: tuple[str, ...] = ()  # the first is where it is, unless the server is given
    server: str = ""  # where the names lead, for clients that cannot look them up
    port: int = 443
    addresses: tuple[str, ...] = ()  # of the load balancer: addresses or names
    balancer: Balancer | None = None
    gateway: Gateway | None = None
    route_version: str = ""  # in which the host serves TLSRoutes; empty where it does not
    unmet: str = ""  # why it is not exposed, where something is missing

    @property
    def names(self) -> tuple[str, ...]:
        """What stands in the certificate as names."""
        return (*self.hostnames, *(address for address in self.addresses if not _is_address(address)))

    @property
    def certified_addresses(self) -> tuple[str, ...]:
        """What stands there as addresses, as certificates write them."""
        given = (*self.addresses, self.server)
        return tuple(dict.fromkeys(str(ip_address(address)) for address in given if _is_address(address)))

    @property
    def host(self) -> str:
        """Where clients go; empty while there is no place."""
        if self.type == "LoadBalancer":
            return next(iter(self.addresses), "")
        return self.server or next(iter(self.hostnames), "")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
