"""The compiler's view of the cluster: pods with addresses, namespaces' labels, policies. Pure.

Turns API objects into small frozen values. It leaves out pods that send and receive no packets of their own: pods without an
address, pods that ended, and pods on the host's network.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from bulkhead.api.podphase import has_ended
from bulkhead.kube.objects import Key, key_of

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NamedPort:
    """A container port that has a name."""

    name: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod, as far as its packets are concerned."""

    namespace: str
    name: str
    address: IPv4Address
    labels: Labels
    ports: tuple[NamedPort, ...]
    node: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """Everything from which rules are computed."""

    pods: tuple[Pod, ...]
    namespaces: Mapping[str, Labels]
    policies: tuple[Mapping[str, Any], ...]


def _container_ports(spec: Mapping[str, Any]) -> tuple[NamedPort, ...]:
    sidecars = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    return tuple(
        NamedPort(port["name"], port.get("protocol") or "TCP", port["containerPort"])
        for container in [*(spec.get("containers") or ()), *sidecars]
        for port in container.get("ports") or ()
        if port.get("name")
    )


def pod_from(obj: Mapping[str, Any], attached: IPv4Address | None = None) -> Pod | None:
    """The pod, or None if no packets are its own. Its attached address takes precedence over the one in its status."""
    spec, status, metadata = obj["spec"], obj.get("status") or {}, obj["metadata"]
    if spec.get("hostNetwork") or has_ended(obj):
        return None
    try:
        address = attached or IPv4Address(status.get("podIP") or "")
    except ValueError:
        return None
    labels = metadata.get("labels") or {}
    return Pod(metadata["namespace"], metadata["name"], address, labels, _container_ports(spec), spec.get("nodeName") or "")


def cluster_from(
    pods: Iterable[Mapping[str, Any]],
    namespaces: Iterable[Mapping[str, Any]],
    policies: Iterable[Mapping[str, Any]],
    attached: Mapping[Key, IPv4Address] | None = None,
) -> Cluster:
    """The compiler's view of API objects, in an order that does not depend on theirs.

    An address that is attached to one pod belongs to no other pod, even if an old status claims it.
    """
    attached = attached or {}
    owners = {address: key for key, address in attached.items()}
    known = []
    for obj in pods:
        key = key_of(obj)
        pod = pod_from(obj, attached.get(key))
        if pod is not None and owners.get(pod.address, key) == key:
            known.append(pod)
    known.sort(key=lambda pod: (pod.namespace, pod.name))
    labels = {one["metadata"]["name"]: one["metadata"].get("labels") or {} for one in namespaces}
    ordered = sorted(policies, key=lambda one: (one["metadata"]["namespace"], one["metadata"]["name"]))
    return Cluster(tuple(known), labels, tuple(ordered))
