"""Which name leads to which plane: from the Services that the controller marks, each judged by itself. Pure.

A Service that is malformed, or claims what another has, is left out and named; it takes nothing from the others.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Any, Final

from bulkhead.api import labels, names
from bulkhead.api.untrusted import mapping

MOST_HOSTS: Final = 32
API_PORT: Final = 443  # of every plane's Service
_LABEL: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_HOST: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")


class MalformedError(ValueError):
    """A Service that cannot be a route; the text says why."""


@dataclass(frozen=True, slots=True, order=True)
class Route:
    """A tenant, its plane's address, and the names that lead there."""

    tenant: str
    target: str
    hosts: tuple[str, ...]
    port: int = API_PORT


@dataclass(frozen=True, slots=True)
class Routes:
    """Every route, and what was left out: a Service and why."""

    good: tuple[Route, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()


def routes(services: Iterable[dict[str, Any]]) -> Routes:
    """The routes of all Services. If two claim one name, the older Service gets it."""
    owners: dict[str, str] = {}
    good, left_out = [], []
    for service in sorted(services, key=_age):
        meta = mapping(service.get("metadata"))
        where = f"{meta.get('namespace')}/{meta.get('name')}"
        try:
            route = route_of(service)
        except MalformedError as error:
            left_out.append((where, str(error)))
            continue
        taken = [host for host in route.hosts if owners.setdefault(host, route.tenant) != route.tenant]
        left_out += [(where, f"{host} is {owners[host]}'s") for host in taken]
        good.append(replace(route, hosts=tuple(host for host in route.hosts if host not in taken)))
    return Routes(tuple(sorted(good)), tuple(left_out))


def route_of(service: dict[str, Any]) -> Route:
    """The route of one Service. Raises MalformedError."""
    meta = mapping(service.get("metadata"))
    own, notes = mapping(meta.get("labels")), mapping(meta.get("annotations"))
    tenant = str(own.get(labels.TENANT) or "")
    try:
        namespace = names.plane_namespace(tenant)
    except names.InvalidTenantNameError as error:
        raise MalformedError(str(error)) from error
    # Only the controller writes this Service there; a syncer may not write any in a plane's namespace.
    if (meta.get("namespace"), meta.get("name")) != (namespace, names.PROXY_ROUTE):
        raise MalformedError(f"is not {namespace}/{names.PROXY_ROUTE}")
    hosts = tuple(dict.fromkeys(_hosts(str(notes.get(labels.PROXY_HOSTS) or ""))))
    try:
        target = ip_address(str(notes.get(labels.PROXY_TARGET) or ""))
    except ValueError as error:
        raise MalformedError(f"{labels.PROXY_TARGET}: {error}") from error
    if target.is_loopback or target.is_link_local or target.is_multicast or target.is_unspecified:
        raise MalformedError(f"{labels.PROXY_TARGET}: must be the address of a Service, not {target}")
    return Route(tenant, str(target), hosts)


def _hosts(text: str) -> Iterator[str]:
    listed = text.split(",")
    if len(listed) > MOST_HOSTS:
        raise MalformedError(f"{labels.PROXY_HOSTS}: {len(listed)} names, more than {MOST_HOSTS}")
    for host in listed:
        if len(host) > 253 or not _HOST.fullmatch(host):
            raise MalformedError(f"{labels.PROXY_HOSTS}: must be host names, not {host[:80]!r}")
        yield host


def _age(service: dict[str, Any]) -> tuple[str, str]:
    meta = mapping(service.get("metadata"))
    return str(meta.get("creationTimestamp") or "9999"), str(meta.get("namespace"))
