"""The names under which a plane is reached from outside the host: from Tenant, class and installation to its `Exposure`. Pure.

Names are `<tenant>.<domain>` and names below that, in domains of the installation, none of which is below another. So a name
alone shows its tenant, and tenants never have to be compared.
"""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, Final

from bulkhead.api.exposure import MOST_HOSTNAMES
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mappings, text
from controller.existing import Existing, Slot
from controller.plane.spec import PUBLIC
from controller.plane.ways import Balancer, Exposure, Gateway
from controller.sections import section_of, text_or_none
from controller.settings import Settings

_MAX_ADDRESSES: Final = 8
_FORMER_NONE: Final = "ClusterIP"
_LABEL: Final = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")


def default_type(offer: Mapping[str, Any], domains: tuple[str, ...], *, has_proxy: bool) -> str:
    """The exposure of a class's tenants that set none."""
    given = text_or_none(offer, "type")
    if given:
        return "None" if given == _FORMER_NONE else given
    return "Proxy" if has_proxy and domain_of(offer, domains) else "None"


def domain_of(offer: Mapping[str, Any], domains: tuple[str, ...]) -> str:
    """The domain of a class; empty if it has none, or one that is not the installation's."""
    wanted = text_or_none(offer, "domain")
    if wanted is None:
        return domains[0] if domains else ""
    return wanted if wanted in domains else ""


def exposure_of(tenant: Obj, offer: Mapping[str, Any], settings: Settings, existing: Existing, namespace: str) -> Exposure:
    """The exposure of an admitted Tenant."""
    asked, own = section_of(section_of(tenant, "spec"), "exposure"), section_of(offer, "exposure")
    domains = settings.exposure_domains
    kind = text_or_none(asked, "type") or default_type(own, domains, has_proxy=bool(settings.exposure_proxy))
    if kind == "None":
        return Exposure()
    domain = domain_of(own, domains)
    first = [f"{tenant['metadata']['name']}.{domain}"] if domain else []
    # A TLSRoute accepts exactly this many.
    most = MOST_HOSTNAMES if kind == "Gateway" else MOST_HOSTNAMES + 1
    hostnames = tuple(dict.fromkeys([*first, *(asked.get("hostnames") or ())]))[:most]
    if kind == "LoadBalancer":
        found = existing.get(Slot("Service", namespace, PUBLIC), {})
        return Exposure(kind, hostnames, addresses=addresses_of(found), balancer=_balancer(settings))
    if not domain:
        return Exposure(kind, unmet=_no_domain(own, domains))
    return _proxied(hostnames, settings) if kind == "Proxy" else _routed(hostnames, own, settings)


def _balancer(settings: Settings) -> Balancer:
    return Balancer(
        tuple(settings.load_balancer_annotations.items()),
        settings.exposure_load_balancer_class,
        settings.exposure_load_balancer_sources,
    )


def _proxied(hostnames: tuple[str, ...], settings: Settings) -> Exposure:
    if not settings.exposure_proxy:
        return Exposure("Proxy", unmet="there is no proxy: exposure.proxy.enabled is false in the chart's values")
    return Exposure("Proxy", hostnames, server=settings.exposure_proxy_address, port=settings.exposure_proxy_port)


def _routed(hostnames: tuple[str, ...], own: Mapping[str, Any], settings: Settings) -> Exposure:
    gateway = _gateway(section_of(own, "gateway"), settings)
    if gateway is None:
        return Exposure("Gateway", unmet="neither the class nor the chart's values (exposure.gateway) name a Gateway")
    return Exposure("Gateway", hostnames, port=settings.exposure_gateway_port, gateway=gateway)


def addresses_of(service: Obj) -> tuple[str, ...]:
    """The addresses and names that the host's load balancer reports; some report both for one address."""
    listed = mappings(section_of(section_of(service, "status"), "loadBalancer").get("ingress"))
    found = [text(entry.get(part)) for entry in listed for part in ("ip", "hostname")]
    return tuple(address for address in dict.fromkeys(found) if _usable(address))[:_MAX_ADDRESSES]


def _gateway(own: Mapping[str, Any], settings: Settings) -> Gateway | None:
    if own:
        return Gateway(str(own.get("namespace")), str(own.get("name")), text_or_none(own, "sectionName") or "")
    parts = settings.exposure_gateway.split("/")
    return Gateway(parts[0], parts[1], parts[2] if len(parts) > 2 else "") if len(parts) > 1 else None


def _no_domain(own: Mapping[str, Any], domains: tuple[str, ...]) -> str:
    wanted = text_or_none(own, "domain")
    if wanted is None:
        return "there is no domain: set exposure.domains in the chart's values"
    return f"the class's domain {wanted} is not one of exposure.domains in the chart's values: {', '.join(domains) or 'none'}"


def _usable(address: str) -> bool:
    """Whether it is an address that clients can reach, or a name that a certificate may contain."""
    try:
        found = ip_address(address)
    except ValueError:
        return len(address) <= 253 and _NAME.fullmatch(address) is not None
    return not (found.is_loopback or found.is_unspecified or found.is_multicast or getattr(found, "scope_id", None))
