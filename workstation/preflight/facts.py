"""What was seen of a cluster, frozen, and what could not be seen, with the reason. Pure.

A judge asks for what it needs with `need`; what was not seen makes its check a skipped one that says why.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

Obj: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Unseen:
    """Why something is not known."""

    reason: str


class NotSeenError(Exception):
    """A check needs what was not seen; the text is the reason."""


Listed: TypeAlias = tuple[Obj, ...] | Unseen
# The pairs `client>server` with whether a connection was made; None: the client never said.
Reached: TypeAlias = Mapping[str, bool | None]


@dataclass(frozen=True, slots=True)
class Probed:
    """What became of a probe pod."""

    ran: bool
    trouble: str = ""  # why it did not run, in the cluster's words
    node: str = ""
    said: tuple[Obj, ...] = ()  # what its program printed
    pending: bool = False  # nothing went wrong, it was not done in time


@dataclass(frozen=True, slots=True)
class Pull:
    """What became of an image."""

    reference: str
    pulled: bool
    trouble: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class Phases:
    """Who reached whom before the policies, under them, and after they were removed."""

    before: Reached
    under: Reached
    after: Reached


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that the judges look at."""

    here: datetime  # this machine's clock at the time of `there`
    there: datetime | None = None  # the API server's
    version: str = ""
    lists: Mapping[str, Listed] = field(default_factory=dict)
    groups: Mapping[str, bool | Unseen] = field(default_factory=dict)  # `group/version/resource` ──> served
    denied: tuple[str, ...] | Unseen = Unseen("not asked")
    kubelets: Mapping[str, Obj | Unseen] = field(default_factory=dict)  # node ──> its configuration
    pod_security: bool | Unseen = Unseen("not tried")
    phases: Phases | Unseen = Unseen("not tried")
    probes: Mapping[str, Probed] = field(default_factory=dict)
    claims: Mapping[str, Probed] = field(default_factory=dict)  # what for ──> the pod that used a claim of it
    secrets: Mapping[str, str] = field(default_factory=dict)  # pull secret ──> what is wrong with it, or nothing
    pulls: Mapping[str, Pull] | Unseen = Unseen("not tried")


def need(observed: Observed, name: str) -> tuple[Obj, ...]:
    """A list that was read."""
    found: tuple[Obj, ...] = known(observed.lists.get(name, Unseen(f"{name} were not read")))
    return found


def known(found: Any) -> Any:
    """What was seen; raises where it was not."""
    if isinstance(found, Unseen):
        raise NotSeenError(found.reason)
    return found
