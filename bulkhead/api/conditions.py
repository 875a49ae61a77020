"""The conditions of a Tenant and of a Cohort: their types, their fixed reasons, and how one is set.

Pure: time is passed in. A condition's `lastTransitionTime` moves only when its status does, and setting what is already
there returns an equal list, so that a status that did not change is not written.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, Literal, Self

from bulkhead.api.untrusted import mapping, mappings

Status = Literal["True", "False", "Unknown"]
MESSAGE_LIMIT: Final = 2048


class _Explained(StrEnum):
    """A string enum whose members carry the sentence that documents them."""

    explanation: str

    def __new__(cls, value: str, explanation: str) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.explanation = explanation
        member.__doc__ = explanation
        return member


class ConditionType(_Explained):
    """What a Tenant reports about itself, one aspect each."""

    READY = "Ready", "The summary: the tenant can be used."
    NAMESPACES_READY = "NamespacesReady", "Both host namespaces exist, with their labels, policies and accounts."
    PKI_READY = (
        "PKIReady",
        "Every CA, key and certificate of the plane exists and is fresh; the message says which renewals are put off, and why.",
    )
    PLANE_READY = "PlaneReady", "The tenant's API server answers and its bootstrap objects are there."
    SYNCER_READY = "SyncerReady", "The syncer and the tenant's DNS run and report themselves ready."
    QUOTA_APPLIED = "QuotaApplied", "The host enforces the quota that the spec asks for."
    STORAGE_APPLIED = "StorageApplied", "The volumes of the plane's etcd match the spec; only once there are any."
    EGRESS_APPLIED = "EgressApplied", "The tenant's pods reach every range of egressCIDRs, except addresses of the host."
    STORAGE_CLOSED = (
        "StorageClosed",
        "The tenant's pods cannot reach the servers of the host's storage; only if one of them may be reachable.",
    )
    SHARES_APPLIED = "SharesApplied", "The plane has all that the host shares with the tenant; only if there is anything."
    ISSUERS_READY = "IssuersReady", "Every identity provider of the tenant's users answers; only if it has one."
    AUDIT_DELIVERED = "AuditDelivered", "Audit events reach the class's receiver; only if the class names one."
    STORE_HAS_ROOM = "StoreHasRoom", "The plane's store has room, and its programs have the memory for a full one."
    STORE_DISK_FAST = "StoreDiskFast", "The disks of the plane's etcd are fast enough; only once enough writes were measured."
    LAST_SNAPSHOT = (
        "LastSnapshot",
        "The last whole snapshot of the plane is as recent as its schedule requires; only if there is a schedule.",
    )
    DEGRADED = "Degraded", "The plane serves, but a member of its etcd is missing or being replaced; only while that is so."
    MEMBERS_SPREAD = "MembersSpread", "Each member of a plane of three is on a node of its own; only for those."
    EXPOSED = "Exposed", "The API server is reachable from outside of the host; only if the spec exposes it."
    NODES_DEDICATED = "NodesDedicated", "The nodes of the pool are dedicated to this tenant; only if the spec requests it."
    SLURM_READY = "SlurmReady", "The tenant's Slurm cluster runs and answers; only if the spec requests one."


class Reason(_Explained):
    """Every reason a Tenant's condition can carry. Machines may rely on them; messages are for people."""

    # Good
    READY = "Ready", "Everything that this condition covers is in place and answers."
    MEMBERS_DOWN = "MembersDown", "The plane serves, but some of its members do not; the message names each with its cause."
    MEMBER_REPLACED = (
        "MemberReplaced",
        "A member of the plane's etcd lost its volume and is being replaced, while the others serve.",
    )
    APPLIED = "Applied", "The objects exist on the host as the spec asks for them."

    # On the way
    PROVISIONING = "Provisioning", "Objects are being created; there is no error so far."
    WAITING_FOR_PLANE = "WaitingForPlane", "The plane's pod runs but its API server does not answer yet."
    WAITING_FOR_SYNCER = "WaitingForSyncer", "The syncer or the tenant's DNS is not ready yet."
    WAITING_FOR_SLURM = "WaitingForSlurm", "The daemons of the tenant's Slurm cluster are starting."
    WAITING_FOR_NODES = "WaitingForNodes", "Nodes for the tenant or a member of its plane are missing, or run pods of others."
    WAITING_FOR_ADDRESS = "WaitingForAddress", "The host has not assigned an address to the tenant's load balancer yet."
    RESTARTING = "Restarting", "A part that was ready is starting again, by itself or after a repair."
    TERMINATING = "Terminating", "The tenant is being deleted."

    # Asked for
    PAUSED = (
        "Paused",
        "The spec pauses reconciliation until a given time; only revocations and certificates change meanwhile.",
    )

    # Needs a person: the spec cannot be satisfied; nothing is made, and what runs is held to its class
    UNKNOWN_CLASS = "UnknownClass", "No TenantClass has the name in spec.class."
    INVALID_NAME = "InvalidName", "The tenant's name is reserved or would collide with a namespace that is not its own."
    VERSION_UNAVAILABLE = "VersionUnavailable", "The class does not offer the Kubernetes version in spec.kubernetesVersion."
    VERSION_SKEW = (
        "VersionSkew",
        "The requested Kubernetes version is older than the plane's, or skips a minor version.",
    )
    OUT_OF_BOUNDS = "OutOfBounds", "The spec requests more than its class allows."
    IRREVERSIBLE = (
        "Irreversible",
        "The spec takes back what was accepted and cannot go back, such as the size of a volume; the message says what to set.",
    )
    IMPOSSIBLE_QUOTA = "ImpossibleQuota", "The host can never satisfy the quota, or the class does not know the resource."
    NOT_SUPPORTED = "NotSupported", "The spec requests something that this version or this host cannot do."
    INVALID_CONFIGURATION = (
        "InvalidConfiguration",
        "A value in the spec cannot be used; the message says which and why.",
    )
    RESERVED_ADDRESSES = (
        "ReservedAddresses",
        "A range of egressCIDRs is the host's own and is not opened; everything else was done.",
    )
    SERVERS_BY_NAME = (
        "ServersByName",
        "A server of the host's storage is known only by its name, so egressCIDRs may open it; the message says what to do.",
    )
    SHARE_UNAVAILABLE = (
        "ShareUnavailable",
        "An object that the class shares is missing on the host, too large or of a type that is not shared.",
    )
    SHARE_CONFLICT = "ShareConflict", "The tenant has an object of its own with the name of a shared one; it is left unchanged."
    SHARE_HELD = (
        "ShareHeld",
        "A shared volume was withdrawn or became read-only, and pods still use it as before; the message names them.",
    )
    DOMAIN_MISSING = (
        "DomainMissing",
        "The exposure needs a domain, which neither class nor installation sets; it has no effect.",
    )
    ROUTE_REFUSED = "RouteRefused", "The Gateway rejects the tenant's route, or has not reported yet; the message says why."
    NODES_TAKEN = "NodesTaken", "Nodes of the dedicated pool belong to another tenant; the message names both."
    NAMESPACE_TAKEN = "NamespaceTaken", "A namespace with the tenant's name exists and does not belong to Bulkhead."
    ADOPTION_REFUSED = (
        "AdoptionRefused",
        "The retained plane that spec.adopt names is not there or not this Tenant's; no other plane is made instead.",
    )
    ADDRESSES_EXHAUSTED = "AddressesExhausted", "The range of Service addresses has no free slice left."
    POD_NOT_STARTING = "PodNotStarting", "A pod of the plane cannot start: its image, its node or its volume is missing."
    VOLUME_GROWING = "VolumeGrowing", "A volume of the plane's etcd is being expanded; the message reports the progress."
    VOLUME_KEPT = (
        "VolumeKept",
        "A volume of the plane's etcd cannot change as requested and stays; the message gives both values and what to do.",
    )
    STORE_FULL = "StoreFull", "The plane's store is full: its API accepts only deletions."
    STORE_FILLING = "StoreFilling", "Most of the plane's store is taken; the message says what to do before it is full."
    MEMBER_LOST = (
        "MemberLost",
        "A member of the plane's etcd lost its volume and cannot be replaced yet; the message says why and what to do.",
    )
    QUORUM_LOST = (
        "QuorumLost",
        "Too few members of the plane's etcd are left to serve; nothing is changed by itself.",
    )
    NODE_LOST = (
        "NodeLost",
        "The node of the plane's only member, or of its volume, is gone; the message has the last snapshot and what to do.",
    )
    SAME_NODE = "SameNode", "Members of a plane of three share a node, so its failure takes them along; the message names both."
    CORRUPT = "Corrupt", "A member of the plane's etcd has other data than the others; the message says what is done about it."
    GROWING = "Growing", "A plane of one member gets two more; the message says how far it is. It serves meanwhile."
    RECOVERING = (
        "Recovering",
        "An admin asked for the recovery of a plane without a quorum from one of its members; the message says how far it is.",
    )
    DISK_SLOW = "DiskSlow", "1 % of the writes to a disk of the plane's etcd take 200 ms or longer; the message has the figure."
    MEMORY_BELOW_QUOTA = (
        "MemoryBelowQuota",
        "A memory limit of the plane is below what a full store needs; the message names it, and both numbers.",
    )
    BACKUP_OVERDUE = (
        "BackupOverdue",
        "No snapshot of the plane was completed for more than two intervals of its schedule; the message says why.",
    )
    NO_BACKUP_PLACE = (
        "NoBackupPlace",
        "Snapshots are scheduled, but the installation has no place for them or no key to encrypt them to.",
    )
    DATA_LOST = "DataLost", "The plane lost its volume, or an older copy of its data came back. Nothing is deleted on the host."
    KEYS_LOST = "KeysLost", "None of the Secrets has the key of the plane's data; no new key is created over the data."
    IDENTITY_IN_DOUBT = (
        "IdentityInDoubt",
        "The record of the plane's identity does not fit the plane or the Tenant; nothing of the plane is changed.",
    )
    RESTORING = "Restoring", "A snapshot takes the place of the plane's data; the message says how far it is."
    CRASHING = "Crashing", "A container of the plane or the syncer exits again and again."

    # Needs patience or an admin
    HOST_REFUSED = "HostRefused", "The host's API refused an object, by policy, quota or permission."
    HOST_UNAVAILABLE = "HostUnavailable", "The host's API did not answer; the controller tries again."
    PLANE_UNREACHABLE = "PlaneUnreachable", "The plane was ready and does not answer now."
    PLANE_UNREADABLE = (
        "PlaneUnreadable",
        "The plane's answers are too large or malformed; the platform changes nothing in it meanwhile.",
    )
    ISSUER_SILENT = (
        "IssuerSilent",
        "An identity provider does not answer, or not as it should; the message says what is wrong and what to do.",
    )
    EVENTS_LOST = "EventsLost", "Audit events do not reach the receiver; the message says how many and why."
    RECEIVER_UNUSABLE = (
        "ReceiverUnusable",
        "The audit receiver has no usable credential, or no address that planes may reach.",
    )
    SLURM_UNREACHABLE = "SlurmUnreachable", "The tenant's Slurm was ready and does not answer now; its jobs may run on."
    SLURM_REFUSED = "SlurmRefused", "The tenant's plane refused an object of its Slurm cluster."
    TEARDOWN_BLOCKED = "TeardownBlocked", "An object of the tenant does not go away; the message names it."


# The spec itself cannot be satisfied: however long one waits, the tenant is Ready only once a person has changed it.
HOPELESS: Final = frozenset(
    {
        Reason.UNKNOWN_CLASS,
        Reason.INVALID_NAME,
        Reason.VERSION_UNAVAILABLE,
        Reason.OUT_OF_BOUNDS,
        Reason.IRREVERSIBLE,
        Reason.IMPOSSIBLE_QUOTA,
        Reason.NOT_SUPPORTED,
        Reason.NAMESPACE_TAKEN,
    }
)


class CohortCondition(_Explained):
    """What a Cohort reports about itself."""

    RULES_WORK = "RulesWork", "The rules can take effect; the message names everything that cannot work."


class CohortReason(_Explained):
    """Why the rules of a Cohort work or cannot: of several reasons the first of these."""

    WORK = "RulesWork", "Tenants are in the cohort, and each of its flavors has nodes of its own."
    NO_TENANTS = "NoTenants", "No tenant is in the cohort, so nothing is lent."
    UNKNOWN_FLAVOR = "UnknownFlavor", "A tenant has quota of a flavor that the Cohort does not list; its pods wait."
    NO_NODES = "NoNodes", "No node has the labels of a flavor; pods that need it wait."
    FLAVORS_OVERLAP = "FlavorsOverlap", "Two flavors of one resource fit the same node, which counts as the first of them."


class SnapshotCondition(_Explained):
    """What a TenantSnapshot reports about itself."""

    COMPLETE = "Complete", "Everything is stored and its manifest is written; the message says where or why not."


class SnapshotReason(_Explained):
    """How far a TenantSnapshot is."""

    WAITING = "Waiting", "It waits for others of this installation; a few are taken at once."
    RUNNING = "Running", "The store is read, encrypted and stored; the message says how much."
    RETRYING = "Retrying", "An attempt failed and the next one follows; the message says why."
    STORED = "Stored", "It is whole."
    REMOVING = "Removing", "The object is deleted, and what is stored of it is not yet; the message says what keeps it."
    FAILED = "Failed", "It will not be taken; the message says why, and what to do before another one is asked for."


class RestoreCondition(_Explained):
    """What a TenantRestore reports about itself."""

    COMPLETE = "Complete", "The plane runs with the snapshot's data; the message says what is left to do."


class RestoreReason(_Explained):
    """How far a TenantRestore is."""

    WAITING = "Waiting", "It waits for the tenant, for another restore of it, or for the keys of the snapshot."
    STOPPING = "Stopping", "The plane and its syncer are stopped. The tenant's pods run on."
    FILLING = "Filling", "The volumes of the plane wait for the store, which `bulkhead tenant restore` sends."
    STARTING = "Starting", "The volumes have the snapshot's data; plane and syncer start."
    RESTORED = "Restored", "The plane runs with the snapshot's data; the message names what the snapshot does not know."
    FAILED = "Failed", "Nothing was replaced; the message says why. The plane runs with the data that it had."


def condition(
    type_: ConditionType | CohortCondition | SnapshotCondition | RestoreCondition,
    status: Status,
    reason: Reason | CohortReason | SnapshotReason | RestoreReason,
    message: str,
    *,
    now: datetime,
    observed_generation: int,
) -> dict[str, Any]:
    """One condition in the shape that Kubernetes gives conditions."""
    return {
        "type": str(type_),
        "status": status,
        "reason": str(reason),
        "message": message[:MESSAGE_LIMIT],
        "lastTransitionTime": timestamp(now),
        "observedGeneration": observed_generation,
    }


def set_condition(
    conditions: Sequence[Mapping[str, Any]],
    type_: ConditionType | CohortCondition | SnapshotCondition | RestoreCondition,
    status: Status,
    reason: Reason | CohortReason | SnapshotReason | RestoreReason,
    message: str,
    *,
    now: datetime,
    observed_generation: int,
) -> list[dict[str, Any]]:
    """The conditions with this one set, in the fixed order of `ConditionType`; conditions of other makers come last."""
    wanted = condition(type_, status, reason, message, now=now, observed_generation=observed_generation)
    before = find_condition(conditions, type_)
    if before is not None and before.get("status") == status and before.get("lastTransitionTime"):
        wanted["lastTransitionTime"] = before["lastTransitionTime"]
    others = [dict(item) for item in conditions if item.get("type") != wanted["type"]]
    return sorted([*others, wanted], key=lambda item: _rank(str(item.get("type"))))


def conditions_of(obj: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The conditions in an object's status."""
    return list((obj.get("status") or {}).get("conditions") or [])


def with_condition(
    obj: Mapping[str, Any],
    type_: SnapshotCondition | RestoreCondition,
    status: Status,
    reason: SnapshotReason | RestoreReason,
    message: str,
    *,
    now: datetime,
) -> list[dict[str, Any]]:
    """The conditions of an object with this one set, for its present generation."""
    generation = int(obj["metadata"].get("generation") or 0)
    return set_condition(conditions_of(obj), type_, status, reason, message, now=now, observed_generation=generation)


def find_condition(conditions: Sequence[Mapping[str, Any]], type_: str) -> Mapping[str, Any] | None:
    """The condition of this type, if it is there."""
    return next((item for item in conditions if item.get("type") == str(type_)), None)


def is_true(conditions: Sequence[Mapping[str, Any]], type_: str) -> bool:
    """Whether the condition of this type is there and true."""
    found = find_condition(conditions, type_)
    return found is not None and found.get("status") == "True"


def current_condition(obj: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """The condition of this type if it is about the current spec; empty if it is missing or older."""
    found = condition_of(obj, type_)
    generation = mapping(obj.get("metadata")).get("generation")
    return found if found and found.get("observedGeneration", generation) == generation else {}


def condition_of(obj: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """The condition of this type in the status of any object; empty where it has none."""
    return find_condition(mappings(mapping(obj.get("status")).get("conditions")), type_) or {}


def timestamp(now: datetime) -> str:
    """A moment as the API writes it: UTC, whole seconds."""
    if now.tzinfo is None:
        raise ValueError("timestamp: a time without a time zone")
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_RANKS: Final = {str(member): rank for rank, member in enumerate(ConditionType)}


def _rank(type_: str) -> int:
    """Where a condition stands in the list; sorting is stable, so unknown ones keep their order behind ours."""
    return _RANKS.get(type_, len(_RANKS))
