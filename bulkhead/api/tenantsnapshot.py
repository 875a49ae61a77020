"""`TenantSnapshot`: a copy of a tenant's plane, encrypted, outside of the host. Types only.

Made by an admin of the host, by `bulkhead tenant snapshot`, or by a schedule. The controller takes it once; afterwards the
object only says where it is: deleting the object deletes nothing that is stored, except of one that a schedule asked for.
"""

from typing import Annotated, Final

from pydantic import Field

from bulkhead.api import names
from bulkhead.api.fields import ApiModel, Moment, Rule, model_rules, text
from bulkhead.api.tenantstatus import Condition

MOST_BYTES: Final = 1 << 50
_FIXED: Final[Rule] = {"rule": "self == oldSelf", "message": "a snapshot is of one tenant and one moment: make another one"}
_NAME: Final[Rule] = {
    "rule": "self.metadata.name.size() <= 128",
    "message": "the name must have at most 128 characters",
}
Bytes = Annotated[int, Field(ge=0, le=MOST_BYTES, json_schema_extra={"format": "int64"})]


class TenantSnapshotSpec(ApiModel):
    """What it is of."""

    model_config = model_rules(_FIXED)
    tenant: Annotated[str, text(names.TENANT_NAME_LIMIT, names.TENANT_NAME_PATTERN)] = Field(
        description="The Tenant whose plane is copied."
    )


class TenantSnapshotStatus(ApiModel):
    """How far it is, and where."""

    conditions: Annotated[list[Condition], Field(max_length=8)] | None = Field(
        None,
        description="Complete: whether it is whole.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    identity: Annotated[str, text(64)] | None = Field(None, description="Identity of the plane that it is of.")
    location: Annotated[str, text(1024)] | None = Field(None, description="Where its manifest is.")
    target: Annotated[str, text(64)] | None = Field(
        None, description="Name of the target in backup.targets of the chart; none for the installation's own place."
    )
    store_bytes: Bytes | None = Field(None, description="Bytes of the plane's store.")
    stored_bytes: Bytes | None = Field(None, description="Bytes that are stored so far.")
    attempts: Annotated[int, Field(ge=0, le=1000)] | None = Field(None, description="Attempts so far.")
    start_time: Moment | None = Field(None, description="When the first attempt began.")
    completion_time: Moment | None = Field(
        None, description="When it was whole: it has everything that was written before the start of the last attempt."
    )


class TenantSnapshot(ApiModel):
    """A copy of a tenant's plane at one moment."""

    model_config = model_rules(_NAME)
    spec: TenantSnapshotSpec = Field(description="What it is of.")
    status: TenantSnapshotStatus | None = Field(None, description="How far it is, and where.")
