"""Network policies of a plane and its work namespace: everything is denied, then each component gets what it needs.

The plane may reach its own workloads (webhooks, aggregated APIs) and the kubelet shim, and nothing of the host; otherwise
tenants could use their API server to send requests into the host's network. Workloads reach each other, their own API server
and their own DNS, and outside the cluster what the class allows; the host itself never counts as outside.
"""

import json
from collections.abc import Iterator
from typing import Final

from bulkhead.api.objects import Obj
from controller.plane.addresses import (
    LINK,
    PODS,
    RECEIVERS,
    REGISTRY,
    SERVICES,
    SLICES,
    STORAGE,
    Network,
    block,
    closed,
    contains,
    holder,
    network,
    only_named,
)
from controller.plane.parts import metadata
from controller.plane.spec import (
    API_PORT,
    DNS,
    DNS_PORT,
    ETCD_HTTP_PORT,
    ETCD_PEER_PORT,
    GPU_METRICS_COMPONENT,
    GPU_METRICS_PORT,
    GPU_METRICS_SOURCE_PORT,
    ISSUERS_PORT,
    PLANE,
    SHIM_PORT,
    SYNCER,
    SYNCER_HTTP_PORT,
    PlaneSpec,
)
from controller.plane.trail import Receiver

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_MAX_PEERS: Final = 16
_PEER: Final = frozenset({"namespaceSelector", "podSelector", "ipBlock"})


def peers(text: str) -> tuple[Obj, ...]:
    """The NetworkPolicy peers that a setting gives as a JSON list. Raises ValueError if one is malformed."""
    found = json.loads(text or "[]")
    if not isinstance(found, list) or len(found) > _MAX_PEERS:
        raise ValueError(f"must be a list of at most {_MAX_PEERS} peers")
    for peer in found:
        if (
            not isinstance(peer, dict)
            or not peer
            or not peer.keys() <= _PEER
            or not all(isinstance(part, dict) for part in peer.values())
        ):
            raise ValueError(f"a peer must be an object with {', '.join(sorted(_PEER))}, not {json.dumps(peer)[:100]}")
    return tuple(found)


COMPONENT_LABEL = "app.kubernetes.io/component"  # the label of the chart's own pods


def policies(spec: PlaneSpec) -> list[Obj]:
    """Every NetworkPolicy of a tenant, plane namespace first."""
    return [
        _deny(spec, spec.namespace),
        _plane(spec),
        _syncer(spec),
        _dns(spec),
        _deny(spec, spec.work_namespace),
        *_workloads(spec),
    ]


def _plane(spec: PlaneSpec) -> Obj:
    platform = _namespace(spec.installation.system_namespace)
    controller = platform | {"podSelector": {"matchLabels": {COMPONENT_LABEL: "controller"}}}
    callers = [
        _pods(spec, SYNCER),
        _pods(spec, DNS),
        _namespace(spec.work_namespace),
        controller,
        *(_clients(spec, cidr) for cidr in spec.installation.client_cidrs),
        *_ways_in(spec),
    ]
    ingress: list[Obj] = [{"from": callers, "ports": [_tcp(API_PORT)]}]
    ingress.append({"from": [controller], "ports": [_tcp(ETCD_HTTP_PORT)]})
    served = [_tcp(port) for port in _served(spec)]
    egress: list[Obj] = [{"to": [_pods(spec, SYNCER)], "ports": served}, {"to": [_namespace(spec.work_namespace)]}]
    if spec.control_plane.replicas > 1:
        ingress.append({"from": [_pods(spec, PLANE)], "ports": [_tcp(ETCD_PEER_PORT)]})
        egress.append({"to": [_pods(spec, PLANE)], "ports": [_tcp(ETCD_PEER_PORT), _tcp(API_PORT)]})
        egress += _cluster_dns(spec)
    receiver = spec.audit.receiver if spec.audit is not None else None
    if receiver is not None and not receiver_closed(spec):
        egress.append({"to": [_receiver(receiver)], "ports": [_tcp(receiver.port)]})
    return _policy(spec, (spec.namespace, "allow-plane"), _component(spec, PLANE), ingress, egress)


def receiver_closed(spec: PlaneSpec) -> str:
    """Why a plane may not reach the receiver of its audit trail; empty if it may, or if there is none.

    Through a webhook a tenant reaches whatever its plane reaches, so this is never the host itself, whatever the class says.
    """
    receiver = spec.audit.receiver if spec.audit is not None else None
    if receiver is None:
        return ""
    if receiver.namespace:
        own = receiver.namespace in {spec.installation.system_namespace, spec.namespace, spec.work_namespace}
        return f"namespace {receiver.namespace} belongs to Bulkhead" if own else ""
    # Receivers are closed to tenants' pods, and may be on a machine with other closed servers.
    host = [range_ for range_ in spec.network.reserved if range_.what not in {RECEIVERS, STORAGE, REGISTRY}]
    taken = block(receiver.address, closed(host)) is None
    if not taken and not contains(receiver.address, spec.network.pod_addresses):
        return ""
    range_ = holder(receiver.address, host)
    where = f"is inside {range_.cidr}, {range_.what}" if range_ is not None else "is an address of the host, or leads to one"
    return f"{receiver.address} {where}; for a receiver on the host, set its namespace in the class"


def _receiver(receiver: Receiver) -> Obj:
    if receiver.namespace:
        return _namespace(receiver.namespace)
    return {"ipBlock": {"cidr": str(network(receiver.address))}}


def _ways_in(spec: PlaneSpec) -> Iterator[Obj]:
    """The sources that forward to an exposed plane: the proxy, a load balancer's clients, a Gateway's pods."""
    exposure = spec.exposure
    if exposure.type == "Proxy" and exposure.hostnames:
        yield _namespace(spec.installation.system_namespace) | {"podSelector": {"matchLabels": {COMPONENT_LABEL: "proxy"}}}
    if exposure.type == "LoadBalancer" and exposure.balancer is not None:
        yield from (_clients(spec, cidr) for cidr in exposure.balancer.source_ranges or ("0.0.0.0/0",))
    if exposure.type == "Gateway" and exposure.gateway is not None:
        yield _namespace(exposure.gateway.namespace)


def _syncer(spec: PlaneSpec) -> Obj:
    platform, gpus = _namespace(spec.installation.system_namespace), spec.installation.gpu_metrics
    ingress = [
        {"from": [_pods(spec, PLANE)], "ports": [_tcp(port) for port in _served(spec)]},
        {"from": [platform, *spec.installation.metrics_from], "ports": [_tcp(SYNCER_HTTP_PORT)]},
        *([{"from": [_namespace(spec.work_namespace)], "ports": [_tcp(GPU_METRICS_PORT)]}] if gpus else []),
    ]
    egress: list[Obj] = [{"to": [_pods(spec, PLANE)], "ports": [_tcp(API_PORT)]}]
    egress += _host_api(spec)
    tracing = spec.installation.tracing
    if tracing is not None:
        egress.append({"to": [_namespace(tracing.namespace)], "ports": [_tcp(tracing.port)]})
    if gpus:
        source = platform | {"podSelector": {"matchLabels": {COMPONENT_LABEL: GPU_METRICS_COMPONENT}}}
        egress.append({"to": [source], "ports": [_tcp(GPU_METRICS_SOURCE_PORT)]})
    if gpus or tracing is not None:
        egress += _cluster_dns(spec)
    return _policy(spec, (spec.namespace, "allow-syncer"), _component(spec, SYNCER), ingress, egress)


def _host_api(spec: PlaneSpec) -> list[Obj]:
    """The egress to the host's API server; by ports only if the network plugin accepts no addresses of nodes."""
    servers = spec.installation.host_api
    if spec.installation.host_api_anywhere:
        return [{"ports": [_tcp(port)]} for port in sorted({port for _, port in servers})]
    return [{"to": [{"ipBlock": {"cidr": str(network(address))}}], "ports": [_tcp(port)]} for address, port in servers]


def _served(spec: PlaneSpec) -> tuple[int, ...]:
    """The ports at which the syncer serves the API server."""
    return (SHIM_PORT, ISSUERS_PORT) if spec.access.issuers else (SHIM_PORT,)


def _dns(spec: PlaneSpec) -> Obj:
    ports = [_udp(DNS_PORT), _tcp(DNS_PORT)]
    ingress: list[Obj] = [{"from": [_namespace(spec.work_namespace)], "ports": ports}]
    egress: list[Obj] = [{"to": [_pods(spec, PLANE)], "ports": [_tcp(API_PORT)]}]
    if spec.installation.dns_upstreams:
        egress.append({"to": list(_resolvers(spec)), "ports": [_udp(53), _tcp(53)]})
    return _policy(spec, (spec.namespace, "allow-dns"), _component(spec, DNS), ingress, egress)


def _workloads(spec: PlaneSpec) -> list[Obj]:
    own: Obj = {"podSelector": {}}
    plane = _namespace(spec.namespace) | _pods(spec, PLANE)
    dns = _namespace(spec.namespace) | _pods(spec, DNS)
    platform: list[Obj] = [
        {"to": [plane], "ports": [_tcp(API_PORT)]},
        {"to": [dns], "ports": [_udp(DNS_PORT), _tcp(DNS_PORT)]},
    ]
    if spec.installation.gpu_metrics:
        platform.append({"to": [_namespace(spec.namespace) | _pods(spec, SYNCER)], "ports": [_tcp(GPU_METRICS_PORT)]})
    outward: list[Obj] = [{"to": [own]}, *({"to": [found]} for _, found, _ in _outside(spec) if found)]
    controllers = [_namespace(name) for name in spec.offers.ingress_controllers] if spec.offers.ingress else []
    published = [_one_way(spec, "allow-ingress-controllers", "Ingress", [{"from": controllers}])] if controllers else []
    return [
        _policy(spec, (spec.work_namespace, "allow-tenant"), {}, [{"from": [plane]}], platform),
        _one_way(spec, "allow-tenant-ingress", "Ingress", [{"from": [own]}]),
        _one_way(spec, "allow-tenant-egress", "Egress", outward),
        *published,
    ]


def withheld(spec: PlaneSpec) -> list[str]:
    """The egress CIDRs that are not opened, and why."""
    return [f"{cidr} {why}" for cidr, found, why in _outside(spec) if not found]


def left_open(spec: PlaneSpec) -> tuple[str, ...]:
    """Servers of the host that the egress CIDRs may open, because their addresses are unknown."""
    return only_named(spec.network.reserved) if any(found for _, found, _ in _outside(spec)) else ()


def _outside(spec: PlaneSpec) -> Iterator[tuple[str, Obj | None, str]]:
    """Each egress CIDR with the rest of it outside the host's ranges, or why nothing is left."""
    asked = spec.network
    kept = closed(asked.reserved, asked.reach_reserved)
    known = [range_.cidr for range_ in asked.reserved]
    # An unknown range cannot be taken out. Where one pod has an address, others do as well.
    stray = next((address for address in asked.pod_addresses if not contains(address, known)), None)
    for cidr in asked.egress_cidrs:
        found, range_ = block(cidr, kept), holder(cidr, asked.reserved)
        if stray is not None and contains(stray, [cidr]):
            lacking = "and chart value podNetworks does not list its range"
            yield cidr, None, f"is not opened: it holds {stray}, the address of a pod, {lacking}"
        else:
            yield cidr, found, f"is inside {range_.cidr}, {range_.what}" if range_ else "must be a network such as 10.0.0.0/8"


def _resolvers(spec: PlaneSpec) -> Iterator[Obj]:
    """The egress of the tenant's DNS, at port 53: to the configured addresses, else to wherever the node's resolvers are.

    The node's resolvers may be nodes, but are neither pods nor Services. A configured address may be any.
    """
    given = [network(upstream) for upstream in spec.installation.dns_upstreams]
    yield from ({"ipBlock": {"cidr": str(address)}} for address in given if address is not None)
    if None in given:
        kept = (range_ for range_ in spec.network.reserved if range_.what in {LINK, SERVICES, SLICES, PODS})
        anywhere = block("0.0.0.0/0", closed(kept))
        yield from [anywhere] if anywhere else []


def _clients(spec: PlaneSpec, cidr: str) -> Obj:
    """A network of users: it does not include pods, unless it consists of pods only."""
    pods: tuple[Network, ...] = closed(range_ for range_ in spec.network.reserved if range_.what == PODS)
    return block(cidr, pods) or {"ipBlock": {"cidr": cidr}}


def _one_way(spec: PlaneSpec, name: str, way: str, rules: list[Obj]) -> Obj:
    """Traffic among workloads, except those that a NetworkPolicy of the tenant has isolated."""
    isolated = {"key": f"bulkhead.dev/{way.lower()}-isolated", "operator": "DoesNotExist"}
    policy = _policy(spec, (spec.work_namespace, name), {"matchExpressions": [isolated]}, [], [])
    policy["spec"] |= {"policyTypes": [way], way.lower(): rules}
    return policy


def _deny(spec: PlaneSpec, namespace: str) -> Obj:
    return _policy(spec, (namespace, "default-deny"), {}, [], [])


def _policy(spec: PlaneSpec, where: tuple[str, str], selector: Obj, ingress: list[Obj], egress: list[Obj]) -> Obj:
    namespace, name = where
    rules: Obj = {"podSelector": selector, "policyTypes": ["Ingress", "Egress"]}
    if ingress:
        rules["ingress"] = ingress
    if egress:
        rules["egress"] = egress
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(spec, name, namespace=namespace),
        "spec": rules,
    }


def _component(spec: PlaneSpec, component: str) -> Obj:
    return {"matchLabels": metadata(spec, component, component=component)["labels"]}


def _pods(spec: PlaneSpec, component: str) -> Obj:
    return {"podSelector": _component(spec, component)}


def _namespace(name: str) -> Obj:
    return {"namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: name}}}


def _cluster_dns(spec: PlaneSpec) -> list[Obj]:
    """The egress to the host's DNS. To pods at any port: a policy sees the pod's port, which need not be the Service's port 53.

    At an address may be more than DNS: 169.254.169.254 is Google's resolver, and gives out a node's credentials at port 80.
    """
    pods = [peer for peer in spec.installation.cluster_dns if "ipBlock" not in peer]
    addresses = [peer for peer in spec.installation.cluster_dns if "ipBlock" in peer]
    # A rule with an empty list of peers would open every address.
    return [{"to": pods}] * bool(pods) + [{"to": addresses, "ports": [_udp(53), _tcp(53)]}] * bool(addresses)


def _tcp(port: int) -> Obj:
    return {"protocol": "TCP", "port": port}


def _udp(port: int) -> Obj:
    return {"protocol": "UDP", "port": port}
