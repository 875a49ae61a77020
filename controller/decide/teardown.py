"""The teardown of a tenant: from what is left to the next step. Pure, and the same after every restart.

The order matters. The syncer goes first, or it would recreate what is deleted. Pods go before the policies that confine them.
The plane goes after its workloads, namespaces after their pods, the finalizer last. The host itself keeps the address slice
until the Services in it are gone; if some are not the tenant's, a remnant keeps their addresses (`controller.decide.remnant`).

A plane that is kept (`controller.decide.retain`) ends in the same order, without its data: what is left is marked, and then the
Tenant may go.

Each reconcile looks at what exists and takes the first step that still has something to do. So it does not matter where an
earlier reconcile stopped, whether the plane still answers, or whether it was ever finished.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import is_pending_deletion
from controller.decide.retain import Kept
from controller.plane.spec import DNS, PLANE, SYNCER

_MAKERS = ("Deployment", "StatefulSet")


class Step(StrEnum):
    """The steps in their order."""

    SYNCER = "stopping the syncer"
    WORKLOADS = "removing workloads"
    PLANE = "stopping the plane"
    WAYS_IN = "closing the ways to the plane"
    RIGHTS = "removing rights"
    KEEPING = "keeping the plane"
    NAMESPACES = "removing namespaces"
    CLUSTER_SCOPED = "removing rights and the address slice"
    REMNANT = "leaving addresses of the slice to other Services"
    FINALIZER = "releasing the tenant"


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a tenant, from fresh lists; only objects in namespaces that are labelled as its own.

    other_services: the Services of other namespaces with an address in its slice, once its own namespaces are gone.
    """

    plane_namespace: Obj | None = None
    work_namespace: Obj | None = None
    deployments: tuple[Obj, ...] = ()
    stateful_sets: tuple[Obj, ...] = ()
    plane_pods: tuple[Obj, ...] = ()
    work_pods: tuple[Obj, ...] = ()
    claims: tuple[Obj, ...] = ()
    ways_in: tuple[Obj, ...] = ()
    slices: tuple[Obj, ...] = ()
    cluster_scoped: tuple[Obj, ...] = ()
    remnants: tuple[Obj, ...] = ()
    remnants_missing: tuple[Obj, ...] = ()
    other_services: tuple[str, ...] = ()
    kept: Kept | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """One call: delete an object, mark it as kept, or make a remnant and ask for its deletion."""

    verb: Literal["delete", "mark", "leave"]
    obj: Obj


@dataclass(frozen=True, slots=True)
class Next:
    """The present step, the calls to make for it, and the objects for which it still waits."""

    step: Step
    actions: tuple[Action, ...]
    waiting_for: tuple[str, ...]


def next_step(left: Left) -> Next:
    """The first step that has something left to do; the finalizer if there is none."""
    for step, targets in _targets(left):
        if targets:
            return Next(step, _actions(step, targets, left), tuple(_name(obj) for obj in targets))
    return Next(Step.FINALIZER, (), ())


def _actions(step: Step, targets: tuple[Obj, ...], left: Left) -> tuple[Action, ...]:
    if step is Step.KEEPING:
        return tuple(Action("mark", obj) for obj in targets)
    # Objects that create pods go before the pods, or they would create new ones.
    makers = tuple(obj for obj in targets if obj["kind"] in _MAKERS)
    actions = [Action("delete", obj) for obj in makers or targets if not is_pending_deletion(obj)]
    if step is Step.NAMESPACES:
        # The host empties a namespace five seconds after its deletion was requested. Claims take a moment longer than all else
        # to go, and one that is still there then costs another five seconds.
        actions += [Action("delete", obj) for obj in left.claims if not is_pending_deletion(obj)]
    if step in {Step.PLANE, Step.NAMESPACES} and left.kept is None:
        # The host keeps a ServiceCIDR for ten seconds after its deletion was requested, and until its last Service is gone:
        # these seconds pass in parallel. The syncer, whose rights are deleted with it, has ended by now.
        actions += [Action("delete", obj) for obj in left.cluster_scoped if not is_pending_deletion(obj)]
    if step is Step.CLUSTER_SCOPED:
        actions += [Action("leave", obj) for obj in left.remnants_missing]
    return tuple(actions)


def _targets(left: Left) -> Iterable[tuple[Step, tuple[Obj, ...]]]:
    yield Step.SYNCER, (*_component(left.deployments, SYNCER), *_component(left.plane_pods, SYNCER))
    yield Step.WORKLOADS, left.work_pods
    yield Step.PLANE, (*left.stateful_sets, *_component(left.deployments, DNS, PLANE), *left.plane_pods)
    if left.kept is not None:
        yield Step.WAYS_IN, left.ways_in
        yield Step.RIGHTS, tuple(obj for obj in left.cluster_scoped if obj["kind"] == "ClusterRoleBinding")
        yield Step.KEEPING, tuple(obj for obj in _marked(left) if not left.kept.marks(obj))
        return
    yield Step.NAMESPACES, tuple(name for name in (left.work_namespace, left.plane_namespace) if name is not None)
    yield Step.CLUSTER_SCOPED, left.cluster_scoped
    # One that the host keeps for other Services is not waited for.
    yield Step.REMNANT, tuple(obj for obj in left.remnants if not is_pending_deletion(obj))


def _component(objects: Iterable[Obj], *components: str) -> tuple[Obj, ...]:
    return tuple(obj for obj in objects if _labels(obj).get(labels.COMPONENT) in components)


def _labels(obj: Obj) -> Mapping[str, str]:
    found: Mapping[str, str] = obj["metadata"].get("labels") or {}
    return found


def _marked(left: Left) -> Iterable[Obj]:
    """What says that a plane is kept; its own namespace last, because that is what a new Tenant looks at."""
    return (obj for obj in (left.work_namespace, *left.slices, left.plane_namespace) if obj is not None)


def _name(obj: Obj) -> str:
    meta = obj["metadata"]
    where = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f"{obj.get('kind', 'object')} {where}{meta['name']}"
