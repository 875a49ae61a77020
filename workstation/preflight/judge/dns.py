"""Whether the cluster's DNS is where the network policies of `networkPolicy.dns` expect it. Pure.

Known by the labels of its pods. One in the network of its node is a cache (NodeLocal DNSCache): policies match it by no label,
and it answers at a link-local address and at that of Service `kube-dns`.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address, ip_network
from typing import Any, Final

from bulkhead.api import labels as marks
from bulkhead.api.untrusted import mapping, sequence, text
from workstation.preflight.facts import Observed, need
from workstation.preflight.findings import Finding, ok, warning
from workstation.preflight.judge.existing import selects
from workstation.preflight.values import Values

_NAMESPACE: Final = "kubernetes.io/metadata.name"
_OPENSHIFT: Final = "dns.operator.openshift.io/daemonset-dns"
# Labels by which distributions mark the pods of their DNS; None: any value.
_MARKS: Final[Mapping[str, frozenset[str] | None]] = {
    "k8s-app": frozenset({"kube-dns", "coredns", "core-dns", "node-local-dns", "nodelocaldns"}),
    "app.kubernetes.io/name": frozenset({"coredns", "node-local-dns"}),
    _OPENSHIFT: None,
}
_SYSTEM: Final = ("kube-", "openshift-")  # prefixes of namespaces in which such a pod is the cluster's own
_CACHE: Final = "169.254.20.10"
_NEEDED: Final = "planes of three members need it, and identity providers, snapshots, metrics of GPUs and traces"


def reachable(observed: Observed, values: Values) -> Finding:
    """The pods of the cluster's DNS that no peer matches, and addresses of its caches that no peer has."""
    services = need(observed, "dns service")
    servers = [pod for pod in need(observed, "pods") if _mark(pod) is not None]
    if not servers:
        cure = "find where pods' names are resolved, and list it in networkPolicy.dns: an address as {ipBlock: {cidr: …/32}}"
        return warning(f"no pod of the cluster's DNS was found in kube-* or openshift-*; {_NEEDED}", cure)
    caches = [pod for pod in servers if mapping(pod.get("spec")).get("hostNetwork") is True]
    apart = [pod for pod in servers if pod not in caches and not any(_selected(peer, pod) for peer in values.dns)]
    wanted = [_CACHE, *_service(services)] if caches else []
    closed = [address for address in wanted if not _listed(address, values.dns)]
    if not apart and not closed:
        return ok(f"networkPolicy.dns opens the way to {_names(servers)}")
    lacking = [*dict.fromkeys(_peer(pod) for pod in apart), *(f"{{ipBlock: {{cidr: {address}/32}}}}" for address in closed)]
    where = [f"pod {_place(pod)}: matched by no peer" for pod in apart]
    where += [f"{address}: a cache on the nodes ({_names(caches)}) answers there" for address in closed]
    return warning(
        f"the cluster's DNS is not where the policies expect it; {_NEEDED}",
        f"add to networkPolicy.dns, beside what it has by default: {', '.join(lacking)}",
        where,
    )


def _mark(pod: Mapping[str, Any]) -> tuple[str, str] | None:
    """The label by which a pod is one of the cluster's DNS; None if it is not."""
    labels = _labels(pod)
    if marks.TENANT in labels or not _namespace(pod).startswith(_SYSTEM):
        return None
    marked = ((key, text(labels.get(key))) for key in _MARKS if key in labels)
    return next(((key, value) for key, value in marked if value in (_MARKS[key] or {value})), None)


def _selected(peer: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    """Whether a peer with selectors matches a pod; one without a namespace selector means the policy's own namespace."""
    spaces = peer.get("namespaceSelector")
    if not isinstance(spaces, Mapping):
        return False
    return selects(spaces, {_NAMESPACE: _namespace(pod)}) and selects(mapping(peer.get("podSelector")), _labels(pod))


def _service(services: Iterable[Mapping[str, Any]]) -> list[str]:
    found = (mapping(service.get("spec")).get("clusterIP") for service in services if _namespace(service).startswith(_SYSTEM))
    return [address for address in map(text, found) if _address(address)]


def _listed(address: str, peers: Iterable[Mapping[str, Any]]) -> bool:
    for peer in peers:
        block = mapping(peer.get("ipBlock"))
        try:
            inside = ip_address(address) in ip_network(text(block.get("cidr")), strict=False)
            kept = any(
                ip_address(address) in ip_network(text(cidr), strict=False) for cidr in sequence(block.get("except"))[:64]
            )
        except ValueError:
            continue
        if inside and not kept:
            return True
    return False


def _address(given: str) -> bool:
    try:
        ip_address(given)
    except ValueError:
        return False
    return True


def _peer(pod: Mapping[str, Any]) -> str:
    key, value = _mark(pod) or ("", "")
    space = f"namespaceSelector: {{matchLabels: {{{_NAMESPACE}: {_namespace(pod)}}}}}"
    return f"{{{space}, podSelector: {{matchLabels: {{{key}: {value}}}}}}}"


def _names(pods: Iterable[Mapping[str, Any]]) -> str:
    """What these pods belong to, each kind once."""
    found = dict.fromkeys(f"{_namespace(pod)}/{(_mark(pod) or ('', ''))[1]}" for pod in pods)
    return ", ".join(list(found)[:8])


def _place(pod: Mapping[str, Any]) -> str:
    return f"{_namespace(pod)}/{text(mapping(pod.get('metadata')).get('name'))}"


def _namespace(found: Mapping[str, Any]) -> str:
    return text(mapping(found.get("metadata")).get("namespace"))


def _labels(found: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): text(value) for key, value in mapping(mapping(found.get("metadata")).get("labels")).items()}
