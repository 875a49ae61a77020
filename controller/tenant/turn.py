"""What the facets of a tenant are, and what they read: one turn through all of them is one reconcile.

    Turn ──> facet ──> Turn with what it made ──> the next facet ──> … ──> Seen ──> a Report of each

A facet knows no other facet: it reads what an earlier one made, by its type. A Turn is frozen; the runner hands on the next.
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
    """One reconcile of an admitted tenant, as far as it has come."""

    observed: Observed
    admitted: Admitted
    spec: PlaneSpec
    made: tuple[object, ...] = ()  # by the facets so far, the latest last
    refused: tuple[Refused, ...] = ()  # objects of a tenant that runs of which a field never changes

    @property
    def tenant(self) -> str:
        """The tenant's name."""
        return self.spec.tenant

    @property
    def held(self) -> bool:
        """Whether the tenant is held to its class."""
        return self.admitted.held is not None

    def of(self, kind: type[T]) -> T | None:
        """What was made of this type, the latest; None where no facet came so far."""
        return next((made for made in reversed(self.made) if isinstance(made, kind)), None)

    def need(self, kind: type[T]) -> T:
        """The same for a type among the facet's `needs`."""
        found = self.of(kind)
        if found is None:
            raise LookupError(
                f"no facet before this one made a {kind.__name__}: name it in `needs`, and put the facet after it"
            )
        return found

    def plus(self, *made: object) -> "Turn":
        """The turn with what one more facet made; a None is nothing."""
        return replace(self, made=(*self.made, *(each for each in made if each is not None)))


@dataclass(frozen=True, slots=True)
class Seen:
    """What a report is made of: how far the turn came, and what there is on the host at its end."""

    turn: Turn
    failure: Refusal | None = None
    there: Mapping[tuple[Resource, str], Obj] = field(default_factory=dict)

    def was_true(self, condition: ConditionType) -> bool:
        """Whether the Tenant's status had this condition as true."""
        return was_true(self.turn.observed.tenant, condition)

    def named(self, resource: Resource) -> dict[str, Obj]:
        """The tenant's host objects of one kind, by name."""
        return {name: obj for (kind, name), obj in self.there.items() if kind is resource}


def seen(turn: Turn, failure: Refusal | None, after: Iterable[tuple[Resource, Obj]]) -> Seen:
    """How a turn ended; `after` are the tenant's host objects then."""
    return Seen(turn, failure, {(resource, str(obj["metadata"]["name"])): obj for resource, obj in after})


class Facet:
    """One thing that a tenant consists of. Each overrides what it has something to do for; by itself it does nothing."""

    name: ClassVar[str]
    # What earlier facets have to have made, by type: where one of these is missing, this one does not act.
    needs: ClassVar[tuple[type, ...]] = ()
    # Whether it acts although a facet before it has failed.
    in_any_case: ClassVar[bool] = False

    def consider(self, case: Case, *, accepted: bool) -> Case:  # noqa: ARG002 - for those that override it
        """Add what the admission has to know; `accepted`: of the Tenant as it was accepted last, not as it is now."""
        return case

    def awaits(self, admitted: Admitted) -> bool:  # noqa: ARG002
        """Whether something is not known yet that soon will be, and without which nothing is to be made."""
        return False

    async def reconcile(self, turn: Turn) -> Turn:
        """Bring the host, or the plane, to what the turn asks for. A KubeError or TimeoutError fails the turn."""
        return turn

    def report(self, seen: Seen) -> Report:  # noqa: ARG002
        """What is to be said of it, whether it came to act or not. Reads, and asks no server."""
        return Report()

    async def leave(self, tenant: str, *, ends: bool) -> None:
        """End what goes on in a tenant's plane beside its reconciles; `ends`: the plane is taken down, too."""

    async def forget(self, tenant: str) -> None:
        """Drop what is known of a tenant that is gone."""


@dataclass(frozen=True, slots=True)
class GroundLaid:
    """The plane's namespace is there, and its Secrets were read afresh: they are among the observed objects."""


@dataclass(frozen=True, slots=True)
class PullTrouble:
    """What is wrong with the host's own pull secrets; empty where nothing is."""

    words: str


@dataclass(frozen=True, slots=True)
class HostRefused:
    """Everything that the host refused, of what the plane runs without and of what never changes."""

    objects: tuple[Refused, ...]
