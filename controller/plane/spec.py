"""The input of every builder: one tenant's plane, with the class's and the chart's defaults already merged in.

Frozen data and the few addresses and names that follow from it. What a field may hold was checked before it got here
(`controller.decide.admit`); the builders trust it.
"""

import contextlib
import math
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Network
from typing import Any, Final, TypeAlias

from bulkhead.api import labels, names, privileges
from bulkhead.api.quantity import Amount, InvalidQuantityError, parse
from controller.plane.addresses import ALWAYS, Reserved
from controller.plane.placement import ANYWHERE, Placement
from controller.plane.sizing import STORE_QUOTA_MIB, needed_mib
from controller.plane.trail import Audit
from controller.plane.ways import Exposure, Revoked, Trusted

Obj: TypeAlias = dict[str, Any]

PLANE: Final = "plane"
DNS: Final = "dns"
SYNCER: Final = "syncer"
SHIM: Final = "kubelet-shim"
METRICS: Final = "metrics-server"
PEERS: Final = "plane-peers"
PROXY_ROUTE: Final = names.PROXY_ROUTE
# Containers of those pods.
API_SERVER: Final = "kube-apiserver"
COREDNS: Final = "coredns"
PUBLIC: Final = "plane-public"

API_PORT: Final = 6443
ETCD_PORT: Final = 2379
ETCD_METRICS_PORT: Final = 2381
ETCD_HTTP_PORT: Final = 2382
ETCD_PEER_PORT: Final = 2380
KCM_PORT: Final = 10257
DNS_PORT: Final = 10053
DNS_HEALTH_PORT: Final = 8081
DNS_READY_PORT: Final = 8181
SHIM_PORT: Final = 10250
SYNCER_HTTP_PORT: Final = 8080
ISSUERS_PORT: Final = 10251

_MOST_THREADS: Final = 256
USER: Final = 65532
PKI_PATH: Final = "/etc/bulkhead/pki"
CONFIG_PATH: Final = "/etc/bulkhead/config"
TRUST_ANNOTATION: Final = "bulkhead.dev/trust"
LEAF_ANNOTATION: Final = "bulkhead.dev/leaf"
CONFIG_ANNOTATION: Final = "bulkhead.dev/config"
SINCE_ANNOTATION: Final = "bulkhead.dev/plane-since"


@dataclass(frozen=True, slots=True)
class Images:
    """The image of each container, as the chart gives them."""

    bulkhead: str
    kubernetes: str
    etcd: str
    coredns: str


@dataclass(frozen=True, slots=True)
class Budget:
    """What one container asks for and may use at most."""

    cpu: str
    memory: str
    memory_limit_mib: int
    cpu_limit: str | None = None
    # How much of its Go code runs at once where no limit says so; None leaves that to the machine's number of cores.
    cores: int | None = None

    def resources(self) -> Obj:
        """The container's `resources`; CPU is limited only where the class says so: throttling an API server helps no one."""
        limits = {"memory": f"{self.memory_limit_mib}Mi"} | ({"cpu": self.cpu_limit} if self.cpu_limit else {})
        return {"requests": {"cpu": self.cpu, "memory": self.memory}, "limits": limits}

    def go_env(self, gogc: int) -> list[Obj]:
        """Settings of the Go runtime: a small heap when idle, a soft memory limit below the hard one, and no idle threads.

        Go itself never goes below two threads, whatever the limit, and has one for each core of the node without one: on a
        node with a hundred cores every plane would keep as many for work that one of them does (docs/decisions/0009).
        """
        env = [
            {"name": "GOGC", "value": str(gogc)},
            {"name": "GOMEMLIMIT", "value": f"{self.memory_limit_mib * 9 // 10}MiB"},
        ]
        threads = self._threads()
        return [*env, {"name": "GOMAXPROCS", "value": str(threads)}] if threads else env

    def _threads(self) -> int | None:
        """As many as the limit lets run, rounded up; a limit that is none in practice, or no number, says nothing."""
        with contextlib.suppress(InvalidQuantityError):
            allowed = math.ceil(parse(self.cpu_limit)) if self.cpu_limit else 0
            if 0 < allowed <= _MOST_THREADS:
                return allowed
        return self.cores


BUDGETS: Final = {
    "etcd": Budget("20m", "40Mi", needed_mib("etcd"), cores=1),
    "apiserver": Budget("50m", "180Mi", needed_mib("apiserver")),
    "controller_manager": Budget("10m", "48Mi", needed_mib("controller_manager"), cores=1),
    "syncer": Budget("20m", "56Mi", 256),
    "dns": Budget("5m", "24Mi", 128, cores=1),
}


def usual_budget(component: str, quota_mib: int, replicas: int) -> Budget:
    """What a component has where neither class nor Tenant say: its limit bears a store that is full."""
    usual = BUDGETS[component]
    return replace(usual, memory_limit_mib=needed_mib(component, quota_mib, replicas) or usual.memory_limit_mib)


# The components' names in the API.
COMPONENTS: Final = {
    "etcd": "etcd",
    "apiServer": "apiserver",
    "controllerManager": "controller_manager",
    "syncer": "syncer",
    "dns": "dns",
}
STORAGE_SIZE: Final = "2Gi"
DRAIN_SECONDS: Final = 3600


@dataclass(frozen=True, slots=True)
class PodBound:
    """What one pod may ask for of a resource: the most that it may request, and how many times that its limits may be."""

    resource: str
    most: str = ""
    ratio: str = ""


@dataclass(frozen=True, slots=True)
class PlaneSpec:
    """Everything that the builders need to know about one tenant."""

    tenant: str
    uid: str
    version: str
    service_slice: str
    images: Images
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    own_images: tuple[str, ...] = ()  # of the platform among the tenant's pods, pulled with the same Secrets
    replicas: int = 1
    placement: Placement = ANYWHERE  # of all its pods
    storage_size: str = STORAGE_SIZE  # of the StatefulSet's template, and its class
    storage_class: str | None = None
    volume_size: str = STORAGE_SIZE  # that every volume is to have, whatever the template says, and its class
    volume_class: str | None = None
    etcd_quota_mib: int = STORE_QUOTA_MIB
    etcd: Budget = BUDGETS["etcd"]
    apiserver: Budget = BUDGETS["apiserver"]
    controller_manager: Budget = BUDGETS["controller_manager"]
    syncer: Budget = BUDGETS["syncer"]
    dns: Budget = BUDGETS["dns"]
    gpu_resources: tuple[str, ...] = ("nvidia.com/gpu",)
    extended_resources: tuple[str, ...] = ()
    limits: tuple[tuple[str, Amount], ...] = ()
    # What it may hold of each resource of which it may borrow, where that is more than its limit; and the note of what it was
    # given, for the ledger (`bulkhead.ledger.given`).
    ceilings: tuple[tuple[str, Amount], ...] = ()
    given: str = ""
    gated_resources: tuple[str, ...] = ()  # whose pods wait at the ledger's gate
    gated_gangs: bool = False
    ledger: bool = False  # whether the controller has the right to admit and take back its pods
    object_limits: tuple[tuple[str, Amount], ...] = ()
    container_defaults: tuple[tuple[str, str, str], ...] = ()
    pod_bounds: tuple[PodBound, ...] = ()
    most_per_claim: str = ""
    node_selector: tuple[tuple[str, str], ...] = ()
    dedicated: bool = False  # whether those nodes are the tenant's alone
    node_tolerations: tuple[Obj, ...] = ()
    drain_seconds: int = DRAIN_SECONDS  # for which budgets hold up the drain of a node; below 0: for ever
    allowed_tolerations: tuple[Obj, ...] = ()  # what pods may ask for beside them
    egress_cidrs: tuple[str, ...] = ()
    reserved: tuple[Reserved, ...] = ALWAYS  # of which no egress CIDR opens anything,
    reach_reserved: tuple[str, ...] = ()  # but for these
    pod_addresses: tuple[str, ...] = ()  # of the plane's own pods, by which unknown ranges are found
    pod_security: str = "baseline"
    user_namespaces: bool = False  # whether every pod of the tenant runs in one of its own
    drop_privileges: str = privileges.NEVER  # from whose pods the plane takes what the host refuses
    seccomp_profiles: tuple[str, ...] = ()  # of the nodes, besides the runtime's own
    apparmor_profiles: tuple[str, ...] = ()
    runtime_class: str | None = None
    allowed_runtime_classes: tuple[str, ...] = ()
    workload_priority_class: str | None = None
    allowed_priority_classes: tuple[str, ...] = ()
    allowed_storage_classes: tuple[str, ...] = ()
    # Those that claims may name, each with the resource that it stands for or how many of its devices there may be.
    device_classes: tuple[tuple[str, str | int], ...] = ()
    allowed_snapshot_classes: tuple[str, ...] = ()
    ingress_classes: tuple[str, ...] = ()
    ingress_domains: tuple[str, ...] = ()
    ingress_controllers: tuple[str, ...] = ()  # their namespaces
    pod_groups: bool = False  # whether the plane serves them and the syncer mirrors them
    plane_priority_class: str | None = None
    cluster_domain: str = "cluster.local"
    dns_upstreams: tuple[str, ...] = ("/etc/resolv.conf",)
    plane_client_cidrs: tuple[str, ...] = ()
    host_api: tuple[tuple[str, int], ...] = ()
    host_api_anywhere: bool = False  # whether those ports are open at every address
    metrics_from: tuple[Obj, ...] = ()  # who reads the syncer's metrics, as peers of a NetworkPolicy
    system_namespace: str = names.SYSTEM_NAMESPACE
    patrol_seconds: int = 60
    mass_delete_limit: int = 50
    token_seconds: int = 3600
    admins: tuple[Obj, ...] = field(default=())
    issuers: tuple[Trusted, ...] = ()
    revoked: tuple[Revoked, ...] = ()
    exposure: Exposure = field(default_factory=Exposure)
    certificates_revoked: str = ""  # the last request to revoke what people hold
    audit: Audit | None = None  # None: the built-in one
    ends_soon: bool = False  # whether an API server that is told to end does so, or waits for its watches

    @property
    def namespace(self) -> str:
        """The host namespace of the plane."""
        return names.plane_namespace(self.tenant)

    @property
    def work_namespace(self) -> str:
        """The host namespace of the tenant's workloads."""
        return names.work_namespace(self.tenant)

    @property
    def allotted(self) -> dict[str, Amount]:
        """How much the tenant may use of each resource: nothing of a GPU resource without a limit."""
        return dict.fromkeys((*self.gpu_resources, *self.extended_resources), Amount.of(0)) | dict(self.limits)

    @property
    def device_class_resources(self) -> dict[str, str]:
        """The resource that each device class stands for, where it stands for one."""
        return {name: against for name, against in self.device_classes if isinstance(against, str)}

    @property
    def device_class_limits(self) -> dict[str, int]:
        """How many devices all claims may ask for, of each class that stands for no resource."""
        return {name: against for name, against in self.device_classes if isinstance(against, int)}

    @property
    def enforced_selector(self) -> tuple[tuple[str, str], ...]:
        """What every pod's node selector says: the pool, and of a dedicated one the nodes that no other tenant runs on."""
        return (*self.node_selector, *(((labels.TENANT, self.tenant),) if self.dedicated else ()))

    @property
    def enforced_tolerations(self) -> tuple[Obj, ...]:
        """What every pod tolerates: the class's taints, and that of the tenant's own nodes."""
        own: Obj = {"key": labels.TENANT, "operator": "Equal", "value": self.tenant, "effect": "NoSchedule"}
        return (*self.node_tolerations, *((own,) if self.dedicated else ()))

    @property
    def offers_ingress(self) -> bool:
        """Whether the class lets tenants publish anything."""
        return bool(self.ingress_classes and self.ingress_domains)

    def address(self, index: int) -> str:
        """The index-th address of the tenant's service slice."""
        return str(IPv4Address(int(IPv4Network(self.service_slice).network_address) + index))

    @property
    def api_address(self) -> str:
        """The ClusterIP under which the plane's API server is found, from inside and from the host."""
        return self.address(1)

    @property
    def dns_address(self) -> str:
        """The ClusterIP of the tenant's DNS."""
        return self.address(10)

    @property
    def shim_address(self) -> str:
        """The ClusterIP of the kubelet shim."""
        return self.address(11)

    @property
    def public_address(self) -> str:
        """The ClusterIP of the load balancer's Service, where there is one."""
        return self.address(12)

    @property
    def endpoint(self) -> str:
        """Where clients find the API server: outside of the host if it is exposed, else by its service address."""
        host = self.exposure.host
        if not host:
            return f"https://{self.api_address}:443"
        return f"https://{f'[{host}]' if ':' in host else host}:{self.exposure.port}"

    @property
    def tls_server_name(self) -> str | None:
        """What a client has to ask the endpoint for, where that is another name than the endpoint's: the proxy goes by it."""
        exposure = self.exposure
        return exposure.hostnames[0] if exposure.server and exposure.hostnames else None

    @property
    def issuer(self) -> str:
        """The service account issuer, different for every tenant ever created."""
        return f"https://{self.issuer_name}"

    @property
    def issuer_name(self) -> str:
        """The issuer's host: the plane's API server, where readers of tokens find the keys (OpenID Connect Discovery)."""
        return f"{self.uid}.kubernetes.default.svc"

    def service_names(self, service: str) -> tuple[str, ...]:
        """Every DNS name of a host Service in the plane's namespace."""
        stem = f"{service}.{self.namespace}"
        return (service, stem, f"{stem}.svc", f"{stem}.svc.{self.cluster_domain}")
