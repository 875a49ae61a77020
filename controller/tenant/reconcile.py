"""One pass over one tenant: observe, decide, apply, tell. The same pass whatever it was that changed.

    read Tenant ─┬─ gone ──────> forget
                 ├─ deleting ──> teardown pass
                 └─ else ──> observe ─> admit ─┬─ refused, never built ──> status
                                               ├─ refused, but runs: held ─┐
                                               └─ finalizer ─> slice <─────┘
                                                                 └─> keys ─> plan ─> apply ─> plane ─> status

A pass never waits for something that takes long; whoever sees it happen (an informer, the waiter for a plane) brings the
tenant's name back into the queue. There is one status write at the end, and none when it would say nothing new.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from bulkhead.api import names
from bulkhead.api.conditions import ConditionType, Reason, is_true
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, Conflict, Forbidden, KubeError, NotFound, Unavailable, Unprocessable
from bulkhead.kube.objects import Key, Obj, Resource, key_of
from bulkhead.work.clock import Clock
from controller import metrics
from controller.decide import admit as admission
from controller.decide import held, status
from controller.decide.admit import admit, paused, refuse
from controller.decide.dedicated import Finding
from controller.decide.plan import Plan, as_it_began, plan, ref_of
from controller.host.dedication import Dedication
from controller.host.hostranges import HostRanges
from controller.host.owned import SELECTOR, Owned
from controller.inside.access import PlaneAccess, PlaneHealth
from controller.pki.material import Assembled, assemble
from controller.plane.render import ground
from controller.plane.secrets import SERVICE_ACCOUNT_SECRET
from controller.plane.spec import PLANE, PlaneSpec
from controller.refusal import Refusal
from controller.settings import Settings
from controller.slurm.decide import status as slurm_status
from controller.slurm.decide.resolve import wanted as slurm_wanted
from controller.slurm.ordering import Ordered, Ordering
from controller.tenant.apply import Applier, Outdated
from controller.tenant.dismantle import Dismantler
from controller.tenant.observe import Observed, observe, read_tenant
from controller.tenant.slicing import Slicer

_log = logging.getLogger(__name__)
_PATIENCE = timedelta(minutes=5)
_LOOK_AGAIN = 0.5
_RIGHT_TRIES = 40
_RIGHT_PAUSE = 0.1


class PassFailed(Exception):  # noqa: N818 - what happened, told to the queue's worker
    """A pass could not be finished; the status says so already, and the worker tries again later."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """When to look again, at the latest; None: only when something happens."""

    again: float | None


class Reconciler:
    """Does passes; one tenant is never in two at once (the queue sees to that)."""

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
        dedication: Dedication | None = None,
    ) -> None:
        self._client = client
        self._slurm = slurm
        self._dedication = dedication
        self._owned = owned
        self._ranges = ranges
        self._planes = planes
        self._settings = settings
        self._clock = clock
        self._applier = Applier(client)
        self._slicer = Slicer(client, settings)
        self._dismantler = Dismantler(client)
        self._bootstrapped: dict[str, tuple[tuple[Obj, ...], float, str]] = {}

    async def reconcile(self, name: str) -> Outcome:
        """One pass."""
        tenant = await read_tenant(self._client, name)
        if tenant is None:
            await self._forget(name)
            return Outcome(None)
        if tenant["metadata"].get("deletionTimestamp"):
            return await self._teardown(tenant)
        observed = await observe(self._client, self._owned, self._ranges, tenant, self._clock.now())
        refusal = self._refuse(observed)
        nodes = self._nodes(observed, refusal)
        if nodes is None and refusal is None and self._claims(observed):
            return Outcome(_LOOK_AGAIN)
        refusal = refusal or (nodes.refusing if nodes is not None else None)
        if refusal is not None and refusal.reason is Reason.PAUSED:
            await self._forget_slurm(name)
        if refusal is not None and not (observed.built and held.holds(refusal, observed.tenant_class)):
            return await self._tell(tenant, status.refused(tenant, refusal, observed.now))
        tenant = await self._hold(tenant)
        return await self._build(replace(observed, tenant=tenant), nodes, refusal)

    def _claims(self, observed: Observed) -> bool:
        """Whether somebody has to say what becomes of nodes of its own."""
        return self._dedication is not None and admission.wants_dedicated(observed.tenant, observed.tenant_class or {})

    def _nodes(self, observed: Observed, refusal: Refusal | None) -> Finding | None:
        """What was found of the tenant's own nodes; of one that is refused, where it claims them all the same."""
        tenant, tenant_class = observed.tenant, observed.tenant_class
        if self._dedication is None or tenant_class is None or (refusal is None and not self._claims(observed)):
            return None
        holds = refusal is None or held.holds(refusal, tenant_class)
        if not holds or (refusal is not None and not held.claims_nodes(tenant, tenant_class, self._settings)):
            return None
        return self._dedication.finding(tenant)

    def _refuse(self, observed: Observed) -> Refusal | None:
        refusal = paused(observed.tenant, observed.now) or refuse(observed.tenant, observed.tenant_class, self._settings)
        if refusal is None and observed.foreign_namespaces:
            taken = ", ".join(observed.foreign_namespaces)
            return Refusal(Reason.NAMESPACE_TAKEN, f"namespace {taken} exists and is not this tenant's; choose another name")
        return refusal

    async def _hold(self, tenant: Obj) -> Obj:
        """Put the finalizer on before anything is made."""
        finalizers = list(tenant["metadata"].get("finalizers") or [])
        if names.TEARDOWN_FINALIZER in finalizers:
            return tenant
        meta = {
            "finalizers": [*finalizers, names.TEARDOWN_FINALIZER],
            "resourceVersion": tenant["metadata"]["resourceVersion"],
        }
        return await self._client.patch(kinds.TENANTS, tenant["metadata"]["name"], {"metadata": meta})

    async def _build(self, observed: Observed, nodes: Finding | None, refusal: Refusal | None) -> Outcome:
        tenant, now = observed.tenant, observed.now
        service_slice = await self._slicer.slice_of(observed)
        if isinstance(service_slice, Refusal):
            return await self._tell(tenant, status.refused(tenant, service_slice, now))
        spec = self._spec(observed, nodes, service_slice, held_back=refusal is not None)
        if isinstance(spec, Refusal):
            return await self._tell(tenant, status.refused(tenant, spec, now))
        spec = as_it_began(spec, {ref_of(obj): obj for obj in observed.objects.values()})
        left = refusal is not None and self._leaves_slurm(observed)
        failure: Refusal | None = None
        assembled: Assembled | None = None
        health = PlaneHealth()
        slurm: Ordered | None = None
        try:
            observed = await self._secrets(spec, observed)
            assembled = await self._keys(spec, observed)
            existing = {ref_of(obj): obj for obj in observed.objects.values()}
            made = plan(spec, assembled.keys, existing, held=refusal is not None)
            await self._apply(made, observed)
            health = await self._health(made, assembled)
            # Before the plane's own objects: until a follower's pod runs, those are in.
            followers = made.followers(plane_answers=health.ready, existing=existing)
            await self._applier.stage(followers, observed.objects)
            health = await self._bootstrap(made, health)
            slurm = await self._order_slurm(spec, observed, health) if not left else None
        except Outdated as error:
            _log.info("looking again: %s", error, extra={"tenant": spec.tenant})
            return Outcome(0.05)
        except (KubeError, TimeoutError) as error:
            failure = _failure(error)
            _log.warning("pass failed: %s", error, extra={"tenant": spec.tenant})
        findings = self._findings(spec, observed, health, failure, pki=_pki(observed, assembled, failure))
        findings = replace(findings, nodes=nodes if nodes is not None and nodes.refusing is None else None)
        if refusal is not None:
            findings = replace(findings, held=refusal, unseen=_unseen(spec, findings, slurm=left))
        if slurm is not None:
            findings = replace(findings, slurm=_slurm_part(tenant, slurm))
        outcome = await self._tell(tenant, status.compute(tenant, spec, findings, self._clock.now()))
        if failure is not None:
            raise PassFailed(failure.message)
        return outcome

    def _spec(self, observed: Observed, nodes: Finding | None, service_slice: str, *, held_back: bool) -> PlaneSpec | Refusal:
        tenant, tenant_class, settings = observed.tenant, observed.tenant_class, self._settings
        host: dict[str, Any] = {
            "service_slice": service_slice,
            "host_api": observed.host_api,
            "reserved": observed.reserved,
            "pod_addresses": observed.pod_addresses,
        }
        if not held_back or tenant_class is None:
            return admit(tenant, tenant_class, settings, **host)
        there = {(ref.kind, ref.namespace, ref.name): obj for obj in observed.objects.values() for ref in (ref_of(obj),)}
        # What nobody has looked at yet, or claims no nodes, stays as it runs.
        taken = nodes is None or nodes.refusing is not None
        return held.hold(tenant, tenant_class, settings, there, nodes_refused=taken, **host)

    async def _keys(self, spec: PlaneSpec, observed: Observed) -> Assembled:
        assembled = assemble(spec, observed.in_plane(kinds.SECRETS), observed.now)
        for name, why in assembled.issued:
            _log.info("issuing", extra={"tenant": spec.tenant, "certificate": name, "why": why})
            metrics.certificates_issued.inc()
        return assembled

    async def _secrets(self, spec: PlaneSpec, observed: Observed) -> Observed:
        """Make what keys lie in and the right to read them, then read them: afresh, because keys must never be made twice."""
        for stage in ground(spec):
            await self._applier.stage(stage, observed.objects)
        for left in range(_RIGHT_TRIES, 0, -1):
            try:
                listed = await self._client.list(kinds.SECRETS, spec.namespace, label_selector=SELECTOR)
                break
            except Forbidden:
                # The host takes a moment to learn of a new RoleBinding.
                if left == 1:
                    raise
            await self._clock.sleep(_RIGHT_PAUSE)
        secrets = {(kinds.SECRETS, key_of(obj)): obj for obj in listed.items}
        return replace(observed, objects={**observed.objects, **secrets})

    async def _apply(self, made: Plan, observed: Observed) -> None:
        authorities, *rest = made.stages
        seen: Mapping[tuple[Resource, Key], Obj] = observed.objects
        await self._applier.create_only(authorities, seen)
        for stage in rest:
            await self._applier.stage(stage, seen)
        await self._applier.delete(made.deletions, seen)

    async def _health(self, made: Plan, assembled: Assembled) -> PlaneHealth:
        spec = made.spec
        pod = self._owned.get(kinds.PODS, Key(spec.namespace, f"{PLANE}-0"))
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return PlaneHealth(message="the plane's pod is not there")
        return await self._planes.health(spec, assembled.keys, (pod.get("status") or {}).get("podIP"))

    async def _bootstrap(self, made: Plan, health: PlaneHealth) -> PlaneHealth:
        """Look after what is made inside the plane."""
        spec = made.spec
        if not health.ready:
            self._bootstrapped.pop(spec.tenant, None)
            return health
        done, at, uid = self._bootstrapped.get(spec.tenant, ((), 0.0, ""))
        if done != made.bootstrap or self._clock.monotonic() - at > self._settings.resync_seconds:
            try:
                uid = await self._planes.bootstrap(spec, made.bootstrap)
            except (KubeError, TimeoutError) as error:
                # The tenant may have put a webhook in the way; that is his loss and no reason to stop the pass.
                _log.warning("bootstrap failed: %s", error, extra={"tenant": spec.tenant})
                return PlaneHealth(ready=True, message=f"the plane refuses its bootstrap objects: {error}")
            self._bootstrapped[spec.tenant] = (made.bootstrap, self._clock.monotonic(), uid)
        return PlaneHealth(ready=True, bootstrapped=True, message=health.message, cluster_uid=uid)

    def _findings(
        self,
        spec: PlaneSpec,
        observed: Observed,
        health: PlaneHealth,
        failure: Refusal | None,
        *,
        pki: bool,
    ) -> status.Findings:
        after = {(resource, obj["metadata"]["name"]): obj for resource, obj in self._owned.of_tenant(spec.tenant)}
        pods = tuple(obj for (resource, _), obj in after.items() if resource is kinds.PODS)
        return status.Findings(
            namespaces=tuple(obj for (resource, _), obj in after.items() if resource is kinds.NAMESPACES),
            pki=pki,
            plane_ready=health.ready and health.bootstrapped,
            plane_message=health.message,
            plane_uid=health.cluster_uid,
            deployments={name: obj for (resource, name), obj in after.items() if resource is kinds.DEPLOYMENTS},
            pods=pods,
            quotas={name: obj for (resource, name), obj in after.items() if resource is kinds.RESOURCE_QUOTAS},
            tenant_class=observed.tenant_class,
            failure=failure,
        )

    async def _teardown(self, tenant: Obj) -> Outcome:
        name = str(tenant["metadata"]["name"])
        if names.TEARDOWN_FINALIZER not in (tenant["metadata"].get("finalizers") or []):
            return Outcome(None)
        await self._forget_slurm(name)
        await self._planes.forget(name)
        progress = await self._dismantler.step(tenant)
        if progress.done:
            await self._release(tenant)
            await self._forget(name)
            return Outcome(None)
        blocked = self._clock.now() - _asked_at(tenant) > _PATIENCE
        now = self._clock.now()
        await self._tell(tenant, status.terminating(tenant, progress.message, blocked=blocked, now=now))
        return Outcome(progress.again)

    async def _release(self, tenant: Obj) -> None:
        finalizers = [each for each in tenant["metadata"]["finalizers"] if each != names.TEARDOWN_FINALIZER]
        meta = {"finalizers": finalizers, "resourceVersion": tenant["metadata"]["resourceVersion"]}
        try:
            await self._client.patch(kinds.TENANTS, tenant["metadata"]["name"], {"metadata": meta})
        except NotFound:
            return

    async def _order_slurm(self, spec: PlaneSpec, observed: Observed, health: PlaneHealth) -> Ordered | None:
        """Hand the tenant's Slurm cluster to its own task, once the plane has been there."""
        if self._slurm is None or observed.tenant_class is None:
            return None
        wanted = admission.slurm(observed.tenant, observed.tenant_class, self._settings)
        if not health.bootstrapped and not self._slurm.runs(spec.tenant):
            return Ordered(wanted=True, spec=wanted) if wanted is not None else None
        return await self._slurm.order(spec, observed.tenant, observed.in_plane(kinds.SECRETS), wanted)

    def _leaves_slurm(self, observed: Observed) -> bool:
        """Whether the cluster of a tenant that is held cannot be had as it is asked for: then it is left as it runs."""
        tenant, tenant_class = observed.tenant, observed.tenant_class or {}
        return slurm_wanted(tenant) and admission.slurm(tenant, tenant_class, self._settings) is None

    async def _forget_slurm(self, name: str) -> None:
        if self._slurm is not None:
            await self._slurm.forget(name)

    async def _forget(self, name: str) -> None:
        await self._forget_slurm(name)
        await self._planes.forget(name)
        self._bootstrapped.pop(name, None)
        self._applier.forget((f"bh-{name}", f"bh-{name}-work", f"bh-{name}-syncer-nodes"))
        metrics.forget(name)

    async def _tell(self, tenant: Obj, wanted: Obj) -> Outcome:
        metrics.tell(str(tenant["metadata"]["name"]), wanted)
        if status.changed(tenant, wanted):
            self._celebrate(tenant, wanted)
            try:
                await self._client.patch(kinds.TENANTS, tenant["metadata"]["name"], {"status": wanted}, subresource="status")
            except NotFound:
                return Outcome(None)
        return Outcome(float(self._settings.resync_seconds))

    def _celebrate(self, tenant: Obj, wanted: Obj) -> None:
        """Count and log how long a tenant took to its first Ready."""
        meta = tenant["metadata"]
        if not is_true(wanted["conditions"], ConditionType.READY) or (tenant.get("status") or {}).get("planeClusterUID"):
            return
        seconds = metrics.first_ready(str(meta["uid"]), str(meta["creationTimestamp"]), self._clock.now())
        if seconds is not None:
            _log.info("tenant ready", extra={"tenant": str(meta["name"]), "seconds": round(seconds, 1)})


def _failure(error: KubeError | TimeoutError) -> Refusal:
    if isinstance(error, Forbidden | Unprocessable | Conflict):
        return Refusal(Reason.HOST_REFUSED, f"the host refused an object: {error}")
    if isinstance(error, Unavailable | TimeoutError):
        return Refusal(Reason.HOST_UNAVAILABLE, f"the host's API did not answer: {error}")
    if isinstance(error, ApiError):
        return Refusal(Reason.HOST_REFUSED, f"the host's API: {error}")
    return Refusal(Reason.HOST_UNAVAILABLE, f"the host's API: {error}")


def _pki(observed: Observed, assembled: Assembled | None, failure: Refusal | None) -> bool:
    """Whether the keys are there: written by this pass, or there before it; as it was, where the pass did not come so far."""
    if assembled is None:
        before = (observed.tenant.get("status") or {}).get("conditions") or []
        return failure is not None and is_true(before, ConditionType.PKI_READY)
    return failure is None or {SERVICE_ACCOUNT_SECRET, names.KUBECONFIG_SECRET} <= observed.in_plane(kinds.SECRETS).keys()


def _unseen(spec: PlaneSpec, findings: status.Findings, *, slurm: bool) -> tuple[ConditionType, ...]:
    """The parts of a held tenant that the status goes on to tell as before."""
    nodes = (ConditionType.NODES_DEDICATED,) if spec.dedicated and findings.nodes is None else ()
    return (*nodes, ConditionType.SLURM_READY) if slurm else nodes


def _slurm_part(tenant: Obj, slurm: Ordered) -> slurm_status.SlurmPart:
    before = (tenant.get("status") or {}).get("conditions") or []
    return slurm_status.part(slurm.found, slurm.spec, was=is_true(before, ConditionType.SLURM_READY))


def _asked_at(tenant: Obj) -> datetime:
    """When deletion was asked for."""
    return datetime.fromisoformat(str(tenant["metadata"]["deletionTimestamp"]))
