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
    STORAGE_APPLIED = "StorageApplied", "The volumes of the plane's etcd are as they are asked for; once there are any."
    EGRESS_APPLIED = "EgressApplied", "The tenant's pods reach every range of egressCIDRs, without what is the host's."
    STORAGE_CLOSED = (
        "StorageClosed",
        "The servers of the host's storage are closed to the tenant's pods; only where one of them may not be.",
    )
    SHARES_APPLIED = "SharesApplied", "What the host shares with the tenant is in its plane; only where there is anything."
    ISSUERS_READY = "IssuersReady", "Every identity provider of the tenant's users answers; only where it has one."
    AUDIT_DELIVERED = "AuditDelivered", "The audit trail reaches the class's receiver; only where the class names one."
    STORE_HAS_ROOM = "StoreHasRoom", "The plane's store takes more, and its programs have the memory for a full one."
    EXPOSED = "Exposed", "The API server is reached from outside of the host; only where it is to be."
    NODES_DEDICATED = "NodesDedicated", "The nodes of the pool are this tenant's alone; only where the spec asks for it."
    SLURM_READY = "SlurmReady", "The tenant's Slurm cluster runs and answers; only where the spec asks for one."


class Reason(_Explained):
    """Every reason a Tenant's condition can carry. Machines may rely on them; messages are for people."""

    # Good
    READY = "Ready", "Everything that this condition covers is in place and answers."
    MEMBERS_DOWN = "MembersDown", "The plane serves, and some of its members do not; the message names each with its cause."
    APPLIED = "Applied", "The objects exist on the host as the spec asks for them."

    # On the way
    PROVISIONING = "Provisioning", "Objects are being made; nothing is wrong so far."
    WAITING_FOR_PLANE = "WaitingForPlane", "The plane's pod runs but its API server does not answer yet."
    WAITING_FOR_SYNCER = "WaitingForSyncer", "The syncer or the tenant's DNS is not ready yet."
    WAITING_FOR_SLURM = "WaitingForSlurm", "The daemons of the tenant's Slurm cluster are starting."
    WAITING_FOR_NODES = "WaitingForNodes", "Nodes that are to be the tenant's alone are missing, or run pods of others."
    WAITING_FOR_ADDRESS = "WaitingForAddress", "The host has given the tenant's load balancer no address yet."
    RESTARTING = "Restarting", "A part that was ready is starting again, by itself or after a repair."
    TERMINATING = "Terminating", "The tenant is being deleted."

    # Asked for
    PAUSED = (
        "Paused",
        "The spec pauses reconciliation until a given time; only what is revoked and certificates change meanwhile.",
    )

    # Needs a person: the spec cannot be satisfied; nothing is made, and what runs is held to its class
    UNKNOWN_CLASS = "UnknownClass", "No TenantClass has the name in spec.class."
    INVALID_NAME = "InvalidName", "The tenant's name is reserved or would collide with a namespace that is not its own."
    VERSION_UNAVAILABLE = "VersionUnavailable", "The class does not offer the Kubernetes version in spec.kubernetesVersion."
    VERSION_SKEW = (
        "VersionSkew",
        "The plane cannot go from the Kubernetes version that it runs to the one asked for: back, or over a minor version.",
    )
    OUT_OF_BOUNDS = "OutOfBounds", "The spec asks for more than its class allows."
    IMPOSSIBLE_QUOTA = "ImpossibleQuota", "The host can never satisfy the quota, or the class does not know the resource."
    NOT_SUPPORTED = "NotSupported", "The spec asks for something that this version or this host cannot do."
    INVALID_CONFIGURATION = (
        "InvalidConfiguration",
        "A text or name in the spec cannot be taken over; the message says which and why.",
    )
    RESERVED_ADDRESSES = (
        "ReservedAddresses",
        "A range of egressCIDRs is the host's own and is not opened; everything else was done.",
    )
    SERVERS_BY_NAME = (
        "ServersByName",
        "A server of the host's storage is known by its name alone, so egressCIDRs may open it; the message says what to do.",
    )
    SHARE_UNAVAILABLE = (
        "ShareUnavailable",
        "An object that the class shares is missing on the host, too large or of a type that is not shared.",
    )
    SHARE_CONFLICT = "ShareConflict", "The tenant has an object of its own in the place of a shared one; it is left as it is."
    SHARE_HELD = (
        "ShareHeld",
        "A shared volume is withdrawn, or read-only now, and pods have it still as it was; the message names them.",
    )
    DOMAIN_MISSING = "DomainMissing", "The exposure needs a domain that class and installation do not give; it is not exposed."
    ROUTE_REFUSED = "RouteRefused", "The Gateway does not take the tenant's route, or has not said yet; the message says why."
    NODES_TAKEN = "NodesTaken", "Nodes of the dedicated pool are another tenant's; the message names both."
    NAMESPACE_TAKEN = "NamespaceTaken", "A namespace of the tenant's name exists and is not Bulkhead's."
    ADDRESSES_EXHAUSTED = "AddressesExhausted", "No free slice is left in the range that service addresses come from."
    POD_NOT_STARTING = "PodNotStarting", "A pod of the plane cannot start: its image, its node or its volume is missing."
    VOLUME_GROWING = "VolumeGrowing", "A volume of the plane's etcd is being made larger; the message says how far that is."
    VOLUME_KEPT = (
        "VolumeKept",
        "A volume of the plane's etcd cannot become what is asked for and stays; the message says from, to and what to do.",
    )
    STORE_FULL = "StoreFull", "The plane's store is full: its API takes nothing new, only deletions."
    STORE_FILLING = "StoreFilling", "Most of the plane's store is taken; the message says what to do before it is full."
    MEMORY_BELOW_QUOTA = (
        "MemoryBelowQuota",
        "A memory limit of the plane is below what a full store needs; the message names it, and both numbers.",
    )
    DATA_LOST = (
        "DataLost",
        "The plane's data is not what it was: its volume was lost, or an older copy came back. Nothing is deleted on the host.",
    )
    KEYS_LOST = "KeysLost", "The key of the plane's data is in none of its Secrets; no other one is drawn over the data."
    CRASHING = "Crashing", "A container of the plane or the syncer exits again and again."

    # Needs patience or an admin
    HOST_REFUSED = "HostRefused", "The host's API refused an object, by policy, quota or permission."
    HOST_UNAVAILABLE = "HostUnavailable", "The host's API did not answer; the controller tries again."
    PLANE_UNREACHABLE = "PlaneUnreachable", "The plane was ready and does not answer now."
    PLANE_UNREADABLE = (
        "PlaneUnreadable",
        "The plane answers with more than is read, or not with what was asked for; the platform does nothing in it meanwhile.",
    )
    ISSUER_SILENT = (
        "IssuerSilent",
        "An identity provider does not answer, or not as it should; the message says what is wrong and what to do.",
    )
    EVENTS_LOST = "EventsLost", "Events of the audit trail do not reach the receiver; the message says how many and why."
    RECEIVER_UNUSABLE = (
        "ReceiverUnusable",
        "The receiver of the audit trail has no credential that can be used, or no address that planes may reach.",
    )
    SLURM_UNREACHABLE = "SlurmUnreachable", "The tenant's Slurm was ready and does not answer now; its jobs may run on."
    SLURM_REFUSED = "SlurmRefused", "The tenant's plane refused an object of its Slurm cluster."
    TEARDOWN_BLOCKED = "TeardownBlocked", "An object of the tenant does not go away; the message names it."


class CohortCondition(_Explained):
    """What a Cohort reports about itself."""

    RULES_WORK = "RulesWork", "The rules can do what they say; the message names everything that cannot work."


class CohortReason(_Explained):
    """Why the rules of a Cohort work or cannot: of several reasons the first of these."""

    WORK = "RulesWork", "Tenants are in the cohort, and each of its flavors has nodes of its own."
    NO_TENANTS = "NoTenants", "No tenant is in the cohort, so nothing is lent."
    UNKNOWN_FLAVOR = "UnknownFlavor", "A tenant has a quota of a flavor that the Cohort does not list; its pods wait."
    NO_NODES = "NoNodes", "No node carries the labels of a flavor; pods that are to have it wait."
    FLAVORS_OVERLAP = "FlavorsOverlap", "Two flavors of one resource fit the same node, which counts as the first of them."


def condition(
    type_: ConditionType | CohortCondition,
    status: Status,
    reason: Reason | CohortReason,
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
    type_: ConditionType | CohortCondition,
    status: Status,
    reason: Reason | CohortReason,
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


def find_condition(conditions: Sequence[Mapping[str, Any]], type_: str) -> Mapping[str, Any] | None:
    """The condition of this type, if it is there."""
    return next((item for item in conditions if item.get("type") == str(type_)), None)


def is_true(conditions: Sequence[Mapping[str, Any]], type_: str) -> bool:
    """Whether the condition of this type is there and true."""
    found = find_condition(conditions, type_)
    return found is not None and found.get("status") == "True"


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
