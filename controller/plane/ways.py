"""How clients get into a tenant's plane, as `PlaneSpec` holds it: trusted identity providers and exposure. Data only."""

from dataclasses import dataclass
from ipaddress import ip_address

from bulkhead.api.providers import Provider


@dataclass(frozen=True, slots=True)
class Trusted:
    """An identity provider of the tenant, and what is known about it."""

    provider: Provider
    keys: str = ""  # its public keys, a JSON Web Key Set; empty: never fetched
    trouble: str = ""  # why it does not answer, and what to do
    asked: bool = True


@dataclass(frozen=True, slots=True)
class Revoked:
    """A user or group whose tokens are refused, or only those issued before a moment (seconds since 1970)."""

    kind: str
    name: str
    before: int | None = None


@dataclass(frozen=True, slots=True)
class Balancer:
    """The settings of the Service of a load balancer, except its port."""

    annotations: tuple[tuple[str, str], ...] = ()
    class_name: str = ""
    source_ranges: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gateway:
    """A Gateway of the host, and one of its listeners."""

    namespace: str
    name: str
    section: str = ""


@dataclass(frozen=True, slots=True)
class Exposure:
    """How the API server is reached from outside the host."""

    type: str = "None"
    hostnames: tuple[str, ...] = ()  # clients use the first, unless `server` is set
    server: str = ""  # the address behind the names, for clients that cannot look them up
    port: int = 443
    addresses: tuple[str, ...] = ()  # of the load balancer: addresses or names
    balancer: Balancer | None = None
    gateway: Gateway | None = None
    route_version: str = ""  # the version in which the host serves TLSRoutes; empty if it serves none
    unmet: str = ""  # why it is not exposed, if something is missing

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the certificate."""
        return (*self.hostnames, *(address for address in self.addresses if not _is_address(address)))

    @property
    def certified_addresses(self) -> tuple[str, ...]:
        """The addresses in the certificate, in the form that certificates use."""
        given = (*self.addresses, self.server)
        return tuple(dict.fromkeys(str(ip_address(address)) for address in given if _is_address(address)))

    @property
    def host(self) -> str:
        """The host that clients connect to; empty if there is none yet."""
        if self.type == "LoadBalancer":
            return next(iter(self.addresses), "")
        return self.server or next(iter(self.hostnames), "")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
