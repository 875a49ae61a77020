"""Endpoints of a tenant's Service without a selector: mirrored only where every address is one of the tenant's own pods.

Anything else would make the host's kube-proxy, and every ingress controller, a way to addresses that the network policies keep
from the tenant: other tenants' pods, nodes, metadata services, the loopback device. An address is a pod's from the moment its
status has it until the pod ends or is being deleted: from then on the host may give it to any other pod.

On the host every endpoint names the pod whose address it is, so that others can check it as well.

No quota counts slices, for the host makes some for each Service too. Every kube-proxy has all of them, and a tenant may name an
address as often as it likes: so all together have a bound, and the older ones come first.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from bulkhead.api.objects import Obj
from bulkhead.api.podphase import has_ended, placed_on
from bulkhead.api.untrusted import mapping, sequence, text
from syncer.translate import metadata, mirrored, schema
from syncer.translate.metadata import Identity
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.schema import FLAG, NAME, PORT, Dropped, ListOf, OneOf, Struct, Text, Translated
from syncer.translate.view import TenantView

KIND: Final = "EndpointSlice"
MANAGED_BY_SYNCER: Final = "syncer.bulkhead.dev"
MOST_ENDPOINTS: Final = 1000  # what an API server takes; the host's policy says the same
_MOST_PORTS: Final = 100
# Endpoints of all slices of a tenant together, each as often as its slice has ports: what a kube-proxy makes rules of.
MOST_OF_TENANT: Final = 20_000
_LEAST_WEIGHT: Final = 20  # of a slice that has next to nothing: it is an object nevertheless
_CONDITIONS: Final = Struct({"ready": FLAG, "serving": FLAG, "terminating": FLAG})
_TARGET: Final = Struct(
    {
        "kind": Text(63), "namespace": Text(63), "name": NAME, "uid": Text(128), "apiVersion": Text(253),
        "resourceVersion": Text(253), "fieldPath": Text(253),
    }
)  # fmt: skip

ENDPOINT_SLICE: Final = Struct(
    {
        "apiVersion": Dropped("fixed"),
        "kind": Dropped("fixed"),
        "metadata": Translated("metadata"),
        "addressType": OneOf(("IPv4", "IPv6"), Reason.NOT_ALLOWED),
        "endpoints": ListOf(
            Struct(
                {
                    "addresses": ListOf(Text(64), 100),
                    "conditions": _CONDITIONS,
                    "hostname": Text(63),
                    "targetRef": _TARGET,
                    "deprecatedTopology": Dropped("replaced by nodeName and zone"),
                    "nodeName": Dropped("the node of the pod"),
                    "zone": Text(253),
                    "hints": Dropped("the host's kube-proxy routes by its own"),
                }
            ),
            MOST_ENDPOINTS,
        ),
        "ports": ListOf(
            Struct({"name": Text(63), "protocol": OneOf(("", "TCP", "UDP", "SCTP")), "port": PORT, "appProtocol": Text(317)}),
            _MOST_PORTS,
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Holder:
    """A host pod of the tenant that holds an address, and the virtual pod that it is."""

    name: str
    uid: str
    node: str
    virtual: Identity


Holders = Mapping[str, tuple[Holder, ...]]
NOBODY: Final[Holders] = MappingProxyType({})


def held(host_pod: Obj, virtual: Identity) -> dict[str, Holder]:
    """The addresses that a host pod holds now; none once it has ended or is being deleted."""
    meta, status = mapping(host_pod.get("metadata")), mapping(host_pod.get("status"))
    spec = mapping(host_pod.get("spec"))
    if meta.get("deletionTimestamp") or has_ended(host_pod) or not placed_on(host_pod) or spec.get("hostNetwork"):
        return {}
    node = {text(mapping(host_ip).get("ip")) for host_ip in sequence(status.get("hostIPs"))} | {text(status.get("hostIP"))}
    found = {text(mapping(pod_ip).get("ip")) for pod_ip in sequence(status.get("podIPs"))} | {text(status.get("podIP"))}
    holder = Holder(text(meta.get("name")), text(meta.get("uid")), placed_on(host_pod), virtual)
    return dict.fromkeys(sorted(found - node - {""}), holder)


def addresses(anything: Obj) -> frozenset[str]:
    """Every address that a slice of either side names."""
    return frozenset(
        address
        for endpoint in sequence(anything.get("endpoints"))
        for address in sequence(mapping(endpoint).get("addresses"))
        if isinstance(address, str)
    )


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A slice among those of its tenant: the older ones come first."""

    created: str
    namespace: str
    name: str
    weight: int


def place(virtual: Obj) -> Place:
    """The place of a slice."""
    meta = mapping(virtual.get("metadata"))
    weight = len(sequence(virtual.get("endpoints"))) * max(1, len(sequence(virtual.get("ports"))))
    return Place(
        text(meta.get("creationTimestamp")), text(meta.get("namespace")), text(meta.get("name")), max(_LEAST_WEIGHT, weight)
    )


def beyond(places: Iterable[Place]) -> frozenset[tuple[str, str]]:
    """The namespaces and names of the slices for which a tenant's older ones leave no room."""
    total, found = 0, set[tuple[str, str]]()
    for place in sorted(places):
        if total + place.weight > MOST_OF_TENANT:
            found.add((place.namespace, place.name))
        else:
            total += place.weight
    return frozenset(found)


def check_room(virtual: Obj, without_room: Container[tuple[str, str]]) -> None:
    """Refuse a slice that is beyond what its tenant may have."""
    at = place(virtual)
    if (at.namespace, at.name) in without_room:
        message = f"all slices together have more than {MOST_OF_TENANT} endpoints and ports, and older ones come first"
        raise Untranslatable(Reason.TOO_LARGE, message, "endpoints")


def to_host(virtual: Obj, view: TenantView, holders: Holders = NOBODY) -> Obj:
    """The host EndpointSlice for `virtual`, with the endpoints that are a pod of the tenant's; refused where none is."""
    identity = metadata.identity(KIND, virtual)
    plain = schema.struct(virtual, ENDPOINT_SLICE, "")
    labels = schema.text_map(schema.mapping(virtual.get("metadata"), "metadata").get("labels"), "metadata.labels")
    service = metadata.object_name(labels.get(mirrored.SERVICE_NAME), "metadata.labels")
    if not plain.get("addressType"):
        raise Untranslatable(Reason.MALFORMED, "needs an address type", "addressType")
    for index, port in enumerate(plain.get("ports", [])):
        if not port.get("port"):
            raise Untranslatable(
                Reason.MALFORMED, "a port needs a number; without one it would be every port", f"ports[{index}]"
            )
    endpoints, refused = _endpoints(plain, identity, view, holders)
    if refused and not endpoints:
        raise refused[0]
    meta = metadata.host_metadata(identity, virtual, view, labels={
        mirrored.SERVICE_NAME: view.host_name("Service", identity.namespace, service),
        mirrored.MANAGED_BY: MANAGED_BY_SYNCER,
    })  # fmt: skip
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": KIND,
        "metadata": meta,
        "addressType": plain["addressType"],
        "endpoints": endpoints,
        "ports": plain.get("ports", []),
    }


def left_out(virtual: Obj, view: TenantView, holders: Holders) -> list[str]:
    """The warning about a slice of which only a part is mirrored."""
    plain = schema.struct(virtual, ENDPOINT_SLICE, "")
    _, refused = _endpoints(plain, metadata.identity(KIND, virtual), view, holders)
    return [f"left out: {refusal}" for refusal in refused[:1]] + (
        [f"left out: {len(refused)} endpoints"] if refused[1:] else []
    )


def proven(host: Obj, holders: Holders, work_namespace: str) -> list[Obj] | None:
    """The endpoints of a host slice that are a pod of the tenant's now; None where those are all that it has."""
    before = sequence(host.get("endpoints"))
    after: list[Obj] = []
    for endpoint in before:
        named, reference = sequence(endpoint.get("addresses")), mapping(endpoint.get("targetRef"))
        found = holders.get(str(named[0]), ()) if len(named) == 1 else ()
        holder = next((candidate for candidate in found if reference.get("uid") in (None, candidate.uid)), None)
        if holder is not None:
            after.append(endpoint | {"targetRef": _reference(holder, work_namespace)})
    return after if len(after) < len(before) else None


def _endpoints(plain: Obj, identity: Identity, view: TenantView, holders: Holders) -> tuple[list[Obj], list[Untranslatable]]:
    """The endpoints that may be on the host, and why others may not."""
    found: list[Obj] = []
    refused: list[Untranslatable] = []
    for index, endpoint in enumerate(plain.get("endpoints", [])):
        try:
            found.append(_endpoint(endpoint, f"endpoints[{index}]", identity, view, holders))
        except Untranslatable as why:
            refused.append(why)
    return found, refused


def _endpoint(endpoint: Obj, path: str, identity: Identity, view: TenantView, holders: Holders) -> Obj:
    named = endpoint.get("addresses", [])
    if not named:
        raise Untranslatable(Reason.MALFORMED, "an endpoint needs an address", f"{path}.addresses")
    for index, address in enumerate(named):
        # compared as texts: an unusual spelling of an address, v4-mapped v6 among them, is not the pod's
        if not holders.get(address):
            at = f"{path}.addresses[{index}]"
            raise Untranslatable(Reason.NOT_ALLOWED, f"{address} is not the address of a running pod of this cluster", at)
    if len(named) > 1:
        # Who reads a slice takes the first and nothing else.
        raise Untranslatable(
            Reason.NOT_SUPPORTED, f"{len(named)} addresses; give each pod an endpoint of its own", f"{path}.addresses"
        )
    target = endpoint.get("targetRef", {})
    holder = next((candidate for candidate in holders[named[0]] if _is_meant(target, candidate.virtual, identity)), None)
    if holder is None:
        raise Untranslatable(Reason.NOT_ALLOWED, f"{named[0]} is not the address of the pod that is named", f"{path}.targetRef")
    kept = {key: endpoint[key] for key in ("addresses", "conditions", "hostname", "zone") if key in endpoint}
    node = {"nodeName": holder.node} if holder.node in view.nodes else {}
    return kept | node | {"targetRef": _reference(holder, view.work_namespace)}


def _is_meant(target: Mapping[str, Any], pod: Identity, identity: Identity) -> bool:
    """Whether an endpoint that names a pod names this one; an address may be another pod's by now."""
    if target.get("kind") != "Pod":
        return True
    same = (target.get("namespace") or identity.namespace, target.get("name")) == (pod.namespace, pod.name)
    return same and target.get("uid") in (None, "", pod.uid)


def _reference(holder: Holder, work_namespace: str) -> Obj:
    return {"kind": "Pod", "namespace": work_namespace, "name": holder.name, "uid": holder.uid}


def may_stay(_host: Obj, _view: TenantView) -> bool:
    """Never: the earlier form of a refused slice would still lead where it led."""
    return False
