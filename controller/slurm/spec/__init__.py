"""The input of every builder of the Slurm mode: one tenant's Slurm cluster, with all defaults filled in.

Frozen data and the few names that follow from it. What a field may hold was checked before it got here
(`controller.slurm.decide.resolve`); the builders trust it, and the renderers of text files check every word once more.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeAlias

from bulkhead.api import names
from bulkhead.api.objects import Obj

Pairs: TypeAlias = tuple[tuple[str, str], ...]

NAMESPACE: Final = names.SLURM_NAMESPACE

SLURMCTLD: Final = names.SLURM_CONTROLLER
SLURMDBD: Final = "slurmdbd"
SLURMRESTD: Final = "slurmrestd"
MARIADB: Final = "mariadb"
LOGIN: Final = names.SLURM_LOGIN
WORKER: Final = "slurmd"
WORKERS: Final = "slurm-workers"  # the headless Service under which workers find each other

SLURMCTLD_PORT: Final = 6817
SLURMD_PORT: Final = 6818
SLURMDBD_PORT: Final = 6819
SLURMRESTD_PORT: Final = 6820
MARIADB_PORT: Final = 3306
SSH_PORT: Final = names.SLURM_SSH_PORT

KEYS: Final = names.SLURM_KEYS  # Secret
VOUCHING_KEY: Final = "slurm.jwks"  # its file for auth/slurm, on every node
TOKEN_KEY: Final = names.SLURM_TOKEN_KEY  # its file for the REST API's tokens, with those who judge them
HOST_KEYS: Final = "slurm-ssh-host-keys"  # Secret
AUTHORITY: Final = "slurm-ssh-ca"  # Secret on the host alone: the CA of users' ssh certificates
TRUST: Final = "slurm-ssh-trust"  # ConfigMap: that CA's public key, and who may be which user
DATABASE: Final = "slurm-database"  # Secret: slurmdbd.conf and MariaDB's password
CONFIG: Final = "slurm-config"  # ConfigMap
USERS: Final = "slurm-users"  # ConfigMap
HOME: Final = "slurm-home"  # PersistentVolumeClaim

# Labels inside the plane, and what a worker's pod says about itself.
NODE_SET_LABEL: Final = "slurm.bulkhead.dev/node-set"
ORDINAL_LABEL: Final = "slurm.bulkhead.dev/ordinal"
CONFIG_ANNOTATION: Final = "slurm.bulkhead.dev/config"
SPEC_ANNOTATION: Final = "slurm.bulkhead.dev/spec"
NAME_LABEL: Final = "app.kubernetes.io/name"
PART_OF: Final = "app.kubernetes.io/part-of"

NODE_SET_GROUP: Final = names.SLURM_GROUP
NODE_SET_VERSION: Final = "v1alpha1"

# Reasons of drains and downs that are ours; no other reason is ever touched.
REASON_PREFIX: Final = "bulkhead:"
TERMINATING_REASON: Final = "bulkhead: the pod is being terminated"


@dataclass(frozen=True, slots=True)
class SlurmImages:
    """The image of each kind of container."""

    slurm: str
    mariadb: str


@dataclass(frozen=True, slots=True)
class Allotment:
    """What one container of a daemon asks for and may use."""

    cpu: str
    memory: str
    memory_limit: str
    cpu_limit: str | None = None

    def resources(self) -> Obj:
        """The container's `resources`."""
        limits = {"memory": self.memory_limit} | ({"cpu": self.cpu_limit} if self.cpu_limit else {})
        return {"requests": {"cpu": self.cpu, "memory": self.memory}, "limits": limits}


ALLOTMENTS: Final = {
    SLURMCTLD: Allotment("20m", "48Mi", "1Gi"),
    SLURMDBD: Allotment("10m", "32Mi", "512Mi"),
    SLURMRESTD: Allotment("5m", "24Mi", "256Mi"),
    MARIADB: Allotment("20m", "128Mi", "768Mi"),
    LOGIN: Allotment("10m", "32Mi", "2Gi"),
}


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume that a PersistentVolumeClaim asks for; the plane's default class unless one is named."""

    size: str
    storage_class: str | None = None


STATE_VOLUME: Final = Volume("2Gi")
HOME_VOLUME: Final = Volume("10Gi")
DATABASE_VOLUME: Final = Volume("5Gi")


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """The partition of a NodeSet."""

    enabled: bool = True
    config: Pairs = ()
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class NodeSetSpec:
    """Workers of one kind. `replicas` is where the set begins; afterwards `kubectl scale` and the lease move it."""

    name: str
    replicas: int
    minimum: int
    maximum: int
    cpus: int
    memory_mib: int
    gpus: int = 0
    gpu_type: str = ""
    gpu_resource: str = "nvidia.com/gpu"
    cpu_request: str | None = None
    memory_request: str | None = None
    partition: PartitionSpec = PartitionSpec()
    features: tuple[str, ...] = ()
    extra_conf: Pairs = ()
    node_selector: Pairs = ()

    @property
    def elastic(self) -> bool:
        """Whether the lease may move the number of workers."""
        return self.minimum < self.maximum

    @property
    def all_features(self) -> tuple[str, ...]:
        """The features of a worker wherever it runs; the set's own name makes it a member."""
        return tuple(dict.fromkeys((self.name, *self.features)))

    @property
    def gres(self) -> str:
        """The GPUs as Slurm names them: `gpu:h100:4`; empty without."""
        if not self.gpus:
            return ""
        return f"gpu:{self.gpu_type}:{self.gpus}" if self.gpu_type else f"gpu:{self.gpus}"

    def worker_name(self, ordinal: int) -> str:
        """The name of a worker: its pod, its host name and its Slurm node."""
        return f"{self.name}-{ordinal}"


@dataclass(frozen=True, slots=True)
class Forwarding:
    """What an ssh certificate allows besides a session."""

    agent: bool = False
    ports: bool = False


@dataclass(frozen=True, slots=True)
class LoginSpec:
    """The login nodes. `keys`: whether ssh keys open them; `revoked`: identities that nothing opens them to."""

    replicas: int = 1
    root_keys: tuple[str, ...] = ()
    keys: bool = True
    forwarding: Forwarding = Forwarding()
    revoked: frozenset[str] = frozenset()
    allotment: Allotment = ALLOTMENTS[LOGIN]


STANDARD_QOS: Final = "normal"  # the QOS that slurmdbd makes itself


@dataclass(frozen=True, slots=True)
class QosSpec:
    """A quality of service that the platform keeps in the accounting database."""

    name: str
    priority: int = 0
    preempts: tuple[str, ...] = ()
    preempt_mode: str | None = None
    max_wall_minutes: int | None = None
    group_tres: Pairs = ()
    user_tres: Pairs = ()


@dataclass(frozen=True, slots=True)
class AccountingSpec:
    """slurmdbd on a MariaDB of the tenant's own."""

    storage: Volume = DATABASE_VOLUME
    qos: tuple[QosSpec, ...] = ()
    enforce: bool = True
    slurmdbd: Allotment = ALLOTMENTS[SLURMDBD]
    mariadb: Allotment = ALLOTMENTS[MARIADB]


@dataclass(frozen=True, slots=True)
class UserSpec:
    """A user of the cluster, the same on every node."""

    name: str
    uid: int
    ssh_keys: tuple[str, ...] = ()
    admin: bool = False
    identities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TopologySpec:
    """Which units of the network the tenant's nodes stand in: blocks of an NVLink domain, or switches of a rack."""

    kind: str = "tree"  # tree, block or flat
    units: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeaseSpec:
    """How patient the platform is with workers that are not needed, or that have to go."""

    idle: timedelta = timedelta(seconds=60)
    grace: timedelta = timedelta(seconds=300)


@dataclass(frozen=True, slots=True)
class SlurmSpec:
    """Everything that the builders need to know about one tenant's Slurm cluster."""

    tenant: str
    cluster_name: str
    version: str
    images: SlurmImages
    image_pull_policy: str = "IfNotPresent"
    node_sets: tuple[NodeSetSpec, ...] = ()
    # NodeSets that are being removed: their partition stays, DOWN, until no job record names it.
    retiring: tuple[str, ...] = ()
    # Those of them whose workers hold GPUs: as long as they run they are what they registered as.
    retiring_gpus: tuple[NodeSetSpec, ...] = ()
    controller: Allotment = ALLOTMENTS[SLURMCTLD]
    state: Volume = STATE_VOLUME
    home: Volume = HOME_VOLUME
    login: LoginSpec | None = LoginSpec()
    rest_api: Allotment | None = ALLOTMENTS[SLURMRESTD]
    accounting: AccountingSpec | None = None
    users: tuple[UserSpec, ...] = ()
    extra_conf: Pairs = ()
    topology: TopologySpec = TopologySpec()
    lease: LeaseSpec = LeaseSpec()
    cluster_domain: str = "cluster.local"
    max_nodes: int = 1024

    @property
    def certificates(self) -> bool:
        """Whether any user may log in with ssh certificates."""
        return self.login is not None and any(user.identities for user in self.users)

    def service(self, name: str) -> str:
        """The full DNS name of a Service of the cluster."""
        return f"{name}.{NAMESPACE}.svc.{self.cluster_domain}"

    def node_set(self, name: str) -> NodeSetSpec | None:
        """The NodeSet of this name."""
        return next((node_set for node_set in self.node_sets if node_set.name == name), None)
