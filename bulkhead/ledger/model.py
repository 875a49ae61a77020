"""What the ledger sees and what it decides, as frozen data.

Amounts are whole numbers in base units: millicores of cpu, bytes of memory and storage, devices of everything else. Times are
seconds since 1970. A *workload* is what is admitted in one piece: a single pod, or a gang with all of its pods.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from bulkhead.api import ledger, quotalines
from bulkhead.api.workloads import WorkloadKey, workload_key

Amounts: TypeAlias = Mapping[str, int]
Line: TypeAlias = quotalines.Line
# Nodes to avoid, by tenant and by what a pod needs: a tenant's failed bindings affect its own pods alone.
Avoid: TypeAlias = Mapping[tuple[str, "Needs"], frozenset[str]]
# As they stand in the notes on pods; shapes are those of `gangs.shape_of`.
Topology: TypeAlias = ledger.Topology
AdmittedGang: TypeAlias = ledger.AdmittedGang
# The amount that stands for devices of a node that cannot be counted.
UNCOUNTED: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class Share:
    """One tenant's quota of one line."""

    nominal: int
    # How much more than nominal it may hold; None: as much as its cohort has. Without a cohort there is nothing to borrow.
    borrowing: int | None = 0
    # How much of nominal others may borrow; None: all of it.
    lending: int | None = None


@dataclass(frozen=True, slots=True)
class Flavor:
    """A kind of node within one resource: which nodes are of it."""

    name: str
    resource: str
    node_labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Rules:
    """How a cohort lends and takes back."""

    # A pod that borrows runs at least so long before it may be taken back.
    min_runtime: float = 120.0
    # From the decision to take back to the moment when nothing is asked any more: disruption budgets hold until then.
    reclaim_within: float = 180.0
    # Whether a tenant that would borrow may take from one that borrows more, by weight.
    fair_preemption: bool = True
    # What happens to pods over a quota that was lowered, and after how long.
    over_quota: Literal["Keep", "Reclaim"] = "Keep"
    over_quota_grace: float = 600.0
    # An admitted gang that is not bound whole after so long is taken back, and admitted again.
    bind_within: float = 60.0
    # How many pods may be moved to other nodes at once so that a workload finds room; 0: none is moved.
    max_moves: int = 0
    flavors: tuple[Flavor, ...] = ()


@dataclass(frozen=True, slots=True)
class Tenant:
    """One tenant's quotas. What has no share is not limited here; what is counted and not given has a share of 0."""

    name: str
    # "" for a tenant that neither lends nor borrows: it is judged as a cohort of one.
    cohort: str = ""
    weight: int = 1
    shares: Mapping[Line, Share] = field(default_factory=dict)
    # Flavors in the order of preference, by resource.
    prefers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Since when it holds more than its ceiling, as far as it was noted; only with over_quota Reclaim.
    over_since: float | None = None
    # Device class -> the resource that each of its devices counts as.
    devices: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint that keeps pods away: effect NoSchedule or NoExecute."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Node:
    """A host node on which pods may be placed."""

    name: str
    allocatable: Amounts
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    # Ready, and not cordoned.
    usable: bool = True
    # Of what is allocatable, what the host's scheduler gives from ResourceSlices.
    by_slices: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Toleration:
    """What a pod tolerates; an empty key with `exists` is every taint."""

    key: str
    value: str
    effect: str
    exists: bool


@dataclass(frozen=True, slots=True)
class Expression:
    """One requirement on a node's labels, or on its name where `key` is `metadata.name` of `matchFields`."""

    key: str
    operator: str
    values: tuple[str, ...]
    of_name: bool = False


@dataclass(frozen=True, slots=True)
class Needs:
    """Where a pod may go; hashable, as most pods need the same. `terms` are alternatives, each a conjunction."""

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[Expression, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class Gang:
    """Which gang a pod is of. Its scope is the tenant and its virtual namespace, so no tenant reaches another's group."""

    name: str
    size: int
    topology: Topology | None = None


class Stage(StrEnum):
    """How far a pod is."""

    WAITING = "waiting"  # bears the ledger's gate, and no other
    BLOCKED = "blocked"  # bears the ledger's gate and others: cannot be admitted yet, holds nothing
    ADMITTED = "admitted"  # without the ledger's gate and without a node
    BOUND = "bound"  # has a node


# Those that bear the ledger's gate and hold nothing, and those that hold quota.
GATED: Final = (Stage.WAITING, Stage.BLOCKED)
HELD: Final = (Stage.ADMITTED, Stage.BOUND)


@dataclass(frozen=True, slots=True)
class Pod:
    """A host pod that has not ended."""

    uid: str
    namespace: str
    name: str
    asks: Amounts
    stage: Stage
    created: float
    # "" for pods that are no tenant's: they hold room on nodes and nothing else.
    tenant: str = ""
    node: str = ""
    # Of the virtual pod, for texts and as the scope of gangs.
    virtual_namespace: str = ""
    virtual_name: str = ""
    virtual_uid: str = ""
    # As the host computed it from a class that the tenant may use; decides between tenants.
    priority: int = 0
    # As the tenant's own API server computed it; decides only among pods of one tenant.
    own_priority: int = 0
    gang: Gang | None = None
    needs: Needs = Needs()
    # Nothing but `needs` and `asks` decides where it fits: no volume, host port, pod affinity or spreading of its own.
    plain: bool = True
    # When it was admitted; None for pods that never had the gate.
    admitted: float | None = None
    # The gang as which it was admitted, and the shape that it had; None for a single pod, or one that an older ledger admitted.
    admitted_gang: AdmittedGang | None = None
    shape: str = ""
    # It bears the name of a gang, and was admitted by itself.
    alone: bool = False
    flavor: str = ""
    # The node that it was pinned to on admission.
    pinned: str = ""
    # Pending deletion: holds what it holds until it is gone.
    ending: bool = False
    # Until then at the latest: its tenant chooses the grace.
    ends_at: float | None = None
    # When it ends by itself at the latest: start + activeDeadlineSeconds + its grace; of one that is ending, `ends_at`.
    ends_by: float | None = None
    # How long it runs at most once it has started: activeDeadlineSeconds + its grace.
    lasts: float | None = None
    # It is being taken back, until then at the latest, and why: a `Cause`.
    reclaim_by: float | None = None
    reclaim_cause: str = ""
    # A worker of the tenant's Slurm cluster: it is drained, not evicted. As read from a pod it is what the pod says, which its
    # tenant can choose; in the snapshots of the ledger it is what the controller knows.
    slurm_worker: bool = False
    # What in its tenant's plane makes another one when it goes; "" for nothing.
    maker: str = ""
    # The same by kind and name, or the pod itself, as metering names it: `Job/train`; "" for a pod that is past the gate.
    owner: str = ""
    # What is lost with a worker, compared with the tenant's others: below 0 with one that runs nothing; None: unknown.
    loss: int | None = None

    @property
    def workload(self) -> WorkloadKey:
        """What is admitted and taken back in one piece with this pod."""
        return workload_key(self.tenant, self.virtual_namespace, gang=self.gang.name if self.gang else None, pod=self.uid)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim for devices. No gate keeps it: it holds what it asks for from when it is there until it is gone."""

    tenant: str
    asks: Amounts


@dataclass(frozen=True, slots=True)
class Moved:
    """A pod that is moved, or was: what is kept for the one that comes in its stead."""

    pod: Pod
    node: str
    # When that was decided: its successor is not older.
    since: float
    # Until then its place is kept; None while it is there itself.
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that one decision is made from."""

    tenants: Mapping[str, Tenant]
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    # By cohort; a cohort that is not here has the default rules.
    rules: Mapping[str, Rules] = field(default_factory=dict)
    # Nodes on which a pinned pod was not bound in time, by its tenant and what the pod needs: avoided for a while.
    avoid: Avoid = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    moved: tuple[Moved, ...] = ()
    # Since when nodes are reserved for a workload without a forecast of its start, by the UID of its first pod.
    kept_since: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Admission:
    """One pod of an admitted workload. All admissions of a workload stand side by side in `Decisions.admit`."""

    pod: Pod
    # The node that the placement check found; the pod is pinned to it where it is plain.
    node: str
    flavor: str = ""
    # What of it the tenant borrows.
    borrowed: Amounts = field(default_factory=dict)
    # Where it has a flavor, the devices that it asks for and that have none.
    unflavored: tuple[str, ...] = ()
    # The UID of the pod that was moved, in the place of which it comes.
    instead: str = ""
    # The gang as which it is admitted.
    gang: AdmittedGang | None = None


class Why(StrEnum):
    """Why a pod waits, as its tenant reads it, and what will become of one that runs."""

    QUOTA = "QuotaExceeded"
    COHORT = "CohortExhausted"
    GANG = "GangIncomplete"
    TOPOLOGY = "TopologyUnsatisfied"
    CAPACITY = "NoCapacity"
    NEVER = "NeverFits"
    QUEUE = "BehindInQueue"
    RECLAIMING = "WaitingForReclaim"
    GATED = "SchedulingGated"
    LOWERED = "OverQuota"  # it runs, beyond a quota that was lowered


@dataclass(frozen=True, slots=True)
class PodVerdict:
    """Why a pod waits: for all pods of a workload the same text, free of what changes at each turn."""

    why: Why
    message: str
    # When it starts at the latest, if what holds its place ends or is taken back in time; None: unknown.
    starts_by: float | None = None


class Cause(StrEnum):
    """Why a pod is taken back."""

    BORROWED = "ReclaimedBorrowed"  # a workload needs the nominal quota that it borrowed
    FAIRNESS = "ReclaimedFairShare"  # a workload whose tenant borrows less, by weight, needs it
    LOWERED = "ReclaimedOverQuota"  # its tenant's quota was lowered
    ROLLBACK = "GangNotBound"  # its gang was not bound whole in time
    MOVED = "Consolidated"  # something larger needs its node, and it fits on another


@dataclass(frozen=True, slots=True)
class Reclaim:
    """One pod that is taken back. The pods of a gang stand side by side: all of them are marked before the first one goes."""

    pod: Pod
    cause: Cause
    # Budgets and grace hold until then.
    deadline: float
    # The tenant whose workload needs it; "" for a rollback.
    beneficiary: str = ""
    message: str = ""
    # The node on which room is kept for its successor; "" unless it is moved.
    to: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a tenant has of one line, for people: `top`, `describe`, the refusals of its syncer."""

    nominal: int
    # The most that it may ever hold: nominal and what it may borrow.
    ceiling: int
    used: int
    # Of what it uses, what lies beyond nominal.
    borrowed: int
    # Of its nominal, what others hold.
    lent: int
    # What it could borrow at this moment.
    borrowable: int


@dataclass(frozen=True, slots=True)
class Decisions:
    """What is to be done now; the shell does it in this order: reclaim, admit, verdicts, standings."""

    admit: tuple[Admission, ...] = ()
    reclaim: tuple[Reclaim, ...] = ()
    # Being taken back, and no workload waits for it any more.
    spare: tuple[Pod, ...] = ()
    verdicts: Mapping[str, PodVerdict] = field(default_factory=dict)  # by pod UID
    # What pods that run should know, by UID.
    notices: Mapping[str, PodVerdict] = field(default_factory=dict)
    standings: Mapping[str, Mapping[Line, Standing]] = field(default_factory=dict)  # by tenant
    # First pods of the workloads whose nodes are reserved without a forecast of their start.
    keeps: tuple[str, ...] = ()
    # Devices that are free and reserved for workloads that wait, for metering.
    reserved: tuple[quotalines.ReservedRoom, ...] = ()
    # When something is due by itself: a deadline, a minimum runtime that ends. None: only a change is worth a look.
    next_at: float | None = None
