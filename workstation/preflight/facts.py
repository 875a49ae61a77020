"""Frozen observations of a cluster, and the reasons for what could not be observed. Pure.

A judge gets what it needs with `need`. If that was not observed, the check is skipped and reports the reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from bulkhead.api.names import SYSTEM_NAMESPACE

Obj: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Unseen:
    """The reason why something is not known."""

    reason: str


class NotSeenError(Exception):
    """A check needs something that was not observed; the text is the reason."""


Listed: TypeAlias = tuple[Obj, ...] | Unseen
# Pairs `client>server`, and whether the connection succeeded; None if the client never reported it.
Reached: TypeAlias = Mapping[str, bool | None]


@dataclass(frozen=True, slots=True)
class Probed:
    """The result of a probe pod."""

    ran: bool
    trouble: str = ""  # why it did not run, as the cluster reports it
    node: str = ""
    said: tuple[Obj, ...] = ()  # what its program printed
    pending: bool = False  # no error, but it was not done in time


@dataclass(frozen=True, slots=True)
class Pull:
    """The result of pulling an image."""

    reference: str
    pulled: bool
    trouble: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class Phases:
    """Which connections succeeded before the policies, under them, and after they were removed."""

    before: Reached
    under: Reached
    after: Reached


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that the judges use."""

    here: datetime  # this machine's clock at the time of `there`
    there: datetime | None = None  # the API server's
    namespace: str = SYSTEM_NAMESPACE  # of the release
    version: str = ""
    lists: Mapping[str, Listed] = field(default_factory=dict)
    groups: Mapping[str, bool | Unseen] = field(default_factory=dict)  # `group/version/resource` ──> served
    denied: tuple[str, ...] | Unseen = Unseen("not asked")
    kubelets: Mapping[str, Obj | Unseen] = field(default_factory=dict)  # node ──> its configuration
    pod_security: bool | Unseen = Unseen("not tried")
    phases: Phases | Unseen = Unseen("not tried")
    probes: Mapping[str, Probed] = field(default_factory=dict)
    claims: Mapping[str, Probed] = field(default_factory=dict)  # what for ──> the pod that used a claim of it
    secrets: Mapping[str, str] = field(default_factory=dict)  # pull secret ──> what is wrong with it; empty if it is usable
    pulls: Mapping[str, Pull] | Unseen = Unseen("not tried")


def need(observed: Observed, name: str) -> tuple[Obj, ...]:
    """A list that was read."""
    found: tuple[Obj, ...] = known(observed.lists.get(name, Unseen(f"{name} were not read")))
    return found


def known(found: Any) -> Any:
    """The observed value. Raises NotSeenError if it was not observed."""
    if isinstance(found, Unseen):
        raise NotSeenError(found.reason)
    return found
