"""What the ledger sees and what it decides, as frozen data.

Amounts are whole numbers in base units: millicores of cpu, bytes of memory and storage, devices of everything else. Times are
seconds since 1970. A *workload* is admitted in one piece: it is a single pod, or a gang with all of its pods.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from bulkhead.api import ledger, quotalines
from bulkhead.api.workloads import WorkloadKey, workload_key

Amounts: TypeAlias = Mapping[str, int]
Line: TypeAlias = quotalines.Line
# Nodes to avoid, by tenant and by what a pod needs: a tenant's failed bindings affect only its own pods.
Avoid: TypeAlias = Mapping[tuple[str, "Needs"], frozenset[str]]
# As pods' annotations record them; shapes are those of `gangs.shape_of`.
Topology: TypeAlias = ledger.Topology
AdmittedGang: TypeAlias = ledger.AdmittedGang
# The amount of a node's devices if they cannot be counted.
UNCOUNTED: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class Share:
    """One tenant's quota of one line."""

    nominal: int
    # How much more than nominal it may hold; None: whatever its cohort has. Without a cohort there is nothing to borrow.
    borrowing: int | None = 0
    # How much of nominal others may borrow; None: all of it.
    lending: int | None = None


@dataclass(frozen=True, slots=True)
class Flavor:
    """A kind of node within one resource, and the labels that its nodes have."""

    name: str
    resource: str
    node_labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Rules:
    """How a cohort lends and reclaims. Durations are in seconds."""

    # A pod that borrows runs at least this long before it may be reclaimed.
    min_runtime: float = 120.0
    # From the decision to reclaim to the deadline; disruption budgets are respected until then.
    reclaim_within: float = 180.0
    # Whether a tenant that would borrow may reclaim from a tenant with a larger share.
    fair_preemption: bool = True
    # What happens to pods over a quota that was lowered, and after how long.
    over_quota: Literal["Keep", "Reclaim"] = "Keep"
    over_quota_grace: float = 600.0
    # A gang whose pods are not all bound this long after admission is evicted, and admitted again.
    bind_within: float = 60.0
    # The most pods that may be moved to other nodes at once so that a workload finds room; 0: none is moved.
    max_moves: int = 0
    flavors: tuple[Flavor, ...] = ()


@dataclass(frozen=True, slots=True)
class Tenant:
    """One tenant's quotas. Lines without a share are not limited here; a line that is limited to nothing has a share of 0."""

    name: str
    # "" for a tenant that neither lends nor borrows; it is judged as a cohort of its own.
    cohort: str = ""
    weight: int = 1
    shares: Mapping[Line, Share] = field(default_factory=dict)
    # Flavors in the order of preference, by resource.
    prefers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Since when it holds more than its ceiling, of each line for which that is recorded; only with over_quota Reclaim.
    over_since: Mapping[Line, float] = field(default_factory=dict)
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
    # The allocatable resources whose devices the host's scheduler takes from ResourceSlices.
    by_slices: frozenset[str] = frozenset()
    # Not ready, so its pods may never end. On a node that is only cordoned they do.
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Toleration:
    """What a pod tolerates; an empty key with `exists` tolerates every taint."""

    key: str
    value: str
    effect: str
    exists: bool


@dataclass(frozen=True, slots=True)
class Expression:
    """One requirement on a node's labels; with `of_name`, on its name (`metadata.name` of `matchFields`)."""

    key: str
    operator: str
    values: tuple[str, ...]
    of_name: bool = False


@dataclass(frozen=True, slots=True)
class Needs:
    """The nodes that a pod may go to; `terms` are alternatives, each a conjunction. Hashable: most pods need the same."""

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[Expression, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class Gang:
    """The gang that a pod belongs to. Its scope is the tenant and the virtual namespace: gangs never span tenants."""

    name: str
    size: int
    topology: Topology | None = None


class Stage(StrEnum):
    """How far a pod has come on its way to a node."""

    WAITING = "waiting"  # has the ledger's gate, and no other
    BLOCKED = "blocked"  # has the ledger's gate and others: cannot be admitted yet, holds nothing
    ADMITTED = "admitted"  # without the ledger's gate and without a node
    BOUND = "bound"  # has a node


# Stages with the ledger's gate, in which a pod holds nothing, and stages in which it holds quota.
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
    # "" for pods of the host, which hold room on nodes but no quota.
    tenant: str = ""
    node: str = ""
    # Identity of the virtual pod, for messages and as the scope of gangs.
    virtual_namespace: str = ""
    virtual_name: str = ""
    virtual_uid: str = ""
    # As the host computed it from a PriorityClass that the tenant may use; compared between tenants.
    priority: int = 0
    # As the tenant's own API server computed it; compared only among pods of one tenant.
    own_priority: int = 0
    gang: Gang | None = None
    needs: Needs = Needs()
    # Only `needs` and `asks` decide where it fits: it has no volume, host port, pod affinity or topology spreading of its own.
    plain: bool = True
    # When it was admitted; None for pods that never had the gate.
    admitted: float | None = None
    # The gang with which it was admitted, and its shape then; None for a single pod, or a pod that an older ledger admitted.
    admitted_gang: AdmittedGang | None = None
    shape: str = ""
    # It names a gang, but was admitted by itself.
    alone: bool = False
    flavor: str = ""
    # The node that it was pinned to on admission.
    pinned: str = ""
    # Pending deletion; it holds quota and room until it is gone.
    ending: bool = False
    # When a pod that is ending is gone at the latest; its tenant chooses the grace.
    ends_at: float | None = None
    # When it ends by itself at the latest: start + activeDeadlineSeconds + its grace; if it is ending, `ends_at`.
    ends_by: float | None = None
    # How long it runs at most once it has started: activeDeadlineSeconds + its grace.
    lasts: float | None = None
    # The deadline of its reclaim, if it is being reclaimed, and why: a `Cause`.
    reclaim_by: float | None = None
    reclaim_cause: str = ""
    # A worker of the tenant's Slurm cluster: it is drained, not evicted. When read from a pod, this is what the pod's labels
    # say, which its tenant can choose; in the snapshots of the ledger it is what the controller knows.
    slurm_worker: bool = False
    # UID of the controller in its tenant's plane that recreates it; "" if there is none.
    maker: str = ""
    # That controller by kind and name, or the pod itself, as metering names it: `Job/train`; "" for a pod past the gate.
    owner: str = ""
    # How much work is lost with a Slurm worker, compared with the tenant's others: below 0 if it runs nothing; None: unknown.
    loss: int | None = None

    @property
    def workload(self) -> WorkloadKey:
        """The key of the workload that is admitted and reclaimed in one piece with this pod."""
        return workload_key(self.tenant, self.virtual_namespace, gang=self.gang.name if self.gang else None, pod=self.uid)


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim. It has no gate: it holds the devices that it requests for as long as it exists."""

    tenant: str
    asks: Amounts


@dataclass(frozen=True, slots=True)
class Moved:
    """A pod that is being moved or was moved, and the node on which room is reserved for its successor."""

    pod: Pod
    node: str
    # When the move was decided; its successor is not older.
    since: float
    # When the reservation ends; None while the moved pod itself still exists.
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything from which one decision is made."""

    tenants: Mapping[str, Tenant]
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    # By cohort; a cohort without an entry has the default rules.
    rules: Mapping[str, Rules] = field(default_factory=dict)
    # Nodes on which a pinned pod was not bound in time, by tenant and needs of the pod; they are avoided for a while.
    avoid: Avoid = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    moved: tuple[Moved, ...] = ()
    # Since when nodes are reserved for a workload without a forecast of its start, by the UID of its first pod.
    kept_since: Mapping[str, float] = field(default_factory=dict)

    def rules_for(self, tenant: str) -> Rules:
        """The rules of a tenant's cohort; the default rules for a tenant that is not known."""
        known = self.tenants.get(tenant)
        return self.rules.get(known.cohort if known else "", Rules())


@dataclass(frozen=True, slots=True)
class Admission:
    """One pod of an admitted workload. All admissions of a workload follow one another in `Decisions.admit`."""

    pod: Pod
    # The node that the placement check found; the pod is pinned to it if it is plain.
    node: str
    flavor: str = ""
    # How much of what it requests the tenant borrows.
    borrowed: Amounts = field(default_factory=dict)
    # If it has a flavor, the devices that it requests and that have no flavors.
    unflavored: tuple[str, ...] = ()
    # The UID of the moved pod that it replaces.
    instead: str = ""
    # The gang with which it is admitted.
    gang: AdmittedGang | None = None


class Why(StrEnum):
    """Reasons that tenants read: why a pod waits, and what will become of a running pod."""

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
    """Why a pod waits. All pods of a workload have the same message, which does not change every turn."""

    why: Why
    message: str
    # When it starts at the latest, if the pods in its place end or are reclaimed in time; None: unknown.
    starts_by: float | None = None


class Cause(StrEnum):
    """Why a pod is reclaimed."""

    BORROWED = "ReclaimedBorrowed"  # a workload of the lender needs the quota
    FAIRNESS = "ReclaimedFairShare"  # a workload of a tenant with a smaller share needs the quota
    LOWERED = "ReclaimedOverQuota"  # its tenant's quota was lowered
    ROLLBACK = "GangNotBound"  # not all pods of its gang were bound in time
    MOVED = "Consolidated"  # a larger workload needs its node, and the pod fits on another node


@dataclass(frozen=True, slots=True)
class Reclaim:
    """One pod to reclaim. The pods of a gang follow one another: all of them are marked before the first is evicted."""

    pod: Pod
    cause: Cause
    # Disruption budgets and grace periods are respected until then.
    deadline: float
    # The tenant whose workload needs it; "" for a rollback.
    beneficiary: str = ""
    message: str = ""
    # The node on which room is kept for its successor; "" unless it is moved.
    to: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """A tenant's numbers for one line, as `top`, `describe` and the refusals of its syncer show them."""

    nominal: int
    # The most that it may ever hold: nominal and what it may borrow.
    ceiling: int
    used: int
    # The part of `used` that is beyond nominal.
    borrowed: int
    # The part of its nominal quota that others hold.
    lent: int
    # How much more it could borrow now.
    borrowable: int


@dataclass(frozen=True, slots=True)
class Decisions:
    """What the shell should do now, in this order: reclaim, admit, verdicts, standings."""

    admit: tuple[Admission, ...] = ()
    reclaim: tuple[Reclaim, ...] = ()
    # Pods that are being reclaimed although no workload waits for their devices any longer.
    spare: tuple[Pod, ...] = ()
    verdicts: Mapping[str, PodVerdict] = field(default_factory=dict)  # by pod UID
    # Messages for running pods, by UID.
    notices: Mapping[str, PodVerdict] = field(default_factory=dict)
    standings: Mapping[str, Mapping[Line, Standing]] = field(default_factory=dict)  # by tenant
    # First pods of the workloads whose nodes are reserved without a forecast of their start.
    keeps: tuple[str, ...] = ()
    # Free devices that are reserved for waiting workloads, for metering.
    reserved: tuple[quotalines.ReservedRoom, ...] = ()
    # When the next turn is due even if nothing changes: a deadline, the end of a minimum runtime. None: only after a change.
    next_at: float | None = None
