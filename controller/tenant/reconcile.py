"""One reconcile of one tenant: observe, admit, apply, report. The same whatever it was that changed.

    read Tenant ─┬─ gone ──────> forget
                 ├─ deleting ──> dismantle
                 └─ else ──> observe ─> admit ─┬─ Refusal ──> status
                                               └─ Admitted ─> finalizer ─> slice ─> aspects, in their order ─> status

A reconcile never waits for something that takes long; what observes that it has happened (an informer, the waiter for a plane)
brings the tenant's name back into the queue. The status is written once, at the end.
"""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from bulkhead.api import names
from bulkhead.api.conditions import ConditionType, Reason, is_true
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, KubeError, NotFound
from bulkhead.kube.objects import Key, Resource, key_of
from bulkhead.work.clock import Clock
from controller import metrics
from controller.decide import status
from controller.decide.accepted import accepted_before, kept, record
from controller.decide.admit import admit
from controller.decide.case import Admitted, Case
from controller.decide.extras import Refused
from controller.decide.plan import Plan, plan
from controller.decide.status import Findings
from controller.host.auditreceivers import AuditReceivers
from controller.host.dedication import Dedication
from controller.host.hostranges import HostRanges
from controller.host.issuers import Issuers
from controller.host.owned import SELECTOR, Owned
from controller.host.pullsecrets import PullSecrets
from controller.inside.access import PlaneAccess, PlaneHealth
from controller.inside.auditlosses import AuditLosses
from controller.inside.stores import Stores
from controller.pki.issue import Known
from controller.pki.material import Assembled, KeysLostError, assemble
from controller.pki.renewals import Renewals
from controller.plane import auditreceiver, pullsecret
from controller.plane.auditlosses import Losses
from controller.plane.render import ground
from controller.plane.secrets import KeyMaterial
from controller.plane.spec import PlaneSpec
from controller.plane.storestate import Store
from controller.refusal import Refusal
from controller.settings import Settings
from controller.shares.loop import ShareLoops
from controller.slurm.ordering import Ordered, Ordering
from controller.tenant import finalizer
from controller.tenant.apply import Applier, Outdated, Stages
from controller.tenant.dismantle import Dismantler
from controller.tenant.findings import Reached, Shared, failure_of, findings
from controller.tenant.gateway import gateway_of
from controller.tenant.growing import grow
from controller.tenant.interior import Interior
from controller.tenant.observe import Observed, observe, read_tenant, recorded_identity, recorded_spec
from controller.tenant.presenting import present
from controller.tenant.renewing import Renewing
from controller.tenant.report import Reporter
from controller.tenant.revoking import Revoking
from controller.tenant.slicing import Slicer
from controller.tenant.withdrawing import withdraw

T = TypeVar("T")
_log = logging.getLogger(__name__)
_PATIENCE = timedelta(minutes=5)
_LOOK_AGAIN = 0.5
_OUTDATED = 0.05
_REFUSED = 30.0
# While a plane's data is not what it was, and after it came back: its syncer looks each half minute.
_IDENTITY = 15.0
# While a plane's store is full: its tenant deletes, and waits for room.
_FULL = 15.0
_RIGHT_TRIES = 40
_RIGHT_PAUSE = 0.1


class ReconcileFailed(Exception):  # noqa: N818 - what happened, for the queue's worker
    """A reconcile could not be finished; the status says so already, and the worker tries again later."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """When to look again, at the latest; None: only when something happens."""

    again: float | None


class Reconciler:
    """Reconciles tenants; one tenant is never in two reconciles at once (the queue sees to that)."""

    def __init__(
        self,
        client: Client,
        owned: Owned,
        planes: PlaneAccess,
        settings: Settings,
        clock: Clock,
        *,
        ranges: HostRanges,
        slurm: Ordering | None = None,
        shares: ShareLoops | None = None,
        dedication: Dedication | None = None,
        issuers: Issuers | None = None,
        pulls: PullSecrets | None = None,
        receivers: AuditReceivers | None = None,
        losses: AuditLosses | None = None,
        renewals: Renewals | None = None,
        stores: Stores | None = None,
    ) -> None:
        self._client = client
        self._slurm = slurm
        self._shares = shares
        self._dedication = dedication
        self._issuers = issuers
        self._pulls = pulls
        self._receivers = receivers
        self._losses = losses
        self._stores = stores
        self._owned = owned
        self._ranges = ranges
        self._settings = settings
        self._clock = clock
        self._applier = Applier(client)
        self._slicer = Slicer(client, settings)
        self._dismantler = Dismantler(client)
        self._interior = Interior(owned, planes, clock, resync_seconds=settings.resync_seconds)
        self._reporter = Reporter(client, clock)
        self._revoking = Revoking(client, clock)
        self._renewals = renewals or Renewals(clock)
        self._renewing = Renewing(client, self._renewals)
        self._known: dict[str, Known] = {}

    async def reconcile(self, name: str) -> Outcome:
        """Reconcile one tenant."""
        tenant = await read_tenant(self._client, name)
        if tenant is None:
            await self._forget(name)
            return Outcome(None)
        if tenant["metadata"].get("deletionTimestamp"):
            return await self._dismantle(tenant)
        observed = await observe(self._client, self._owned, self._ranges, tenant, self._clock.now())
        observed, admission = await self._admit(observed)
        if isinstance(admission, Refusal):
            if admission.reason is Reason.PAUSED:
                await self._leave_plane(name)
            return await self._refuse(observed, admission)
        if self._awaits_nodes(admission):
            return Outcome(_LOOK_AGAIN)
        marked = await finalizer.put_on(self._client, tenant)
        return await self._build(replace(observed, tenant=marked | {"spec": observed.tenant["spec"]}), admission)

    async def _admit(self, observed: Observed) -> tuple[Observed, Admitted | Refusal]:
        """What is built of the Tenant; of one whose edit is refused, what was accepted before, and the Tenant as it was."""
        admission = admit(self._case(observed))
        if isinstance(admission, Refusal) or admission.held is None:
            return observed, admission
        # Read afresh: with an older copy a tenant would be taken back to what it was before the last edit that was accepted.
        found = await recorded_spec(self._client, observed.name)
        before = accepted_before(observed.tenant, found)
        if before is None:
            return observed, admission
        refusal = admission.held
        observed = await observe(self._client, self._owned, self._ranges, before, observed.now)
        return observed, kept(admit(self._case(observed, accepted=True)), refusal, found)

    async def _refuse(self, observed: Observed, refusal: Refusal) -> Outcome:
        """Say why nothing is changed; but what was revoked reaches a plane all the same, and its certificates are renewed."""
        troubles = (await self._revoking.reach(observed), await self._renewing.reach(observed, self._read_of(observed.name)))
        trouble = "; ".join(each for each in troubles if each)
        if trouble:
            refusal = replace(refusal, message=f"{refusal.message}; {trouble}")
        outcome = await self._report(observed.tenant, status.refused(observed.tenant, refusal, observed.now))
        return Outcome(_REFUSED) if trouble and outcome.again is not None else outcome

    def _case(self, observed: Observed, *, accepted: bool = False) -> Case:
        case = Case(
            observed.tenant,
            observed.tenant_class,
            self._settings,
            observed.now,
            runs=observed.built,
            existing=observed.existing,
            foreign_namespaces=observed.foreign_namespaces,
            nodes=self._dedication.finding(observed.tenant, accepted=accepted) if self._dedication is not None else None,
            host_api=observed.host_api,
            reserved=observed.reserved,
            pod_addresses=observed.pod_addresses,
            route_version=self._owned.route_version(),
            cohort=observed.cohort,
            given=observed.given,
        )
        if self._issuers is None:
            return case
        return replace(case, issuers=self._issuers.look(observed.name, (each.source for each in case.providers)))

    def _awaits_nodes(self, admitted: Admitted) -> bool:
        """Whether the tenant's nodes have not been looked at yet; one that is held goes on with those that it has."""
        unknown = self._dedication is not None and admitted.claims_nodes and admitted.nodes is None
        return unknown and admitted.held is None

    async def _build(self, observed: Observed, admitted: Admitted) -> Outcome:
        tenant = observed.tenant
        service_slice = await self._slicer.slice_of(observed)
        if isinstance(service_slice, Refusal):
            return await self._report(tenant, status.refused(tenant, service_slice, observed.now))
        spec = replace(admitted.plane, service_slice=service_slice)
        at, made, stages = Reached(observed), None, Stages(self._applier, built=observed.built)
        try:
            observed = await self._reconcile_ground(spec, observed, stages, accepts=not (admitted.held or admitted.edit))
            at = replace(at, observed=observed)
            at = replace(at, pull_trouble=await self._reconcile_pulls(spec, observed))
            spec = await self._with_credential(spec, observed)
            assembled = self._reconcile_keys(spec, observed)
            keys = assembled.keys
            at = replace(at, keys=keys, put_off=self._renewals.why_not if assembled.put_off else "")
            made = plan(spec, keys, observed.existing, held=admitted.held is not None)
            await self._reconcile_host(made, observed, stages)
            at = replace(at, protected=True)
            await present(self._client, spec, keys, self._owned.pods_of(spec.tenant))
            at = replace(at, health=await self._interior.health(made, keys))
            await self._reconcile_followers(made, observed, at.health, stages)
            at = replace(at, identity=await recorded_identity(self._client, spec.namespace))
            at = replace(at, health=await self._interior.bootstrap(made, at.health))
            at = replace(at, slurm=await self._reconcile_slurm(made, observed, admitted, at.health))
            at = replace(at, losses=await self._lost(spec, at.health))
            at = replace(at, store=await self._look_into_store(spec, keys))
        except Outdated as error:
            _log.info("looking again: %s", error, extra={"tenant": spec.tenant})
            return Outcome(_OUTDATED)
        except KeysLostError as error:
            at = replace(at, failure=Refusal(Reason.KEYS_LOST, str(error)))
            _log.error("keys lost: %s", error, extra={"tenant": spec.tenant})
        except (KubeError, TimeoutError) as error:
            at = replace(at, failure=failure_of(error))
            _log.warning("reconcile failed: %s", error, extra={"tenant": spec.tenant})
        if made is not None and at.protected:
            at = replace(at, refused=(*stages.refused, *made.kept, *await self._reconcile_extras(made, observed)))
            if admitted.held is None:
                at = replace(at, volumes=await grow(self._client, spec, observed.existing))
        at = replace(at, shares=self._share(spec, admitted, at.health), gateway=await gateway_of(self._client, spec.exposure))
        found = findings(spec, admitted, at, self._owned.of_tenant(spec.tenant))
        outcome = await self._report(tenant, status.compute(tenant, spec, found, self._clock.now()))
        if at.failure is not None:
            raise ReconcileFailed(at.failure.message)
        if outcome.again is not None and (status.data_lost(tenant, found) or self._came_back(tenant, found)):
            return Outcome(_IDENTITY)
        if outcome.again is not None and at.store is not None and at.store.full:
            return Outcome(_FULL)
        return Outcome(_REFUSED) if (at.refused or at.put_off) and outcome.again is not None else outcome

    def _came_back(self, tenant: Obj, found: Findings) -> bool:
        """Whether the plane answers again: with which data, its syncer may not have said yet."""
        before = (tenant.get("status") or {}).get("conditions") or []
        return found.plane_ready and not is_true(before, ConditionType.PLANE_READY)

    async def _reconcile_ground(self, spec: PlaneSpec, observed: Observed, stages: Stages, *, accepts: bool) -> Observed:
        """What keys lie in and the right to read them, then the keys: read afresh, because keys must never be made twice.

        What is accepted is noted before any of it is built, as soon as there is a namespace for the note.
        """
        namespaces, rights = ground(spec)
        note = (record(observed.tenant),) if accepts else ()
        there = observed.get(kinds.NAMESPACES, spec.namespace) is not None
        for stage in (note, namespaces, rights) if there else (namespaces, note, rights):
            await stages.apply(stage, observed.objects)
        listed = await self._with_new_right(lambda: self._client.list(kinds.SECRETS, spec.namespace, label_selector=SELECTOR))
        secrets = {(kinds.SECRETS, key_of(obj)): obj for obj in listed.items}
        return replace(observed, objects={**observed.objects, **secrets})

    async def _reconcile_pulls(self, spec: PlaneSpec, observed: Observed) -> str:
        """The Secret with which images are pulled, where it is to be and nowhere else; returns what went wrong."""
        bound = observed.get(kinds.ROLE_BINDINGS, pullsecret.BINDING, spec.work_namespace) is not None
        there = {spec.namespace: observed.get(kinds.SECRETS, names.PULL_SECRET, spec.namespace) is not None}
        try:
            for namespace, may_be in (there | {spec.work_namespace: bound}).items():
                if may_be and namespace not in pullsecret.wanted_in(spec):
                    with contextlib.suppress(NotFound):
                        await self._client.delete(kinds.SECRETS, names.PULL_SECRET, namespace)
            if self._pulls is None or not self._pulls.content:
                return self._pulls.trouble if self._pulls is not None else ""
            copies = pullsecret.copies(spec, self._pulls.content)
            tries = 1 if bound else _RIGHT_TRIES
            await self._with_new_right(lambda: self._applier.stage(copies, observed.objects), tries)
        except KubeError as error:
            _log.warning("pull secret: %s", error, extra={"tenant": spec.tenant})
            return f"the pull secret of the platform was not copied: {error}"
        return self._pulls.trouble

    async def _with_new_right(self, call: Callable[[], Awaitable[T]], tries: int = _RIGHT_TRIES) -> T:
        """A call for which a RoleBinding may just have been made, of which the host takes a moment to learn."""
        for _ in range(tries - 1):
            with contextlib.suppress(Forbidden):
                return await call()
            await self._clock.sleep(_RIGHT_PAUSE)
        return await call()

    async def _with_credential(self, spec: PlaneSpec, observed: Observed) -> PlaneSpec:
        """The plane with what it signs in by to the receiver of its audit trail, where its class names one."""
        if self._receivers is None:
            return spec
        asked, copy = spec.audit, observed.get(kinds.SECRETS, auditreceiver.SECRET, spec.namespace)
        receiver = await self._receivers.signed_in(spec.tenant, asked.receiver if asked is not None else None, copy)
        return replace(spec, audit=replace(asked, receiver=receiver)) if asked is not None else spec

    async def _lost(self, spec: PlaneSpec, health: PlaneHealth) -> Losses | None:
        """What was lost of an audit trail that is sent; an answer of minutes ago will do."""
        if self._losses is None:
            return None
        if spec.audit is None or spec.audit.receiver is None:
            self._losses.forget(spec.tenant)
            return None
        found = await self._losses.look(spec.tenant) if health.bootstrapped else None
        metrics.report_losses(spec.tenant, dict(found.total) if found is not None else {})
        return found

    async def _look_into_store(self, spec: PlaneSpec, keys: KeyMaterial) -> Store | None:
        """How full the plane's store is, whether its API server answers or not."""
        if self._stores is None:
            return None
        return await self._stores.look(spec, keys, self._interior.addresses(spec))

    def _reconcile_keys(self, spec: PlaneSpec, observed: Observed) -> Assembled:
        """Keys and certificates: those that serve are kept, others issued; those of all tenants are not renewed at once."""
        secrets, has_data = observed.in_plane(kinds.SECRETS), bool(observed.in_plane(kinds.PERSISTENT_VOLUME_CLAIMS))
        known = self._read_of(spec.tenant)
        assembled = assemble(spec, secrets, observed.now, has_data=has_data, may_renew=self._renewals.take, known=known)
        for name, why in assembled.issued:
            _log.info("issuing", extra={"tenant": spec.tenant, "certificate": name, "why": why})
            metrics.certificates_issued.inc()
        return assembled

    def _read_of(self, tenant: str) -> Known:
        """What was read of a plane's certificates."""
        return self._known.setdefault(tenant, Known())

    async def _reconcile_host(self, made: Plan, observed: Observed, stages: Stages) -> None:
        """The plane and all that belongs to it on the host; CAs first, and never over others."""
        authorities, *rest = made.stages
        seen: Mapping[tuple[Resource, Key], Obj] = observed.objects
        await stages.create_only(authorities, seen)
        for stage in rest:
            await stages.apply(stage, seen)
        await self._applier.delete(made.deletions, seen)

    async def _reconcile_extras(self, made: Plan, observed: Observed) -> tuple[Refused, ...]:
        """What the plane runs without, its way in from outside first of all; what the host refuses of it is told."""
        refused = await self._applier.extras(made.rendered.extras, made.extra_deletions, observed.objects)
        for each in refused:
            metrics.refused_objects.labels(each.slot.kind).inc()
            extra = {"tenant": made.spec.tenant, "object": f"{each.slot.kind} {each.slot.name}"}
            _log.warning("refused: %s", each.words, extra=extra)
        return refused

    async def _reconcile_followers(self, made: Plan, observed: Observed, health: PlaneHealth, stages: Stages) -> None:
        """What needs a plane that answers; its pods take longer to start than the plane's own objects are applied."""
        followers = made.followers(plane_answers=health.ready, existing=observed.existing)
        await stages.apply(followers, observed.objects)

    def _share(self, spec: PlaneSpec, admitted: Admitted, health: PlaneHealth) -> Shared | None:
        """Hand what the host shares to its own task, once the plane has answered; what is to be reported, if anything is."""
        if self._shares is None:
            return None
        if health.bootstrapped or self._shares.runs(spec.tenant):
            self._shares.order(spec.tenant, admitted.shares, admitted.class_name)
        gives = admitted.shares or self._shares.gives(spec.tenant)
        return Shared(self._shares.found(spec.tenant)) if gives else None

    async def _reconcile_slurm(self, made: Plan, observed: Observed, admitted: Admitted, health: PlaneHealth) -> Ordered | None:
        """Hand the tenant's Slurm cluster to its own task, once the plane has answered; one that is refused stays as it is."""
        spec, wanted = made.spec, admitted.slurm
        if self._slurm is None or isinstance(wanted, Refusal):
            return None
        if not health.bootstrapped and not self._slurm.runs(spec.tenant):
            return Ordered(wanted=True, spec=wanted) if wanted is not None else None
        return await self._slurm.order(spec, observed.tenant, observed.in_plane(kinds.SECRETS), wanted)

    async def _dismantle(self, tenant: Obj) -> Outcome:
        if not finalizer.has(tenant):
            return Outcome(None)
        name = str(tenant["metadata"]["name"])
        await self._leave_plane(name)
        await self._interior.forget(name)
        await withdraw(self._client, self._owned, name)
        now = self._clock.now()
        blocked = now - datetime.fromisoformat(str(tenant["metadata"]["deletionTimestamp"])) > _PATIENCE
        progress = await self._dismantler.step(tenant, blocked=blocked)
        if progress.done:
            await finalizer.take_off(self._client, tenant)
            await self._forget(name)
            return Outcome(None)
        await self._report(tenant, status.terminating(tenant, progress.message, blocked=blocked, now=now))
        return Outcome(progress.again)

    async def _report(self, tenant: Obj, wanted: Obj) -> Outcome:
        there = await self._reporter.report(tenant, wanted)
        return Outcome(float(self._settings.resync_seconds) if there else None)

    async def _leave_plane(self, name: str) -> None:
        """End what goes on in a tenant's plane beside its reconciles."""
        if self._slurm is not None:
            await self._slurm.forget(name)
        if self._shares is not None:
            await self._shares.forget(name)

    async def _forget(self, name: str) -> None:
        await self._leave_plane(name)
        await self._interior.forget(name)
        self._known.pop(name, None)
        if self._issuers is not None:
            self._issuers.forget(name)
        if self._receivers is not None:
            self._receivers.forget(name)
        if self._losses is not None:
            self._losses.forget(name)
        if self._stores is not None:
            await self._stores.forget(name)
        self._applier.forget((f"bh-{name}", f"bh-{name}-work", f"bh-{name}-syncer-nodes"))
        metrics.forget(name)
