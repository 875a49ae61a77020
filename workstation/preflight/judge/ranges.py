"""Address ranges: tenants' services need addresses that are not in use. Pure."""

import ipaddress
from collections.abc import Iterator
from typing import TypeAlias

from bulkhead.api.labels import MANAGED_BY, MANAGED_BY_BULKHEAD
from bulkhead.api.untrusted import mapping, mappings, sequence, text
from workstation.preflight.facts import Obj, Observed, Unseen, need
from workstation.preflight.findings import Finding, failed, ok, skipped, warning
from workstation.preflight.values import Values

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_POD_PREFIX = {4: 24, 6: 64}
_CURE = "choose another services.range: an unused IPv4 range, such as a free /12 to /16 of 10.0.0.0/8"


def overlap(observed: Observed, values: Values) -> Finding:
    """Compare services.range with everything that has an address."""
    range_ = network(values.service_range)
    if range_ is None or range_.version != 4:
        return failed(f"services.range must be an IPv4 network such as 10.64.0.0/12, not {values.service_range!r}", _CURE)
    if not range_.prefixlen <= values.slice_prefix <= 27:
        return failed(
            f"services.slicePrefix must be between {range_.prefixlen}, as in services.range, and 27, not {values.slice_prefix}",
            "a slice is a part of the range: with /12 and slicePrefix 22 there are 1,024 tenants",
        )
    met = [f"{what} ({found})" for what, found in _taken(observed, values) if found.version == 4 and found.overlaps(range_)]
    if met:
        return failed(f"services.range {range_} overlaps with {len(met)} others", _CURE, met)
    unread = [name for name in ("servicecidrs", "nodes", "pods") if isinstance(observed.lists.get(name, Unseen("")), Unseen)]
    if len(unread) == 3:
        return skipped(f"neither of {', '.join(unread)} can be read", "compare services.range with the host's ranges by hand")
    if unread:
        return warning(f"{range_} overlaps nothing that was read; not read: {', '.join(unread)}", "compare these by hand")
    return ok(f"{range_}: {1 << (values.slice_prefix - range_.prefixlen)} tenants of /{values.slice_prefix}")


def _taken(observed: Observed, values: Values) -> Iterator[tuple[str, Network]]:
    for listed in (values.pod_networks, values.reserved, values.clients):
        name = {id(values.pod_networks): "podNetworks", id(values.reserved): "reserved"}.get(id(listed), "planeClientCIDRs")
        yield from _named(name, listed)
    for range_object in _seen(observed, "servicecidrs"):
        if _label(range_object, MANAGED_BY) != MANAGED_BY_BULKHEAD:
            cidrs = [text(cidr) for cidr in sequence(mapping(range_object.get("spec")).get("cidrs"))]
            yield from _named(f"ServiceCIDR {_name(range_object)}", cidrs)
    for each in _seen(observed, "nodes"):
        yield from _named(f"podCIDR of node {_name(each)}", [text(cidr) for cidr in _pod_cidrs(each)])
        addresses = mappings(mapping(each.get("status")).get("addresses"), 16)
        yield from _named(f"address of node {_name(each)}", [text(address.get("address")) for address in addresses])
    for each in _seen(observed, "host api"):
        for endpoint in mappings(each.get("endpoints"), 64):
            yield from _named("address of the API server", [text(at) for at in sequence(endpoint.get("addresses"))])
    for each in _seen(observed, "pods"):
        yield from _named(f"address of pod {_place(each)}", list(_addresses(each)))


def pods(observed: Observed, values: Values) -> Finding:
    """Whether a podCIDR or podNetworks contain every pod's address: tenants can only be kept from known networks."""
    running = need(observed, "pods")
    nodes = need(observed, "nodes")
    known = [pod_network for _, pod_network in _named("", values.pod_networks)]
    known += [pod_network for node in nodes for _, pod_network in _named("", [text(cidr) for cidr in _pod_cidrs(node)])]
    stray: dict[Network, str] = {}
    for pod in running:
        if mapping(pod.get("spec")).get("hostNetwork") is True:
            continue
        for address in _addresses(pod):
            found = network(address)
            if found is not None and not any(found.version == each.version and found.subnet_of(each) for each in known):  # type: ignore[arg-type] # the versions are equal
                stray.setdefault(found.supernet(new_prefix=_POD_PREFIX[found.version]), _place(pod))
    if stray:
        shown = [f"{cidr}: pod {pod}" for cidr, pod in sorted(stray.items(), key=str)]
        return warning(
            "pods have addresses outside nodes' podCIDRs and podNetworks",
            "set podNetworks to the ranges of your network plugin: until then, tenants' wide egressCIDRs are not opened",
            shown,
        )
    return ok(f"{len(running)} pods, all inside {len(known)} known networks") if running else skipped("no pod is running")


def network(value: str) -> Network | None:
    """The network that a text names; an address counts as a network of one. None for other texts."""
    try:
        return ipaddress.ip_network(value, strict=False)
    except ValueError:
        return None


def _named(what: str, cidrs: tuple[str, ...] | list[str]) -> Iterator[tuple[str, Network]]:
    for each in cidrs:
        found = network(each)
        if found is not None:
            yield what, found


def _seen(observed: Observed, name: str) -> tuple[Obj, ...]:
    found = observed.lists.get(name, ())
    return () if isinstance(found, Unseen) else found


def _pod_cidrs(node: Obj) -> list[object]:
    spec = mapping(node.get("spec"))
    return sequence(spec.get("podCIDRs")) or [spec.get("podCIDR")]


def _addresses(pod: Obj) -> Iterator[str]:
    if mapping(pod.get("spec")).get("hostNetwork") is not True:
        yield from (text(address.get("ip")) for address in mappings(mapping(pod.get("status")).get("podIPs"), 4))


def _label(obj: Obj, key: str) -> str:
    return text(mapping(mapping(obj.get("metadata")).get("labels")).get(key))


def _name(obj: Obj) -> str:
    return text(mapping(obj.get("metadata")).get("name"))


def _place(obj: Obj) -> str:
    return f"{text(mapping(obj.get('metadata')).get('namespace'))}/{_name(obj)}"
