"""The sections of a `PlaneSpec`: what the builders know about one tenant's plane, by purpose. Data only.

Three sections are in files of their own, together with what is computed from them: `Budgets` (`controller.plane.budgets`),
`Exposure` (`controller.plane.ways`) and `Audit` (`controller.plane.trail`). A *name* is that of a Kubernetes object, an
*amount* is an `Amount`, a *quantity* is a text such as `2Gi` or `500m`, as Kubernetes writes it.
"""

from dataclasses import dataclass
from typing import Final

from bulkhead.api import names, privileges
from bulkhead.api.backup import DAILY, HOURLY, WEEKLY
from bulkhead.api.objects import Obj
from bulkhead.api.planevolume import STORAGE_SIZE
from bulkhead.api.quantity import Amount
from bulkhead.api.syncersettings import (
    GRACE_SECONDS,
    LOG_BYTES_PER_SECOND,
    MAX_SERVICE_ENDPOINTS,
    POD_BYTES,
    SERVICE_ENDPOINTS,
    SERVICE_ENDPOINTS_OF_POD,
    SESSION_BYTES_PER_SECOND,
)
from controller.plane.addresses import ALWAYS, Reserved
from controller.plane.placement import ANYWHERE, Placement
from controller.plane.sizing import STORE_QUOTA_MIB
from controller.plane.ways import Revoked, Trusted

DRAIN_SECONDS: Final = 3600


@dataclass(frozen=True, slots=True)
class Images:
    """The image of each container, as the chart sets it, and how the kubelet pulls it.

    bulkhead, kubernetes, etcd, coredns: references of images.
    pull_policy: `imagePullPolicy` of every container.
    pull_secrets: names of the Secrets of every pod's `imagePullSecrets`; empty if the registry needs none.
    own: references of the platform's images that run as the tenant's pods; they are pulled with the same Secrets.
    """

    bulkhead: str
    kubernetes: str
    etcd: str
    coredns: str
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    own: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """How the pods of the plane run on the host: the plane itself, its DNS and its syncer.

    replicas: members of the plane, each with an etcd and an API server.
    grows: whether the Tenant itself asks for that number, so that a running plane of fewer members gets more.
    placement: where the host's scheduler may put the pods.
    priority_class: name of the PriorityClass of the pods; None for the host's default.
    ends_soon: whether an API server ends at once on SIGTERM, instead of waiting for its watches.
    """

    replicas: int = 1
    grows: bool = False
    placement: Placement = ANYWHERE
    priority_class: str | None = None
    ends_soon: bool = False


@dataclass(frozen=True, slots=True)
class Storage:
    """etcd's volumes, and how much of them etcd may fill.

    template_size, template_class: quantity, and name of the StorageClass (None for the host's default), in the StatefulSet's
        template, which is immutable.
    volume_size, volume_class: the same for every volume, whatever the template says: claims grow to this size.
    quota_mib: the most that etcd's data may take, in MiB.
    """

    template_size: str = STORAGE_SIZE
    template_class: str | None = None
    volume_size: str = STORAGE_SIZE
    volume_class: str | None = None
    quota_mib: int = STORE_QUOTA_MIB


@dataclass(frozen=True, slots=True)
class PodBound:
    """What one pod may request of a resource: the most, and how many times the request its limit may be.

    `most` is a quantity and `ratio` a number, both as text; empty if the class sets none.
    """

    resource: str
    most: str = ""
    ratio: str = ""


@dataclass(frozen=True, slots=True)
class Quota:
    """How much the tenant may use, altogether and in one object.

    gpu_resources: names of the resources of GPUs; without a limit the tenant may use 0 of one.
    extended_resources: names of other resources with the same rule.
    limits: the tenant's own amount of each resource, by name.
    object_limits: the most objects of each kind, by the name that a ResourceQuota counts them under.
    container_defaults: by resource, the request and the limit (quantities, empty for none) of containers that set none.
    pod_bounds: what one pod may request.
    most_per_claim: the most storage that one claim may request, a quantity; empty if the class sets none.
    most_pod_bytes: how large all pods may be together on the host, in bytes.
    most_endpoints: how many endpoints the class lets all Services have together on the host; 0 if it sets none.
    device_classes: the DeviceClasses that claims may name, each with the resource that it stands for (its name), or with the
        number of its devices that all claims together may request.
    """

    gpu_resources: tuple[str, ...] = ("nvidia.com/gpu",)
    extended_resources: tuple[str, ...] = ()
    limits: tuple[tuple[str, Amount], ...] = ()
    object_limits: tuple[tuple[str, Amount], ...] = ()
    container_defaults: tuple[tuple[str, str, str], ...] = ()
    pod_bounds: tuple[PodBound, ...] = ()
    most_per_claim: str = ""
    most_pod_bytes: int = POD_BYTES
    most_endpoints: int = 0
    device_classes: tuple[tuple[str, str | int], ...] = ()

    @property
    def allotted(self) -> dict[str, Amount]:
        """How much the tenant may use of each resource: 0 of a GPU resource without a limit."""
        return dict.fromkeys((*self.gpu_resources, *self.extended_resources), Amount.of(0)) | dict(self.limits)

    @property
    def service_endpoints(self) -> int:
        """How many endpoints all Services may have together: what the class says, else what follows from the number of pods."""
        pods = dict(self.object_limits).get("pods", Amount.of(0))
        of_pods = int(pods.number) * SERVICE_ENDPOINTS_OF_POD if pods.is_whole else 0
        return self.most_endpoints or min(max(SERVICE_ENDPOINTS, of_pods), MAX_SERVICE_ENDPOINTS)

    @property
    def device_class_resources(self) -> dict[str, str]:
        """The resource that each device class stands for; device classes that stand for none are left out."""
        return {name: against for name, against in self.device_classes if isinstance(against, str)}

    @property
    def device_class_limits(self) -> dict[str, int]:
        """How many devices all claims together may request, for each device class that stands for no resource."""
        return {name: against for name, against in self.device_classes if isinstance(against, int)}


@dataclass(frozen=True, slots=True)
class Ledger:
    """What the tenant lends and borrows in its Cohort; empty for a tenant without a cohort.

    ceilings: how much it may hold of each resource that it may borrow, if that is more than its limit.
    given: the record of its quota for the ledger (`bulkhead.ledger.given`), as JSON.
    gated_resources: names of the resources whose pods wait at the ledger's gate.
    gated_gangs: whether the pods of a gang wait there together.
    admits: whether the controller has the right to admit and to evict the tenant's pods.
    """

    ceilings: tuple[tuple[str, Amount], ...] = ()
    given: str = ""
    gated_resources: tuple[str, ...] = ()
    gated_gangs: bool = False
    admits: bool = False


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes that the tenant's pods run on.

    selector: labels that each of them has.
    dedicated: whether they are dedicated to the tenant.
    tolerations: what every pod tolerates, in the form of a pod's `tolerations`.
    allowed_tolerations: what pods may tolerate in addition; a field that is left out allows every value.
    drain_seconds: for how many seconds PodDisruptionBudgets block the drain of a node; below 0: for ever.
    grace_seconds: for how many seconds a pod may go on after its deletion.
    """

    selector: tuple[tuple[str, str], ...] = ()
    dedicated: bool = False
    tolerations: tuple[Obj, ...] = ()
    allowed_tolerations: tuple[Obj, ...] = ()
    drain_seconds: int = DRAIN_SECONDS
    grace_seconds: int = GRACE_SECONDS


@dataclass(frozen=True, slots=True)
class Isolation:
    """What separates the tenant's pods from the host and from other tenants on a node.

    pod_security: level of Pod Security of the work namespace.
    user_namespaces: whether every pod of the tenant runs in a user namespace of its own.
    prefer_user_namespaces: whether pods that surely can do so by themselves (`syncer.translate.podspec.users`).
    drop_privileges: from whose pods the plane removes the privileges that the host refuses (`bulkhead.api.privileges`).
    seccomp_profiles, apparmor_profiles: names of the nodes' profiles that pods may use in addition to the runtime's default.
    runtime_class: name of the RuntimeClass of pods that request none; None for the host's default.
    allowed_runtime_classes: names of those that pods may request.
    """

    pod_security: str = "baseline"
    user_namespaces: bool = False
    prefer_user_namespaces: bool = False
    drop_privileges: str = privileges.NEVER
    seccomp_profiles: tuple[str, ...] = ()
    apparmor_profiles: tuple[str, ...] = ()
    runtime_class: str | None = None
    allowed_runtime_classes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Offers:
    """What the tenant's objects may name on the host.

    default_priority_class: name of the PriorityClass of pods that request none, or one that is not allowed; None for the host's
    default. priority_classes, storage_classes, snapshot_classes: names of those that they may name. default_storage_classes:
    the host's default ones, which alone they may name if storage_classes is empty. ingress_classes: names of the IngressClasses
    by which tenants publish, each under `<tenant>.<domain>` of `ingress_domains`. ingress_controllers: the host namespaces of
    the controllers of those classes. pod_groups: whether the plane serves PodGroups and the syncer mirrors them.
    """

    default_priority_class: str | None = None
    priority_classes: tuple[str, ...] = ()
    storage_classes: tuple[str, ...] = ()
    default_storage_classes: tuple[str, ...] = ()
    snapshot_classes: tuple[str, ...] = ()
    ingress_classes: tuple[str, ...] = ()
    ingress_domains: tuple[str, ...] = ()
    ingress_controllers: tuple[str, ...] = ()
    pod_groups: bool = False

    @property
    def ingress(self) -> bool:
        """Whether the class lets tenants publish anything."""
        return bool(self.ingress_classes and self.ingress_domains)


@dataclass(frozen=True, slots=True)
class Network:
    """What the tenant's pods reach outside their namespace. Ranges are CIDRs.

    egress_cidrs: ranges that are opened to them.
    reserved: ranges of the host, which no egress CIDR opens.
    reach_reserved: exceptions from `reserved`.
    pod_addresses: IP addresses of the plane's own pods, which reveal ranges of pods that `reserved` does not list.
    """

    egress_cidrs: tuple[str, ...] = ()
    reserved: tuple[Reserved, ...] = ALWAYS
    reach_reserved: tuple[str, ...] = ()
    pod_addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tracing:
    """Where traces go.

    namespace, service: the Service of the collector on the host, which takes OTLP over HTTP.
    port: its port, and that of its pods.
    one_pod_in: one pod in how many has a trace.
    """

    namespace: str
    service: str
    port: int = 4318
    one_pod_in: int = 100

    def collector(self, domain: str) -> str:
        """The collector's address in a cluster with this DNS domain."""
        return f"http://{self.service}.{self.namespace}.svc.{domain}:{self.port}"


# The chart's own networkPolicy.dns: upstream's DNS pods and its cache on nodes, and OpenShift's.
CLUSTER_DNS: Final[tuple[Obj, ...]] = (
    {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchExpressions": [{"key": "k8s-app", "operator": "In", "values": ["kube-dns", "node-local-dns"]}]},
    },
    {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "openshift-dns"}},
        "podSelector": {"matchLabels": {"dns.operator.openshift.io/daemonset-dns": "default"}},
    },
    {"ipBlock": {"cidr": "169.254.20.10/32"}},
)


@dataclass(frozen=True, slots=True)
class Installation:
    """What the host and the chart set for all planes alike.

    system_namespace: the host namespace of the platform.
    cluster_domain: the DNS domain of Services, on the host and in planes.
    dns_upstreams: the resolvers for all other names: IP addresses, or a path to a resolv.conf.
    client_cidrs: CIDRs of users who reach the API servers of planes directly.
    host_api: IP addresses and ports of the host's API server.
    host_api_anywhere: whether those ports are open at every address.
    cluster_dns: where the host's DNS answers, as peers of a NetworkPolicy.
    metrics_from: the readers of the syncer's metrics, as peers of a NetworkPolicy.
    gpu_metrics: whether tenants see the metrics of their GPUs.
    node_figures: whether they see network and disk of their pods too.
    tracing: where traces go; None while they are off.
    """

    system_namespace: str = names.SYSTEM_NAMESPACE
    cluster_domain: str = "cluster.local"
    dns_upstreams: tuple[str, ...] = ("/etc/resolv.conf",)
    client_cidrs: tuple[str, ...] = ()
    host_api: tuple[tuple[str, int], ...] = ()
    host_api_anywhere: bool = False
    cluster_dns: tuple[Obj, ...] = CLUSTER_DNS
    metrics_from: tuple[Obj, ...] = ()
    gpu_metrics: bool = False
    node_figures: bool = False
    tracing: Tracing | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """The users who may sign in to the plane.

    admins: subjects of RBAC that are the tenant's admins.
    issuers: the identity providers whose tokens are accepted.
    revoked: users and groups whose tokens are refused.
    certificates_revoked: the last request to revoke people's certificates, as the Tenant has it.
    """

    admins: tuple[Obj, ...] = ()
    issuers: tuple[Trusted, ...] = ()
    revoked: tuple[Revoked, ...] = ()
    certificates_revoked: str = ""


@dataclass(frozen=True, slots=True)
class Backup:
    """Snapshots that are taken by themselves. Nothing of the plane is rendered from it.

    every_seconds: seconds between two; 0 for none.
    hourly, daily, weekly: of how many hours, days and weeks the last one is kept.
    clones: whether the class lets a snapshot become another tenant.
    target: the name of the place where they are stored; empty for that of the installation.
    """

    every_seconds: int = 0
    hourly: int = HOURLY
    daily: int = DAILY
    weekly: int = WEEKLY
    clones: bool = True
    target: str = ""


@dataclass(frozen=True, slots=True)
class Deletion:
    """How the Tenant is deleted.

    confirm: whether its deletion, and that of its namespaces, has to be confirmed.
    retain: whether its plane is kept then; for `retain_for`, a duration, which the class gives.
    """

    confirm: bool = False
    retain: bool = False
    retain_for: str = ""


@dataclass(frozen=True, slots=True)
class Syncing:
    """The syncer's intervals and limits.

    patrol_seconds: seconds between two patrols.
    mass_delete_limit: how many objects may vanish within a minute without a watch event before the syncer stops deleting.
    token_seconds: the longest life of a token that it requests, in seconds.
    log_rate, session_rate: how fast logs, and exec, attach and port-forward, pass it, in bytes a second.
    """

    patrol_seconds: int = 60
    mass_delete_limit: int = 50
    token_seconds: int = 3600
    log_rate: int = LOG_BYTES_PER_SECOND
    session_rate: int = SESSION_BYTES_PER_SECOND


@dataclass(frozen=True, slots=True)
class Cloned:
    """What makes the data of a snapshot that of a clone.

    former_slice: the slice of the plane that it was taken of.
    cluster_uid: UID of the clone's kube-system.
    slurm: whether it has a Slurm cluster, whose Secrets and settings the controller makes again.
    """

    former_slice: str
    cluster_uid: str
    slurm: bool


@dataclass(frozen=True, slots=True)
class Restoring:
    """A restore of the plane that is at work: plane and syncer are stopped.

    restore: UID of the TenantRestore.
    size: bytes of the snapshot file.
    bump: by how much revisions are raised.
    discard: whether the old data goes before the new is made.
    filling: whether the pods run that fill the volumes.
    cloned: how the data becomes that of a clone; None if the plane is the snapshot's own.
    """

    restore: str
    size: int
    bump: int
    discard: bool = False
    filling: bool = False
    cloned: Cloned | None = None
