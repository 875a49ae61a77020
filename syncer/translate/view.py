"""What the translation of one tenant may know: settings and a snapshot of the tenant's and the host's state.

The runtime builds a new view when something in it changes (`dataclasses.replace`) and hands it to every pure function. The
mappings are never changed in place, here or there. Nothing here reads a cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.api.serviceenv import ServiceEnv

BASELINE: Final = "baseline"
RESTRICTED: Final = "restricted"
DEFAULT_SCHEDULER: Final = "default-scheduler"
WORKLOAD_SERVICE_ACCOUNT: Final = "workload"

_EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})


def _empty() -> Mapping[str, Any]:
    return _EMPTY


@dataclass(frozen=True, slots=True)
class Isolating:
    """A tenant's NetworkPolicy, as far as it decides which pods are isolated."""

    selector: Mapping[str, Any]
    ingress: bool
    egress: bool


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration that every host pod of the tenant carries, or that its pods may ask for."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def to_obj(self) -> Obj:
        """The Kubernetes form; empty fields are left out."""
        plain: Obj = {"key": self.key, "operator": self.operator, "value": self.value, "effect": self.effect}
        plain = {key: value for key, value in plain.items() if value}
        if self.toleration_seconds is not None:
            plain["tolerationSeconds"] = self.toleration_seconds
        return plain


@dataclass(frozen=True, slots=True)
class TenantView:
    """One tenant as the translation sees it."""

    tenant: str
    tenant_uid: str
    # addresses
    cluster_domain: str = "cluster.local"
    dns_address: str = ""  # slice.10; empty: pods wait
    api_address: str = ""  # slice.1, the address of the tenant's default/kubernetes
    api_environment: str = ""  # the host's ConfigMap with the variables of that address; empty: each container lists them
    device_environment: str = ""  # the host's ConfigMaps that close device variables; empty: each container lists them
    kubelet_address: str = ""
    kubelet_port: int = 10250
    public_address: str = ""  # slice.12, of the Service by which a load balancer of the host exposes the plane
    service_slice: str = ""  # CIDR; empty: every address is accepted
    # policy
    pod_security: str = BASELINE
    enforced_node_selector: Mapping[str, str] = field(default_factory=_empty)
    enforced_tolerations: tuple[Toleration, ...] = ()
    allowed_tolerations: tuple[Toleration, ...] = ()  # what pods may ask for beside them
    device_classes: frozenset[str] = frozenset()  # those that claims may name; none: claims are refused
    ingress_classes: frozenset[str] = frozenset()  # those that Ingresses may name; none: Ingresses are refused
    ingress_domains: tuple[str, ...] = ()  # the tenant's hosts are `<tenant>.<domain>` and what lies below
    pod_groups: bool = False  # whether PodGroups and pods of them pass
    gated_resources: frozenset[str] = frozenset()  # those whose pods the ledger admits (`podspec.gate`)
    gated_gangs: bool = False  # whether gangs are offered, in all of their spellings, and admitted by the ledger
    offers_snapshots: bool = False  # whether claims may be snapshotted at all
    runtime_class: str = ""  # forced on every pod when set
    allowed_runtime_classes: frozenset[str] = frozenset()
    runtime_aliases: Mapping[str, str] = field(default_factory=_empty)  # a class of the tenant -> the host's of its handler
    priority_class: str = ""  # for pods that name none
    allowed_priority_classes: frozenset[str] = frozenset()
    gpu_resources: frozenset[str] = frozenset({"nvidia.com/gpu"})
    allowed_resources: frozenset[str] = frozenset()  # extended resources beside the GPUs, hugepages-… too
    most_per_pod: Mapping[str, str] = field(default_factory=_empty)  # the most that a pod may request, by resource
    most_limit_request_ratio: Mapping[str, str] = field(default_factory=_empty)  # of a container, by resource
    most_per_claim: str = ""  # the most that a claim may request; empty: any size
    default_requests: Mapping[str, str] = field(default_factory=_empty)  # of a container that names none, by resource
    default_limits: Mapping[str, str] = field(default_factory=_empty)
    user_namespaces: bool = False  # True: every host pod runs with hostUsers: false
    prefers_user_namespaces: bool = False  # True: host pods that say nothing and surely can do (`podspec.users`)
    seccomp_profiles: frozenset[str] = frozenset()  # of the nodes, by their names below the kubelet's folder
    apparmor_profiles: frozenset[str] = frozenset()  # of the nodes
    pull_secret: str = ""  # of the work namespace, for pods of the platform's own images and no others; empty: there is none
    own_images: frozenset[str] = frozenset()
    max_grace_seconds: int = 3600
    max_pod_bytes: int = 256 * 1024  # of a host pod: every change of its status or labels writes all of it again
    max_token_seconds: int = 86400
    judges: bool = True  # whether it is asked what a class may withdraw; see `standing`
    # snapshot of the tenant's plane
    services: Mapping[str, tuple[ServiceEnv, ...]] = field(default_factory=_empty)  # by virtual namespace
    network_policies: Mapping[str, tuple[Isolating, ...]] = field(default_factory=_empty)  # by virtual namespace
    policies_beyond: frozenset[tuple[str, str]] = frozenset()  # namespace and name of those that are too many together
    namespace_labels: Mapping[str, Mapping[str, str]] = field(default_factory=_empty)  # by virtual namespace
    # snapshot of the host
    storage_classes: frozenset[str] = frozenset()  # names of the StorageClasses that are offered
    storage_listed: bool = False  # whether the class lists them; if not, claims that name none are left to the host's default
    default_storage_class: str = ""  # of those that are listed, the one for claims that name none; empty: there is none
    snapshot_classes: frozenset[str] = frozenset()  # names of the VolumeSnapshotClasses that are offered
    default_snapshot_class: str = ""  # the one for snapshots that name none; empty: there is no single one
    nodes: frozenset[str] = frozenset()  # names of the nodes that the tenant may see
    nodes_support_user_namespaces: bool = False  # whether all of them report it
    # what the tenant itself wrote on them in its plane
    cordoned: frozenset[str] = frozenset()
    node_labels: Mapping[str, Mapping[str, str]] = field(default_factory=_empty)  # beside the host's; by node
    node_taints: Mapping[str, tuple[Obj, ...]] = field(default_factory=_empty)  # beside the host's; by node
    # keys of labels that only the tenant's nodes have; what the platform enforces stays the host's to answer
    own_node_labels: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        own = frozenset().union(*self.node_labels.values()) - frozenset(self.enforced_node_selector)
        object.__setattr__(self, "own_node_labels", own)

    def standing(self) -> "TenantView":
        """The same for what the host has already: nothing is refused that its class offers no more, for it was let in.

        Services that came later are left out, too: the environment of a container never changes.
        """
        return replace(self, judges=False, services=_EMPTY)

    @property
    def waits_for_ledger(self) -> bool:
        """Whether any of the tenant's pods waits for the ledger."""
        return self.gated_gangs or bool(self.gated_resources)

    @property
    def work_namespace(self) -> str:
        """The host namespace of everything mirrored."""
        return names.work_namespace(self.tenant)

    @property
    def ingress_hosts(self) -> tuple[str, ...]:
        """The hosts that are the tenant's own, with everything below them."""
        return tuple(f"{self.tenant}.{domain}" for domain in self.ingress_domains)

    @property
    def plane_namespace(self) -> str:
        """The host namespace of the plane, known here only so that its name can be kept out of texts."""
        return names.plane_namespace(self.tenant)

    def host_name(self, kind: str, namespace: str, name: str) -> str:
        """The host name of one of the tenant's objects."""
        return names.host_name(self.tenant_uid, kind, namespace, name)
