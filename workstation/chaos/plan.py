"""Decides what a run would do, from what was asked and what the cluster has; or refuses it. Pure.

A plan contains everything that a dry run prints: each tenant that would be created, the one that would be broken, and what each
experiment touches. Nothing outside of it is touched.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from workstation.chaos.experiments import BY_NAME, Experiment

MIN_TENANTS: Final = 2
MAX_TENANTS: Final = 10
MAX_EXPERIMENTS: Final = 20
# Certificates for planes are valid for one hour, so a run must be shorter.
MAX_RUN_SECONDS: Final = 2700.0
DEFAULT_CLASS: Final = "standard"
# Assumed for the estimate of a run's length.
_CREATE_SECONDS: Final = 60.0
_RECOVER_SECONDS: Final = 15.0
_UNDO_SECONDS: Final = 30.0


class Why(Enum):
    """Why a run is refused."""

    USAGE = "usage"
    NOT_FOUND = "not found"


class Refused(ValueError):  # noqa: N818 - reads as a sentence: except Refused
    """The run is refused; nothing was changed."""

    def __init__(self, cause: str, next_step: str, why: Why = Why.USAGE) -> None:
        super().__init__(cause)
        self.cause = cause
        self.next_step = next_step
        self.why = why


@dataclass(frozen=True, slots=True)
class Order:
    """What was asked for."""

    experiments: tuple[str, ...]
    # The tenant to break; None for one that the run creates.
    target: str | None = None
    # The name that was typed to confirm the target.
    confirmed: str | None = None
    # How many tenants to create; one of them is broken if no target is named.
    tenants: int = 3
    class_name: str | None = None
    image: str | None = None
    baseline_seconds: float = 30.0
    # How long each fault lasts.
    fault_seconds: float = 20.0
    # A request that takes longer counts as failed.
    request_seconds: float = 5.0
    # Whether it is to be done; a dry run needs no confirmation.
    acts: bool = True


@dataclass(frozen=True, slots=True)
class TenantFact:
    """A Tenant of the cluster."""

    uid: str
    ready: bool
    # The run that created it; empty for a tenant of other people.
    run: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the cluster has."""

    classes: tuple[str, ...]
    tenants: Mapping[str, TenantFact]
    # The image of Bulkhead's controller, which has Python; empty if it is unknown.
    image: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """A run, before it begins."""

    run: str
    # The tenants to create.
    creates: tuple[str, ...]
    class_name: str
    target: str
    # The UID of a target that exists; empty for one that the run creates.
    target_uid: str
    experiments: tuple[Experiment, ...]
    image: str
    baseline_seconds: float
    fault_seconds: float
    request_seconds: float

    @property
    def neighbours(self) -> tuple[str, ...]:
        """The tenants that are measured."""
        return tuple(name for name in self.creates if name != self.target)

    @property
    def own_target(self) -> bool:
        """Whether the run creates the tenant that it breaks."""
        return self.target in self.creates

    @property
    def small_store(self) -> bool:
        """Whether the target gets a small store, because it will be filled."""
        return any(experiment.name == "store-filled" for experiment in self.experiments)

    @property
    def seconds(self) -> float:
        """About how long the run takes if everything recovers quickly."""
        experiment = self.fault_seconds + _RECOVER_SECONDS
        return _CREATE_SECONDS + self.baseline_seconds + experiment * len(self.experiments) + _UNDO_SECONDS

    @property
    def most_seconds(self) -> float:
        """The longest that baseline and experiments may take."""
        return self.baseline_seconds * 3 + sum(
            self.fault_seconds * 2 + experiment.recover_seconds for experiment in self.experiments
        )


def plan(order: Order, facts: Facts, run: str) -> Plan:
    """The run that was asked for. Raises Refused."""
    experiments = _experiments(order.experiments)
    if not MIN_TENANTS <= order.tenants <= MAX_TENANTS:
        raise Refused(
            f"--tenants must be between {MIN_TENANTS} and {MAX_TENANTS}, not {order.tenants}", "two are enough: one is measured"
        )
    creates = tuple(f"{run}-{number}" for number in range(1, order.tenants + 1))
    taken = sorted(set(creates) & set(facts.tenants))
    if taken:
        raise Refused(f"tenant {taken[0]} exists already", "run it again: the next run has other names")
    target, uid = _target(order, facts, experiments) if order.target else (creates[0], "")
    image = order.image or facts.image
    needing = [experiment.name for experiment in experiments if experiment.needs_image]
    if needing and not image:
        raise Refused(
            f"{needing[0]} runs a pod, and the controller's image is unknown", "give an image with python3: --image IMAGE"
        )
    made = Plan(
        run=run,
        creates=creates,
        class_name=_class(order.class_name, facts.classes),
        target=target,
        target_uid=uid,
        experiments=experiments,
        image=image,
        baseline_seconds=order.baseline_seconds,
        fault_seconds=order.fault_seconds,
        request_seconds=order.request_seconds,
    )
    if made.most_seconds > MAX_RUN_SECONDS:
        raise Refused(
            f"the run could take {made.most_seconds / 60:.0f} minutes, and may take {MAX_RUN_SECONDS / 60:.0f}",
            "run fewer experiments at once, or shorten them with --duration",
        )
    return made


def _experiments(names: tuple[str, ...]) -> tuple[Experiment, ...]:
    """The experiments with these names, each once, in the order in which they were named."""
    wanted = tuple(dict.fromkeys(names))
    if not wanted:
        raise Refused("no experiment is named", "choose from: bulkhead chaos list")
    if len(wanted) > MAX_EXPERIMENTS:
        raise Refused(f"--experiment may be given {MAX_EXPERIMENTS} times at most, not {len(wanted)} times", "name fewer")
    for name in wanted:
        if name not in BY_NAME:
            raise Refused(f"no experiment is called {name[:100]!r}", "choose from: bulkhead chaos list")
    return tuple(BY_NAME[name] for name in wanted)


def _target(order: Order, facts: Facts, experiments: tuple[Experiment, ...]) -> tuple[str, str]:
    """A target that exists, and its UID; it must have been named twice."""
    name = str(order.target)
    found = facts.tenants.get(name)
    if found is None:
        raise Refused(f"tenant {name}: not found", "list the tenants: bulkhead tenant list", Why.NOT_FOUND)
    if order.confirmed != name and (order.acts or order.confirmed):
        cause = f"--confirm {order.confirmed} names another tenant than --target {name}" if order.confirmed else (
            f"tenant {name} was not created by this run, and its users would notice"
        )  # fmt: skip
        raise Refused(cause, f"confirm with --confirm {name}, or leave --target out: then a tenant of its own is broken")
    if found.run:
        raise Refused(f"tenant {name} belongs to run {found.run}", "undo that run first: bulkhead chaos stop")
    if not found.ready:
        raise Refused(f"tenant {name} is not Ready before any fault", f"see why: bulkhead tenant describe {name}")
    for experiment in experiments:
        if experiment.own_only:
            raise Refused(f"{experiment.name} breaks only a tenant that the run creates itself", "leave --target out")
    return name, found.uid


def _class(wanted: str | None, classes: tuple[str, ...]) -> str:
    """The class of the tenants to create: the one that was named, the only one, or `standard`."""
    if wanted is not None:
        if wanted not in classes:
            known = ", ".join(sorted(classes)) or "none"
            raise Refused(f"there is no TenantClass {wanted}; there are: {known}", "choose one with --class", Why.NOT_FOUND)
        return wanted
    if len(classes) == 1:
        return classes[0]
    if DEFAULT_CLASS in classes:
        return DEFAULT_CLASS
    if not classes:
        raise Refused("there is no TenantClass", "create one first, such as examples/tenantclass.yaml")
    raise Refused(f"there are several TenantClasses: {', '.join(sorted(classes))}", "choose one with --class")
