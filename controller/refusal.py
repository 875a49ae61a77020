"""Why a tenant is not built as its spec requests; every decision about this returns the same type."""

from dataclasses import dataclass

from bulkhead.api.conditions import Reason


@dataclass(frozen=True, slots=True)
class Refusal:
    """The condition's reason, and a message with the field, its value and the bound."""

    reason: Reason
    message: str
