"""The shape of a fault: what it may use, how it proves itself, and how everything that it changed is put back.

    prepare ──> what has to stand before the fault begins; its work is not part of what is measured
    inject ──> proofs, each by something other than the call that made the fault
    lift   ──> undoes what a person would undo; also after an `inject` that failed half way
    recovered, over ──> raise `NotYetError` until the target works by itself, and until no trace is left
    clear  ──> removes what `prepare` made, when nothing is measured; also after a `prepare` that failed half way

A fault that changes something outside the target's own API says so to its `Undo` *before* the change, so that `lift` puts it
back whatever happens in between.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from e2e import tenants, workloads
from e2e.api import Api, ApiError, Obj, UnreachableError
from e2e.chaos.faults.naming import again, marker
from e2e.poll import NotYetError, WaitTimeoutError
from e2e.tenants import Tenant

Proof = tuple[bool, str]


@dataclass(frozen=True, slots=True)
class Scene:
    """What a fault may use: the host as its admin, the target, the other tenants as their users, and a way to report."""

    host: Api
    target: Tenant
    newcomer: str  # the name of a tenant that does not exist yet
    note: Callable[[str], None]
    others: tuple[Tenant, ...] = ()


class LiftError(AssertionError):
    """Something of a fault could not be put back; the text says what."""


class Fault(Protocol):
    """The shape of every fault."""

    def unmet(self, scene: Scene) -> str:  # noqa: ARG002 -- for those that need more than every host has
        """Why the fault cannot be made here, as one sentence; empty if it can."""
        return ""

    def prepare(self, scene: Scene) -> None:  # noqa: ARG002 -- for those that need something to stand
        """Most faults need nothing."""
        return

    def inject(self, scene: Scene) -> Sequence[Proof]: ...

    def lift(self, scene: Scene) -> None:  # noqa: ARG002 -- for those that do not end by themselves
        """Most faults end by themselves."""
        return

    def recovered(self, scene: Scene) -> None:
        tenant_works(scene.target)

    def over(self, scene: Scene) -> None:  # noqa: ARG002 -- for those of which something is left
        """Raises `NotYetError` while something is left of the fault; most faults leave nothing."""
        return

    def clear(self, scene: Scene) -> None:  # noqa: ARG002 -- for those that prepared something
        """Raises `NotYetError` while something is left of what was prepared."""
        return


@dataclass(slots=True)
class Undo:
    """What `lift` has to do, newest first; a step that failed is left for another try."""

    steps: list[tuple[str, Callable[[], object]]] = field(default_factory=list)

    def later(self, what: str, step: Callable[[], object]) -> None:
        self.steps.append((what, step))

    def everything(self) -> None:
        """Do all steps, also after one that fails. Raises `LiftError` with those that failed."""
        failed: list[str] = []
        left: list[tuple[str, Callable[[], object]]] = []
        while self.steps:
            what, step = self.steps.pop()
            try:
                step()
            except Exception as error:  # noqa: BLE001 -- the other steps must be done too, and the error is passed on
                failed.append(f"{what}: {type(error).__name__}: {error}")
                left.insert(0, (what, step))
        self.steps = left
        if failed:
            raise LiftError("; ".join(failed))


@dataclass(frozen=True, slots=True)
class Reversible(Fault):
    """A fault with an `Undo`."""

    undo: Undo = field(default_factory=Undo, init=False, repr=False, compare=False)

    def lift(self, scene: Scene) -> None:  # noqa: ARG002 -- the steps know the scene
        self.undo.everything()


def tenant_works(tenant: Tenant) -> None:
    """Raises `NotYetError` unless the tenant can write and a new pod of it runs."""
    name = again()
    try:
        tenant.api.create(workloads.pod(name))
        workloads.wait_running(tenant.api, name, seconds=20, patience=1)
    except (WaitTimeoutError, UnreachableError, ApiError) as exc:
        raise NotYetError(str(exc)) from exc
    finally:
        quietly(lambda: tenant.api.delete("Pod", name, "default", grace=0))


def tenant_ready(scene: Scene) -> None:
    """Raises `NotYetError` unless the controller reports the target as Ready."""
    tenant = scene.host.get("Tenant", scene.target.name)
    workloads.expect(tenants.is_ready(tenant), tenants.explain(tenant))


def write(api: Api, *, timeout: float = 3.0, filler: int = 0) -> None:
    """A write that needs no earlier object, with so many bytes of filler. Raises what the API raises."""
    path = "/api/v1/namespaces/default/configmaps/chaos-fault"
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "chaos-fault"},
        "data": {"at": marker(), "filler": "x" * filler},
    }
    query = {"fieldManager": "bulkhead-chaos", "force": "true"}
    api.request("PATCH", path, body=body, query=query, timeout=timeout, content_type="application/apply-patch+yaml")


def write_fails(api: Api, *, timeout: float = 3.0) -> str:
    """The error of a small write; empty if it was accepted."""
    try:
        write(api, timeout=timeout)
    except (ApiError, UnreachableError) as exc:
        return str(exc) or type(exc).__name__
    return ""


def write_anew_fails(tenant: Tenant, *, timeout: float = 5.0) -> str:
    """The error of a small write by a new connection; empty if it was accepted.

    A connection that is kept stays with one API server of a plane of three, whatever has become of its member.
    """
    try:
        return write_fails(Api(tenant.kubeconfig, timeout=timeout), timeout=timeout)
    except OSError as exc:
        return str(exc) or type(exc).__name__


def quietly(call: Callable[[], object]) -> None:
    """Cleaning up after a fault must not hide what the experiment found."""
    try:
        call()
    except (ApiError, UnreachableError):
        return


def of_pod(pod: Obj) -> str:
    """The UID by which a pod's processes are found."""
    return str(pod["metadata"]["uid"])
