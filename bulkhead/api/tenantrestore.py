"""`TenantRestore`: a snapshot that takes the place of a tenant's plane, or becomes another tenant. Types only.

Made by `bulkhead tenant restore`, which alone can decrypt a snapshot. The manifest in it is signed, so the controller believes
nothing else about the snapshot. Keys arrive in Secret `plane-restore` of the plane's namespace, the store through a pod.
"""

from typing import Annotated, Final

from pydantic import Field

from bulkhead.api import names
from bulkhead.api.fields import ApiModel, Moment, Rule, model_rules, text
from bulkhead.api.tenantstatus import Condition

# A signed manifest has about 3 KiB.
LONGEST_MANIFEST: Final = 64 * 1024
MOST_NAMED: Final = 32

_FIXED: Final[Rule] = {"rule": "self == oldSelf", "message": "a restore is of one snapshot: delete this one and make another"}
_ANOTHER: Final[Rule] = {
    "rule": "!has(self.cloneOf) || self.cloneOf != self.tenant",
    "message": "a clone needs another name than its original; leave cloneOf out to restore the Tenant itself",
    "fieldPath": ".cloneOf",
}
_NAME: Final[Rule] = {
    "rule": "self.metadata.name.size() <= 128",
    "message": "the name must have at most 128 characters",
}


class TenantRestoreSpec(ApiModel):
    """What takes the place of what."""

    model_config = model_rules(_FIXED, _ANOTHER)

    tenant: Annotated[str, text(names.TENANT_NAME_LIMIT, names.TENANT_NAME_PATTERN)] = Field(
        description="The Tenant whose plane is replaced."
    )
    manifest: Annotated[str, text(LONGEST_MANIFEST)] = Field(
        description="The manifest of the snapshot, as it is stored: signed by this installation."
    )
    clone_of: Annotated[str, text(names.TENANT_NAME_LIMIT, names.TENANT_NAME_PATTERN)] | None = Field(
        None,
        description="The Tenant of which the snapshot is, if its data becomes a clone: another Tenant, with identity, slice, "
        "keys and certificates of its own. By default the snapshot is of the same Tenant.",
    )
    discard_old_data: bool = Field(
        False,
        description="Whether the plane's present data is deleted as soon as the snapshot has arrived whole. Otherwise it stays "
        "on the volume until the next restore.",
    )


class TenantRestoreStatus(ApiModel):
    """How far it is."""

    conditions: Annotated[list[Condition], Field(max_length=8)] | None = Field(
        None,
        description="Complete: whether the plane runs with the snapshot's data.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    identity: Annotated[str, text(64)] | None = Field(None, description="Identity of the plane.")
    snapshot: Annotated[str, text(253)] | None = Field(None, description="Name of the snapshot.")
    snapshot_time: Annotated[str, text(64)] | None = Field(None, description="When the snapshot was taken.")
    start_time: Moment | None = Field(None, description="When the plane was told to stop.")
    filled_time: Moment | None = Field(None, description="When every volume of the plane had the snapshot's data.")
    completion_time: Moment | None = Field(None, description="When the plane answered with it.")
    bump: Annotated[int, Field(ge=0, le=1 << 62, json_schema_extra={"format": "int64"})] | None = Field(
        None, description="By how much the revisions of the store were raised, so that none is used twice."
    )
    unknown: Annotated[list[Annotated[str, text(600)]], Field(max_length=MOST_NAMED)] | None = Field(
        None,
        description="Objects on the host that the snapshot does not know; the first of them.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    unknown_count: Annotated[int, Field(ge=0, le=1 << 31)] | None = Field(None, description="How many there are.")


class TenantRestore(ApiModel):
    """A snapshot that takes the place of a tenant's plane."""

    model_config = model_rules(_NAME)

    spec: TenantRestoreSpec = Field(description="What takes the place of what.")
    status: TenantRestoreStatus | None = Field(None, description="How far it is.")
