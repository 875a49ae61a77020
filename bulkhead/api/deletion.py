"""How a Tenant is deleted: whether that is confirmed, and whether its plane can be had back for a time. Types only.

The class says the least: a Tenant may keep more than its class does, and never less
(docs/decisions/0051-retained-planes.md).
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from bulkhead.api.fields import ApiModel, Rule, model_rules, rules, text
from bulkhead.api.labels import CONFIRM

_BOUNDED: Final[Rule] = {
    "rule": "duration(self) >= duration('1h') && duration(self) <= duration('8760h')",
    "message": "from 1h to 8760h",
}
_NEEDS_TIME: Final[Rule] = {
    "rule": "!has(self.policy) || self.policy == 'Delete' || has(self.retainFor)",
    "message": "policy Retain needs retainFor: for how long planes are kept",
    "fieldPath": ".retainFor",
}
DeletionPolicy = Literal["Delete", "Retain"]
RetainFor = Annotated[str, text(5, r"^[1-9][0-9]{0,3}h$"), Field(json_schema_extra=rules(_BOUNDED))]


class ClassDeletion(ApiModel):
    """How Tenants are deleted."""

    model_config = model_rules(_NEEDS_TIME)
    confirm: bool = Field(
        False,
        description=f"Whether a Tenant can be deleted only with the annotation {CONFIRM}, which has its UID. The host's API "
        "server refuses all other deletions, also of its namespaces.",
    )
    policy: DeletionPolicy = Field(
        "Delete",
        description="Delete: everything of a deleted Tenant is deleted. Retain: its plane's volumes, keys, identity and slice "
        "are kept for retainFor. A Tenant may ask for Retain as well.",
    )
    retain_for: RetainFor | None = Field(
        None, description="For how long planes are kept, for example 168h: 1h to 8760h. Without it none is."
    )


class Deletion(ApiModel):
    """How the Tenant will be deleted, as the controller last found it."""

    policy: DeletionPolicy = Field(description="Whether its plane is kept.")
    retain_for: RetainFor | None = Field(None, description="For how long.")
    confirm: bool = Field(False, description="Whether its deletion has to be confirmed.")
