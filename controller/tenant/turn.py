"""The interface of a tenant's facets, and what they read. One turn through all facets is one reconcile.

    Turn ──> facet ──> Turn with what it made ──> the next facet ──> … ──> Seen ──> a Report of each

A facet knows no other facet: it reads the results of earlier ones by their type. A Turn is frozen; the runner passes on the
next.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeVar

from bulkhead.api.conditions import ConditionType
from bulkhead.api.objects import Obj
from bulkhead.kube.objects import Resource
from controller.decide.case import Admitted, Case
from controller.decide.extras import Refused
from controller.plane.spec import PlaneSpec
from controller.refusal import Refusal
from controller.tenant.observe import Observed
from controller.tenant.status import Report, was_true

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Turn:
    """One reconcile of an admitted tenant, up to the present facet."""

    observed: Observed
    admitted: Admitted
    spec: PlaneSpec
    made: tuple[object, ...] = ()  # the results of earlier facets, the latest last
    refused: tuple[Refused, ...] = ()  # objects of a running tenant that were not written, because a field is immutable

    @property
    def tenant(self) -> str:
        """The tenant's name."""
        return self.spec.tenant

    @property
    def held(self) -> bool:
        """Whether the tenant is held to its class."""
        return self.admitted.held is not None

    def of(self, kind: type[T]) -> T | None:
        """The latest result of this type; None if no facet has produced one."""
        return next((made for made in reversed(self.made) if isinstance(made, kind)), None)

    def need(self, kind: type[T]) -> T:
        """The result of a type that is in the facet's `needs`. Raises LookupError if there is none."""
        found = self.of(kind)
        if found is None:
            raise LookupError(
                f"no facet before this one made a {kind.__name__}: name it in `needs`, and put the facet after it"
            )
        return found

    def plus(self, *made: object) -> "Turn":
        """The turn with the results of one more facet; None values are left out."""
        return replace(self, made=(*self.made, *(result for result in made if result is not None)))


@dataclass(frozen=True, slots=True)
class Seen:
    """What reports are computed from: the turn at its end, and the tenant's host objects at that time."""

    turn: Turn
    failure: Refusal | None = None
    there: Mapping[tuple[Resource, str], Obj] = field(default_factory=dict)

    def was_true(self, condition: ConditionType) -> bool:
        """Whether this condition was true in the Tenant's status."""
        return was_true(self.turn.observed.tenant, condition)

    def named(self, resource: Resource) -> dict[str, Obj]:
        """The tenant's host objects of one kind, by name."""
        return {name: obj for (kind, name), obj in self.there.items() if kind is resource}


def seen(turn: Turn, failure: Refusal | None, after: Iterable[tuple[Resource, Obj]]) -> Seen:
    """How a turn ended; `after` are the tenant's host objects at its end."""
    return Seen(turn, failure, {(resource, str(obj["metadata"]["name"])): obj for resource, obj in after})


class Facet:
    """One part of a tenant. A subclass overrides the stages in which it has something to do; the defaults do nothing."""

    name: ClassVar[str]
    # The types that earlier facets must have produced; if one is missing, this facet does not act.
    needs: ClassVar[tuple[type, ...]] = ()
    # Whether it acts even if an earlier facet has failed.
    in_any_case: ClassVar[bool] = False

    def consider(self, case: Case, *, accepted: bool) -> Case:  # noqa: ARG002 - for those that override it
        """Add what the admission must know. `accepted`: the case is about the last accepted spec, not about the present one."""
        return case

    def awaits(self, admitted: Admitted) -> bool:  # noqa: ARG002
        """Whether a fact is still missing that will soon be known, and without which nothing may be created."""
        return False

    async def wishes(self, observed: Observed) -> str:  # noqa: ARG002
        """The slice of the service range that a tenant without one gets if it is free; empty if any will do."""
        return ""

    async def reconcile(self, turn: Turn) -> Turn:
        """Bring the host or the plane to the desired state. A KubeError or TimeoutError fails the turn."""
        return turn

    def report(self, seen: Seen) -> Report:  # noqa: ARG002
        """What to report, whether the facet acted or not. It reads, and makes no request."""
        return Report()

    async def leave(self, tenant: str, *, ends: bool) -> None:
        """End what runs in a tenant's plane between its reconciles. `ends`: the plane is being torn down, too."""

    async def forget(self, tenant: str) -> None:
        """Drop what is known of a deleted tenant. After a KubeError it is called again."""


@dataclass(frozen=True, slots=True)
class GroundLaid:
    """The plane's namespace exists, and its Secrets were just read: they are among the observed objects."""


@dataclass(frozen=True, slots=True)
class Inherited:
    """The identity that a plane takes which is not there yet: that of the snapshot from which it is restored."""

    identity: str


@dataclass(frozen=True, slots=True)
class Identified:
    """The plane's record counts; the turn's spec has the identity from it."""

    identity: str
    record: str  # as it is signed


@dataclass(frozen=True, slots=True)
class PullTrouble:
    """What is wrong with the host's own pull secrets; empty if nothing is."""

    words: str


@dataclass(frozen=True, slots=True)
class HostRefused:
    """All objects that the host refused: optional ones, and those with an immutable field."""

    objects: tuple[Refused, ...]
