"""The input of every builder: one tenant's plane, with the defaults of the class and the chart already merged in.

Frozen data, and the few addresses and names that are computed from it. `controller.decide.admit` has checked the fields, and
the builders trust them.
"""

from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from bulkhead.api import labels, names
from bulkhead.api.objects import Obj
from controller.plane.budgets import Budgets
from controller.plane.sections import (
    Access,
    Backup,
    ControlPlane,
    Deletion,
    Images,
    Installation,
    Isolation,
    Ledger,
    Network,
    Nodes,
    Offers,
    Quota,
    Restoring,
    Storage,
    Syncing,
)
from controller.plane.trail import Audit
from controller.plane.ways import Exposure

PLANE: Final = "plane"
DNS: Final = "dns"
SYNCER: Final = "syncer"
SHIM: Final = "kubelet-shim"
METRICS: Final = "metrics-server"
RESTORE: Final = "restore"
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
GPU_METRICS_PORT: Final = 9400  # as of dcgm-exporter
GPU_METRICS_COMPONENT: Final = "gpumetrics"  # the chart's pods that scrape exporters
GPU_METRICS_SOURCE_PORT: Final = 8080
GPU_METRICS: Final = "bulkhead-gpumetrics"  # the chart's Service, and the account and pods behind it

USER: Final = 65532
PKI_PATH: Final = "/etc/bulkhead/pki"
CONFIG_PATH: Final = "/etc/bulkhead/config"
TRUST_ANNOTATION: Final = "bulkhead.dev/trust"
LEAF_ANNOTATION: Final = "bulkhead.dev/leaf"
CONFIG_ANNOTATION: Final = "bulkhead.dev/config"
SINCE_ANNOTATION: Final = "bulkhead.dev/plane-since"


@dataclass(frozen=True, slots=True)
class PlaneSpec:
    """Everything that the builders need to know about one tenant: what every object needs, and a section for each purpose.

    tenant: name of the Tenant.
    uid: UID of the Tenant, a different one if a Tenant of that name is recreated.
    identity: that of the plane (`bulkhead.api.planerecord`), whatever Tenant holds it.
    version: version of Kubernetes that the plane runs, such as `v1.36.3`.
    service_slice: the tenant's slice of the host's service range, a CIDR; empty before one is chosen.
    audit: the audit trail that the class requests; None for the built-in one.
    restoring: the restore that keeps the plane stopped; None if none does.
    """

    tenant: str
    uid: str
    identity: str
    version: str
    service_slice: str
    images: Images
    control_plane: ControlPlane = field(default_factory=ControlPlane)
    budgets: Budgets = field(default_factory=Budgets)
    storage: Storage = field(default_factory=Storage)
    quota: Quota = field(default_factory=Quota)
    ledger: Ledger = field(default_factory=Ledger)
    nodes: Nodes = field(default_factory=Nodes)
    isolation: Isolation = field(default_factory=Isolation)
    offers: Offers = field(default_factory=Offers)
    network: Network = field(default_factory=Network)
    installation: Installation = field(default_factory=Installation)
    access: Access = field(default_factory=Access)
    exposure: Exposure = field(default_factory=Exposure)
    audit: Audit | None = None
    syncing: Syncing = field(default_factory=Syncing)
    backup: Backup = field(default_factory=Backup)
    deletion: Deletion = field(default_factory=Deletion)
    restoring: Restoring | None = None

    @property
    def namespace(self) -> str:
        """The host namespace of the plane."""
        return names.plane_namespace(self.tenant)

    @property
    def work_namespace(self) -> str:
        """The host namespace of the tenant's workloads."""
        return names.work_namespace(self.tenant)

    @property
    def enforced_selector(self) -> tuple[tuple[str, str], ...]:
        """The node selector of every pod: the pool's labels, and for a dedicated pool the label of the tenant's own nodes."""
        return (*self.nodes.selector, *(((labels.TENANT, self.tenant),) if self.nodes.dedicated else ()))

    @property
    def enforced_tolerations(self) -> tuple[Obj, ...]:
        """The tolerations of every pod: for the class's taints, and for that of the tenant's own nodes."""
        own: Obj = {"key": labels.TENANT, "operator": "Equal", "value": self.tenant, "effect": "NoSchedule"}
        return (*self.nodes.tolerations, *((own,) if self.nodes.dedicated else ()))

    def address(self, index: int) -> str:
        """The index-th address of the tenant's service slice."""
        return str(IPv4Address(int(IPv4Network(self.service_slice).network_address) + index))

    @property
    def api_address(self) -> str:
        """The ClusterIP of the plane's API server, from inside and from the host."""
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
        """The ClusterIP of the load balancer's Service, if there is one."""
        return self.address(12)

    @property
    def endpoint(self) -> str:
        """Where clients find the API server: outside the host if it is exposed, else at its service address."""
        host = self.exposure.host
        if not host:
            return f"https://{self.api_address}:443"
        return f"https://{f'[{host}]' if ':' in host else host}:{self.exposure.port}"

    @property
    def tls_server_name(self) -> str | None:
        """The server name that a client must send, if that is not the endpoint's name: the proxy routes by it."""
        exposure = self.exposure
        return exposure.hostnames[0] if exposure.server and exposure.hostnames else None

    @property
    def issuer(self) -> str:
        """The service account issuer; it is different for every plane ever created."""
        return f"https://{self.issuer_name}"

    @property
    def issuer_name(self) -> str:
        """The issuer's host name: the plane's API server, where readers of tokens find the keys (OpenID Connect Discovery)."""
        return f"{self.identity}.kubernetes.default.svc"

    def service_names(self, service: str) -> tuple[str, ...]:
        """Every DNS name of a host Service in the plane's namespace."""
        stem = f"{service}.{self.namespace}"
        return (service, stem, f"{stem}.svc", f"{stem}.svc.{self.installation.cluster_domain}")
