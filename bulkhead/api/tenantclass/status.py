"""The status of a TenantClass, as the controller writes it and people read it. Types only.

The host's policy lists these names when it refuses to delete a class that tenants use.
"""

from typing import Annotated, Final

from pydantic import Field

from bulkhead.api.fields import ApiModel, Count, DnsLabel

MOST_SHOWN: Final = 5


class TenantClassStatus(ApiModel):
    """The tenants of the class."""

    tenants: Count = Field(0, description="Tenants of the class.")
    tenant_names: Annotated[list[DnsLabel], Field(max_length=MOST_SHOWN)] | None = Field(
        None, description="The first of them by name.", json_schema_extra={"x-kubernetes-list-type": "set"}
    )
