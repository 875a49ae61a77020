"""Why a tenant is not built as it is asked for, said in the same form by all who decide that."""

from dataclasses import dataclass

from bulkhead.api.conditions import Reason


@dataclass(frozen=True, slots=True)
class Refusal:
    """The fixed reason of the condition, and the field with both values for people."""

    reason: Reason
    message: str
