"""One reconcile of one tenant: observe, admit, one turn through its facets, report. It does not depend on what has changed.

    read Tenant ─┬─ gone ──────> forget ─> what is kept of it
                 ├─ deleting ──> dismantle ─> status
                 └─ else ──> observe ─> admit ─┬─ Refusal ──> status
                                               └─ Admitted ─> finalizer ─> slice ─> facets, in their order ─> status

`controller.tenant.consists` lists the facets of a tenant; this file knows none by name. A reconcile never waits for anything
slow: whatever observes the result (an informer, the waiter for a plane) puts the tenant's name into the queue again. The status
is written once, at the end.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from bulkhead.api.conditions import Reason
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import KubeError
from controller import metrics
from controller.decide.case import Admitted
from controller.decide.retain import kept_of
from controller.plane.spec import PLANE
from controller.refusal import Refusal
from controller.tenant import finalizer, status
from controller.tenant.admitting import Admitting
from controller.tenant.apply import Outdated
from controller.tenant.consists import in_order
from controller.tenant.dismantle import Dismantler
from controller.tenant.failure import failure_of
from controller.tenant.observe import Observed, read_tenant
from controller.tenant.refusing import Refusing
from controller.tenant.report import Reporter
from controller.tenant.retaining import Retaining
from controller.tenant.running import run
from controller.tenant.slicing import Slicer
from controller.tenant.status import Ended
from controller.tenant.tools import Tools
from controller.tenant.tracing import UNTIMED, Steps
from controller.tenant.turn import Facet, Turn, seen
from controller.tenant.withdrawing import withdraw
from controller.verdict import is_of

_log = logging.getLogger(__name__)
_BLOCKED_AFTER: Final = timedelta(minutes=5)
_LOOK_AGAIN: Final = 0.5
_OUTDATED: Final = 0.05
_REFUSED: Final = 30.0


class ReconcileFailed(Exception):  # noqa: N818 - what happened, for the queue's worker
    """A reconcile could not be finished; the status reports it already, and the worker tries again later."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """When to look again at the latest, in seconds; None: only after a change."""

    again: float | None


@dataclass(frozen=True, slots=True)
class _Result:
    """The result of a reconcile: the status to write, if any, and when to look again."""

    again: float | None = None
    status: Obj | None = None
    failure: Refusal | None = None


class Reconciler:
    """Reconciles tenants. The queue ensures that two reconciles of one tenant never overlap."""

    def __init__(self, tools: Tools, facets: Iterable[Facet]) -> None:
        self._client = tools.client
        self._owned = tools.owned
        self._clock = tools.clock
        self._resync = float(tools.settings.resync_seconds)
        self._facets = in_order(facets)
        self._admitting = Admitting(tools, self._facets)
        self._refusing = Refusing(tools)
        self._slicer = Slicer(tools.client, tools.settings)
        self._dismantler = Dismantler(tools.client)
        self._retaining = Retaining(tools.client, tools.owned, self._dismantler, tools.clock)
        self._reporter = Reporter(tools.client, tools.clock)
        self._traces = tools.traces

    async def reconcile(self, name: str) -> Outcome:
        """Reconcile one tenant."""
        tenant, result, there = await read_tenant(self._client, name), _Result(), True
        steps = UNTIMED
        if tenant is None:
            failure = await self._forget(name)
            result = _Result(await self._retaining.look(name), failure=failure)
        elif tenant["metadata"].get("deletionTimestamp"):
            result = await self._dismantle(tenant)
        else:
            steps = self._traces.begin(tenant)
            tenant, result = await self._look_after(tenant, steps)
        if tenant is not None and result.status is not None:
            with steps.step("report"):
                there = await self._reporter.report(tenant, result.status)
        if tenant is not None and there:
            self._traces.ended(tenant, steps, result.status, result.failure, lambda: self._plane_pods(name))
        if result.failure is not None:
            raise ReconcileFailed(result.failure.message)
        return Outcome(result.again if there else None)

    def _plane_pods(self, name: str) -> list[Obj]:
        return [obj for resource, obj in self._owned.of_tenant(name) if resource is kinds.PODS and is_of(obj, PLANE)]

    async def _look_after(self, tenant: Obj, steps: Steps) -> tuple[Obj, _Result]:
        """Reconcile a Tenant that is not being deleted; also returns the Tenant on which the status is reported."""
        with steps.step("admission"):
            observed, admission = await self._admitting.admit(tenant)
        if isinstance(admission, Refusal):
            result = await self._refuse(tenant, observed, admission)
        elif self._admitting.awaits(admission):
            result = _Result(_LOOK_AGAIN)
        else:
            marked = await finalizer.put_on(self._client, tenant)
            observed = replace(observed, tenant=marked | {"spec": observed.tenant["spec"]})
            result = await self._build(observed, admission, steps)
        return observed.tenant, result

    async def _refuse(self, tenant: Obj, observed: Observed, refusal: Refusal) -> _Result:
        """Report why nothing is changed. Revocations still reach the plane, and its certificates are still renewed."""
        if refusal.reason is Reason.PAUSED:
            await self._leave(observed.name, ends=False)
        trouble = await self._refusing.reach(observed)
        if trouble:
            refusal = replace(refusal, message=f"{refusal.message}; {trouble}")
        unapplied = await self._admitting.is_unapplied(tenant, observed)
        wanted = status.refused(tenant, refusal, observed.now, unapplied=unapplied)
        return _Result(_REFUSED if trouble else self._resync, wanted)

    async def _build(self, observed: Observed, admitted: Admitted, steps: Steps) -> _Result:
        wished = ""
        for facet in self._facets:
            wished = wished or await facet.wishes(observed)
        with steps.step("slice"):
            service_slice = await self._slicer.slice_of(observed, wished)
        if isinstance(service_slice, Refusal):
            unapplied = admitted.unapplied or await self._admitting.is_unapplied(observed.tenant, observed)
            wanted = status.refused(observed.tenant, service_slice, observed.now, unapplied=unapplied)
            result = _Result(self._resync, wanted)
        else:
            spec = replace(admitted.plane, service_slice=service_slice)
            result = await self._turn(Turn(observed, admitted, spec), steps)
        return result

    async def _turn(self, turn: Turn, steps: Steps) -> _Result:
        """One turn through all facets, and their reports at its end."""
        try:
            turn, failure = await run(self._facets, turn, steps)
        except Outdated as error:
            _log.info("observing again: %s", error, extra={"tenant": turn.tenant})
            result = _Result(_OUTDATED)
        else:
            end = seen(turn, failure, self._owned.of_tenant(turn.tenant))
            reports = [facet.report(end) for facet in self._facets]
            admitted = turn.admitted
            ended = Ended(edit=admitted.edit, held=admitted.held, failure=failure, unapplied=admitted.unapplied)
            wanted = status.fold(turn.observed.tenant, reports, ended, self._clock.now())
            result = _Result(status.again(reports) or self._resync, wanted, failure)
        return result

    async def _dismantle(self, tenant: Obj) -> _Result:
        """One step of a tenant's teardown; what the controller runs in its plane ends first."""
        result, now, name = _Result(), self._clock.now(), str(tenant["metadata"]["name"])
        if finalizer.has(tenant):
            await self._leave(name, ends=True)
            await withdraw(self._client, self._owned, name)
            blocked = now - datetime.fromisoformat(str(tenant["metadata"]["deletionTimestamp"])) > _BLOCKED_AFTER
            progress = await self._dismantler.step(tenant, blocked=blocked, kept=kept_of(tenant))
            if progress.done:
                await finalizer.take_off(self._client, tenant)
                result = _Result(failure=await self._forget(name))
            else:
                wanted = status.terminating(tenant, progress.message, blocked=blocked, now=now)
                result = _Result(progress.again, wanted)
        return result

    async def _leave(self, name: str, *, ends: bool) -> None:
        """End what the controller runs in a tenant's plane, the latest facet first, because it depends on the earlier ones."""
        for facet in reversed(self._facets):
            await facet.leave(name, ends=ends)

    async def _forget(self, name: str) -> Refusal | None:
        """Drop what is known of a deleted tenant. Returns the first failure; the other facets forget it all the same."""
        await self._leave(name, ends=True)
        failure: Refusal | None = None
        for facet in reversed(self._facets):
            try:
                await facet.forget(name)
            except (KubeError, TimeoutError) as error:
                failure = failure or failure_of(error)
        metrics.forget(name)
        return failure
