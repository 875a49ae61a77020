"""The Slurm cluster of a tenant: `spec.scheduling.slurm` and what its status says of it. Types only.

Fields are named as in the resources of Slinky where they mean the same. Texts that end up in Slurm's files are bounded here and
taken apart by the controller, which refuses the keys that are the platform's.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from bulkhead.api.fields import (
    CPU_AND_MEMORY,
    LABEL_KEYS,
    ApiModel,
    Component,
    Count,
    DnsName,
    LabelKey,
    LabelValue,
    Quantity,
    ResourceName,
    Rule,
    StorageSize,
    model_rules,
    rules,
    text,
)
from bulkhead.api.names import SLURM_LOGINS_MOST

MOST_NODES = 1024
RESERVED_NODE_SETS = ["slurmctld", "slurmdbd", "slurmrestd", "mariadb", "login", "all", "default", "fabric", "root", "none"]

SlurmVersion = Annotated[str, text(16, r"^[0-9]{2}\.[0-9]{2}(\.[0-9]{1,3})?$")]
ClusterName = Annotated[str, text(40, r"^[a-z0-9]([-a-z0-9_]*[a-z0-9])?$")]
NODE_SET_NAME = r"^[a-z]([-a-z0-9]{0,28}[a-z0-9])?$"
NodeSetName = Annotated[str, text(30, NODE_SET_NAME)]
GpuType = Annotated[str, text(32, r"^[a-z][a-z0-9_-]*$")]
Feature = Annotated[str, text(63, r"^[A-Za-z][A-Za-z0-9_.-]*$")]
UserName = Annotated[str, text(32, r"^[a-z_][a-z0-9_-]*$")]
QosName = Annotated[str, text(32, r"^[a-z][a-z0-9_-]*$")]
SshKey = Annotated[
    str,
    text(
        4400,
        r"^(ssh-(ed25519|rsa)|ecdsa-sha2-nistp(256|384|521)|sk-ssh-ed25519@openssh\.com) [A-Za-z0-9+/]+={0,3}( [ -~]{0,128})?$",
    ),
]
# As a plane's API server names a user. It stands in files of one name a line, and is the key id that sshd logs.
Identity = Annotated[str, text(253, r"^[^\x00-\x20\x7f]+$")]
Memory = Annotated[str, text(12, r"^[1-9][0-9]{0,7}(Mi|Gi|Ti)$")]
Minutes = Annotated[int, Field(ge=1, le=5_256_000)]
Replicas = Annotated[int, Field(ge=0, le=MOST_NODES)]

SYSTEM_USERS = ["root", "slurm", "slurmrestd", "mysql", "sshd", "nobody", "daemon", "bin", "sys", "sync", "slurm-admins"]
_UNIQUE_KEYS: dict[str, Any] = {"x-kubernetes-list-type": "set"}


def _tres(description: str) -> Any:
    return Field(
        None,
        max_length=16,
        description=description,
        json_schema_extra=rules(
            {
                "rule": "self.all(key, size(key) <= 64 && key.matches('^(cpu|mem|node|energy|billing|gres/[a-z0-9_:-]+)$'))",
                "message": "every key must be a TRES such as gres/gpu, cpu or mem",
            }
        ),
    )


class SlurmStorage(ApiModel):
    """A volume of the cluster."""

    size: StorageSize | None = Field(
        None,
        description="Size of the volume, for example 10Gi. It may grow but never shrink.",
    )
    class_name: DnsName | None = Field(
        None, description="StorageClass in the tenant's plane that provisions the volume; the plane's default if empty."
    )


class SlurmController(ApiModel):
    """slurmctld."""

    resources: Component | None = Field(None, description="Requests and limits of slurmctld.")
    storage: SlurmStorage | None = Field(None, description="The volume with the queue and all of slurmctld's state.")


class Partition(ApiModel):
    """The partition of a node set; it has the set's name."""

    enabled: bool = Field(True, description="Whether the node set has a partition of its own.")
    default: bool | None = Field(
        None,
        description="Whether jobs that name no partition go here; by default the first node set's partition is the default.",
    )
    config: Annotated[str, text(1024)] | None = Field(
        None, description="Further parameters for the partition's line in slurm.conf, for example MaxTime=1-0 PriorityTier=10."
    )


class NodeSet(ApiModel):
    """Workers of one kind: pods that each run a slurmd with the size and the GPUs that they register."""

    model_config = model_rules(
        {
            "rule": "has(self.replicas) || has(self.max)",
            "message": "say how many workers there are: replicas, or max (and min) for a set that follows its jobs",
        },
        {
            "rule": "!has(self.min) || has(self.max)",
            "message": "min needs max: the set lies between the two",
            "fieldPath": ".min",
        },
        {
            "rule": "!has(self.min) || !has(self.max) || self.min <= self.max",
            "message": "min cannot be more than max",
            "fieldPath": ".min",
        },
        {
            "rule": "!has(self.replicas) || !has(self.max) || (self.replicas <= self.max && "
            "(has(self.min) ? self.min : 0) <= self.replicas)",
            "message": "replicas must lie within min and max",
            "fieldPath": ".replicas",
        },
        {
            "rule": f"!(self.name in {RESERVED_NODE_SETS})",
            "message": "this name has a meaning in Slurm or belongs to a daemon",
            "fieldPath": ".name",
        },
        {
            "rule": "!has(self.gpuType) || self.gpus > 0",
            "message": "gpuType needs gpus",
            "fieldPath": ".gpuType",
        },
    )
    name: NodeSetName = Field(
        description="Name of the set, of its partition, and of a feature of its workers <name>-0 and so on."
    )
    replicas: Replicas | None = Field(
        None, description="Number of workers. With max, the number that the set starts with; min by default."
    )
    min: Replicas | None = Field(None, description="Fewest workers of an elastic set; 0 by default.")
    max: Annotated[int, Field(ge=1, le=MOST_NODES)] | None = Field(
        None, description="Most workers. Between min and max the set follows the pending jobs, within the tenant's quota."
    )
    gpus: Annotated[int, Field(ge=0, le=64)] = Field(0, description="GPUs of each worker.")
    gpu_type: GpuType | None = Field(
        None, description="Type of the GPUs as jobs request it: --gres=gpu:TYPE:N, for example h100."
    )
    gpu_resource: ResourceName | None = Field(
        None, description="Kubernetes resource that workers request for their GPUs; the class's first GPU resource by default."
    )
    cpus: Annotated[int, Field(ge=1, le=1024)] = Field(1, description="CPUs of each worker, as jobs request them.")
    memory: Memory = Field("1Gi", description="Memory of each worker that its jobs may use.")
    requests: dict[ResourceName, Quantity] | None = Field(
        None,
        max_length=2,
        description="What a worker's pod requests, if that is less than it may use: cpu, memory.",
        json_schema_extra=rules(CPU_AND_MEMORY),
    )
    partition: Partition | None = Field(None, description="The partition of the set.")
    features: Annotated[list[Feature], Field(max_length=32)] | None = Field(
        None, description="Features of the workers, for --constraint.", json_schema_extra=_UNIQUE_KEYS
    )
    extra_conf: Annotated[str, text(1024)] | None = Field(
        None, description="Further parameters for the node's configuration (slurmd --conf), for example Weight=10."
    )
    node_selector: dict[LabelKey, LabelValue] | None = Field(
        None,
        max_length=16,
        description="Labels that a node must carry for a worker of the set.",
        json_schema_extra=rules(LABEL_KEYS),
    )


_IDENTITIES: Rule = {
    "rule": "self.all(one, !one.startsWith('system:') && (!one.startsWith('bulkhead:') || one.startsWith('bulkhead:host:')))",
    "message": "users who sign in, with the prefix of their provider, or bulkhead:host:NAME for a user of the host",
}


class Login(ApiModel):
    """The login nodes."""

    enabled: bool = Field(True, description="Whether there are login nodes.")
    replicas: Annotated[int, Field(ge=1, le=SLURM_LOGINS_MOST)] = Field(1, description="Number of login nodes.")
    resources: Component | None = Field(None, description="Requests and limits of each login node.")
    root_ssh_authorized_keys: Annotated[list[SshKey], Field(max_length=32)] | None = Field(
        None, description="SSH keys that open root's account on the login nodes.", json_schema_extra=_UNIQUE_KEYS
    )
    certificates_only: bool = Field(
        False,
        description="Whether login nodes accept only certificates, and no SSH key by itself; a class may require it.",
    )


class RestApi(ApiModel):
    """slurmrestd."""

    enabled: bool = Field(
        True,
        description="Whether the REST API runs; the platform needs it for elastic node sets, for users in the accounting "
        "database, and for status.",
    )
    resources: Component | None = Field(None, description="Requests and limits of slurmrestd.")


class Qos(ApiModel):
    """A quality of service that the platform keeps in the accounting database."""

    name: QosName = Field(description="Name of the QOS.")
    priority: Annotated[int, Field(ge=0, le=1_000_000)] = Field(0, description="Priority of its jobs, relative to the others'.")
    preempt: Annotated[list[QosName], Field(max_length=16)] | None = Field(
        None, description="QOS whose jobs may be requeued for jobs of this one.", json_schema_extra=_UNIQUE_KEYS
    )
    preempt_mode: Literal["requeue", "cancel"] | None = Field(
        None, description="What happens to jobs of this QOS that are preempted; the cluster's PreemptMode by default."
    )
    max_wall_minutes: Minutes | None = Field(None, description="Longest time limit of a job.")
    grp_tres: dict[ResourceName, Count] | None = _tres("What all jobs of the QOS may use together, for example gres/gpu: 8.")
    max_tres_per_user: dict[ResourceName, Count] | None = _tres("What the jobs of one user may use together.")


class Accounting(ApiModel):
    """slurmdbd with a MariaDB of the tenant's own."""

    enabled: bool = Field(False, description="Whether accounting runs; QOS, fair share and sacct need it.")
    storage: SlurmStorage | None = Field(None, description="The volume of the database.")
    enforce: bool = Field(True, description="Whether limits are enforced and only users with an association may submit jobs.")
    qos: Annotated[list[Qos], Field(max_length=32)] | None = Field(
        None,
        description="QOS besides normal, or normal itself, to limit it.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )


class Lease(ApiModel):
    """How patient the platform is with workers that are not needed, or that have to go."""

    idle_seconds: Annotated[int, Field(ge=5, le=86_400)] = Field(
        60, description="How long a worker of an elastic set may be idle before it is given back."
    )
    grace_seconds: Annotated[int, Field(ge=0, le=86_400)] = Field(
        300,
        description="How long jobs may run on a worker that is being removed before they are requeued: after max was lowered, "
        "a node set or the mode was removed, a kubectl scale, or when borrowed GPUs are reclaimed; for a reclaim at most the "
        "Cohort's reclaim.within. The class may allow less.",
    )


class SlurmUser(ApiModel):
    """A user of the cluster, known on every node."""

    model_config = model_rules(
        {
            "rule": f"!(self.name in {SYSTEM_USERS})",
            "message": "this name belongs to the system",
            "fieldPath": ".name",
        }
    )
    name: UserName = Field(description="Name of the user, and of the home directory.")
    uid: Annotated[int, Field(ge=10_000, le=59_999)] = Field(description="User and group id, the same on every node.")
    ssh_keys: Annotated[list[SshKey], Field(max_length=16)] | None = Field(
        None,
        description="SSH keys that let the user in at the login nodes, until all identities of the user are revoked.",
        json_schema_extra=_UNIQUE_KEYS,
    )
    identities: Annotated[list[Identity], Field(max_length=16)] | None = Field(
        None,
        description="Users who get SSH certificates as this user (bulkhead ssh), named as the tenant's API server has them: "
        "corp:ada@example.org of an identity provider, bulkhead:host:ada of the host.",
        json_schema_extra=_UNIQUE_KEYS | rules(_IDENTITIES),
    )
    admin: bool = Field(
        False, description="Whether the user administers the cluster: AdminLevel Admin, and root on login nodes."
    )


_UNIQUE_UIDS: Rule = {
    "rule": "self.all(one, self.exists_one(other, other.uid == one.uid))",
    "message": "two users cannot have one uid",
}
_ONE_DEFAULT: Rule = {
    "rule": "self.filter(item, has(item.partition) && has(item.partition.default) && item.partition.default).size() <= 1",
    "message": "only one partition can be the default",
}
_ALL_NODES: Rule = {
    "rule": f"self.map(item, has(item.max) ? item.max : (has(item.replicas) ? item.replicas : 0)).sum() <= {MOST_NODES}",
    "message": f"the node sets can have {MOST_NODES} workers together",
}


_ASKED_ABOUT_ITS_JOBS: Rule = {
    "rule": "!has(self.restApi) || self.restApi.enabled || !has(self.nodeSets) || "
    "self.nodeSets.all(item, !has(item.max) || (has(item.min) && item.min == item.max))",
    "message": "restApi.enabled must be true with min and max of a node set: without it no worker is created for a job, and "
    "none is given back; give the set replicas, or enable restApi",
    "fieldPath": ".restApi",
}


class Slurm(ApiModel):
    """A Slurm cluster inside the tenant's plane."""

    model_config = model_rules(_ASKED_ABOUT_ITS_JOBS)
    version: SlurmVersion | None = Field(
        None, description="Slurm version, for example 26.05.5; the installation's default if empty."
    )
    cluster_name: ClusterName | None = Field(
        None,
        description="Name of the Slurm cluster; the tenant's name by default. Immutable: state and accounting contain it.",
    )
    controller: SlurmController | None = Field(None, description="slurmctld.")
    node_sets: Annotated[list[NodeSet], Field(max_length=32)] | None = Field(
        None,
        description="The workers.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
        | rules(_ONE_DEFAULT, _ALL_NODES),
    )
    login: Login | None = Field(None, description="The login nodes.")
    rest_api: RestApi | None = Field(None, description="slurmrestd.")
    accounting: Accounting | None = Field(None, description="slurmdbd with a MariaDB for this tenant; disabled by default.")
    topology: Literal["Tree", "Block", "Flat"] | None = Field(
        None,
        description="How Slurm sees the network between the nodes, from their labels for NVLink domains and racks. Tree is "
        "the default; Block keeps a job within as few domains as possible; Flat ignores the labels.",
    )
    lease: Lease | None = Field(None, description="How long the platform keeps workers that are not needed.")
    users: Annotated[list[SlurmUser], Field(max_length=256)] | None = Field(
        None,
        description="Users of the cluster.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]} | rules(_UNIQUE_UIDS),
    )
    home_storage: SlurmStorage | None = Field(None, description="The volume with the home directories, shared by all nodes.")
    extra_conf: Annotated[str, text(8192)] | None = Field(
        None, description="Further lines for slurm.conf, one Key=value each. Keys that are the platform's are refused."
    )


class SlurmNodeCounts(ApiModel):
    """Slurm's nodes by state."""

    total: Count = Field(0, description="Nodes that Slurm knows.")
    idle: Count = Field(0, description="Nodes without a job.")
    mixed: Count = Field(0, description="Nodes that are partly used.")
    allocated: Count = Field(0, description="Nodes that are fully used.")
    down: Count = Field(0, description="Nodes that do not answer or are out of use.")
    drained: Count = Field(0, description="Nodes that take no new jobs.")


class SlurmJobCounts(ApiModel):
    """Slurm's jobs by state."""

    pending: Count = Field(0, description="Jobs that wait.")
    running: Count = Field(0, description="Jobs that run.")


class SlurmStatus(ApiModel):
    """What the tenant's Slurm cluster reports."""

    version: SlurmVersion | None = Field(None, description="Version that runs.")
    cluster_name: ClusterName | None = Field(None, description="Name of the cluster.")
    nodes: SlurmNodeCounts | None = Field(None, description="Nodes by state.")
    jobs: SlurmJobCounts | None = Field(None, description="Jobs by state.")
    summary: Annotated[str, text(64)] | None = Field(None, description="Nodes and jobs in one text, for tables.")
