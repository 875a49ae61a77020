"""Why an object may not be mirrored: the fixed reasons that a tenant reads, and the one error that carries them.

A reason is API: it stands in the condition `PodScheduled=False` and in events of the same name, and scripts match on it.
Nothing here decides anything; the modules beside it raise, the syncer's runtime reports.
"""

from enum import StrEnum
from typing import Final


class Reason(StrEnum):
    """The fixed set of causes; a new one is added here first."""

    NOT_ALLOWED = "NotAllowed"  # policy of the platform or of the tenant's class
    POD_SECURITY = "PodSecurityViolation"  # Pod Security baseline or restricted
    UNKNOWN_FIELD = "UnknownField"  # a field that the allowlist does not know
    NOT_SUPPORTED = "NotSupported"  # a known feature that the platform does not offer
    MALFORMED = "Malformed"  # a value of a shape or range that no API server accepts
    TOO_LARGE = "TooLarge"  # within the API's rules, beyond the platform's bounds
    NODE_NOT_VISIBLE = "NodeNotVisible"  # names a node outside the tenant's pool
    QUOTA_EXCEEDED = "QuotaExceeded"  # the tenant's limit; raised by the runtime
    REFERENCE_MISSING = "ReferenceMissing"  # a ConfigMap, Secret or claim that does not exist yet
    WAITING_FOR_DNS = "WaitingForDNS"  # the tenant's DNS has no address yet
    WAITING_FOR_SCHEDULER = "WaitingForScheduler"  # names a scheduler of the tenant's own, which has not bound it yet
    DRAIN_DEADLINE = "DrainDeadline"  # its node is drained, and budgets have held that up for long enough; told by the runtime
    VOLUME_LOST = "VolumeLost"  # the host has the volume of a claim no longer, and makes an empty one; told by the runtime
    HOST_REFUSED = "HostRefused"  # the host's API server refused the object; raised by the runtime
    NAME_TAKEN = "NameTaken"  # an unmarked host object has the computed name; raised by the runtime


# These pass by themselves: the runtime waits for a change instead of calling the object refused.
RETRIABLE: Final = frozenset(
    {
        Reason.REFERENCE_MISSING,
        Reason.WAITING_FOR_DNS,
        Reason.WAITING_FOR_SCHEDULER,
        Reason.NODE_NOT_VISIBLE,
        Reason.QUOTA_EXCEEDED,
    }
)

_MESSAGE_LIMIT: Final = 512


class Untranslatable(Exception):  # noqa: N818  # the name says what the object is; it is the contract's name
    """The object has no host form. `field` is a path such as `spec.containers[0].env[2].name`, or empty."""

    def __init__(self, reason: Reason, message: str, field: str = "") -> None:
        super().__init__(reason, message, field)
        self.reason = reason
        self.field = field
        self.message = _plain(message)

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message

    @property
    def retriable(self) -> bool:
        """Whether waiting helps."""
        return self.reason in RETRIABLE


def when_raised(when_free: str) -> str:
    """Of a sentence that says what happens when enough is free: the one for what asks for more than its whole quota."""
    started = when_free[:1].lower() + when_free[1:]
    return f"It is more than can ever be in use: {started.replace('enough is free', 'the quota is raised')}"


def _plain(text: str) -> str:
    """`text` without control characters and lone surrogates, and bounded: it may quote what a hostile plane sent."""
    short = text[:_MESSAGE_LIMIT].encode("utf-8", "replace").decode()
    return "".join(sign if sign.isprintable() else "?" for sign in short)
