"""Takes the steps of a restore (`controller.restores.decide`): the first facet up to the start, the second one after it."""

import logging
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from bulkhead.api import labels, planeidentity, planerecord
from bulkhead.api.conditions import timestamp
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import AlreadyExists, Conflict
from bulkhead.signing import Ring, SignatureError
from bulkhead.snapshots.bundle import Bundle, BundleError
from bulkhead.snapshots.judge import RefusedError, Stored, Taker, judge, opened
from bulkhead.snapshots.layout import STORE
from bulkhead.snapshots.manifest import Manifest
from bulkhead.work.clock import Clock
from controller.decide.identity import InDoubtError, runs_as
from controller.decide.plan import Plan
from controller.host.restores import Restores
from controller.inside.access import PlaneHealth
from controller.pki.issue import new_encryption_key
from controller.pki.material import files_of
from controller.plane.restoring import ENCRYPTION
from controller.plane.secrets import SERVICE_ACCOUNT_SECRET
from controller.plane.sections import Restoring
from controller.plane.spec import PLANE
from controller.restores import clones, status
from controller.restores.decide import (
    MOST_BYTES,
    Decision,
    Facts,
    Holder,
    Keys,
    Place,
    Step,
    WaitsError,
    bump,
    clone_keys,
    clone_refusal,
    compares_again,
    decide,
    keys,
    note,
    refusal,
)
from controller.restores.status import Compared
from controller.tenant.apply import Outdated
from controller.tenant.facets.restores.comparing import Comparing
from controller.tenant.facets.restores.host import RestoreHost, brought
from controller.tenant.facets.restores.report import report
from controller.tenant.observe import Observed
from controller.tenant.status import Report
from controller.tenant.turn import Facet, GroundLaid, Inherited, Seen, Turn

_log = logging.getLogger(__name__)


class Ringed(Protocol):
    """Where the keys come from that have signed snapshots."""

    async def ring(self, *, fresh: bool = False) -> Ring:
        """The keys; `fresh`: read again. Raises KubeError or SignatureError."""


@dataclass(frozen=True, slots=True)
class AtWork:
    """The restore that is being done, and its present step. words: what to report instead of the step's own."""

    request: Obj
    manifest: Manifest
    step: Step
    words: str = ""


@dataclass(frozen=True, slots=True)
class RestoreBegun(Facet):
    """Everything up to the start: stops the plane, puts keys back, and fills its volumes."""

    name = "restore begun"
    needs = (GroundLaid,)
    requests: Restores
    host: RestoreHost
    clock: Clock
    signed: Ringed

    async def wishes(self, observed: Observed) -> str:
        """The slice in which the Services of the snapshot have their addresses."""
        return await self.requests.slice_of(observed.name, new=_new(observed))

    async def reconcile(self, turn: Turn) -> Turn:
        """Take the next step of the oldest restore of this tenant. Raises WaitsError before there is a plane."""
        asked = await self.requests.asked(turn.tenant, new=_new(turn.observed))
        request = await self.host.request(asked[0]["metadata"]["name"]) if asked else None
        if request is None or status.finished(request):
            await self._never_empty(turn)
            return turn
        for other in asked[1:]:
            why = f"for TenantRestore {request['metadata']['name']} of the same tenant"
            await self.host.report(other, status.waiting(other, why, self.clock.now()))
        try:
            found = await self._opened(request)
        except (RefusedError, SignatureError) as error:
            await self._refuse(turn, request, None, str(error))
            await self._never_empty(turn)
            return turn
        return await self._step(turn, request, found)

    async def forget(self, tenant: str) -> None:
        """End what had begun for a plane that is gone: the next Tenant of its name would go on with it."""
        begun = [request for request in self.requests.pending(tenant) if status.began(request) is not None]
        # A plane that is kept goes on with it once a Tenant adopts it.
        if begun and await self.host.is_gone(tenant):
            for request in begun:
                await self.host.report(request, status.failed(request, "its Tenant was deleted", self.clock.now()))
                _log.warning("restore %s ended: its Tenant was deleted", request["metadata"]["name"], extra={"tenant": tenant})

    def report(self, seen: Seen) -> Report:
        """That a restore is at work, before anything else."""
        found = seen.turn.of(AtWork)
        return report(found.step, found.words) if found is not None else report(None)

    async def _never_empty(self, turn: Turn) -> None:
        """Raise WaitsError if the Tenant was made for a clone that was not made: an empty plane is not what it is for."""
        tenant = turn.observed.tenant
        of = (tenant["metadata"].get("annotations") or {}).get(labels.CLONE_OF)
        if not of or planeidentity.reported_uid(tenant):
            return
        # A Tenant that was made again has no status, and finds the plane that it has.
        if await self.host.has_run(turn.spec) or await self.requests.succeeded(turn.tenant):
            return
        raise WaitsError(clones.abandoned(turn.tenant, str(of)))

    async def _opened(self, request: Obj) -> Manifest:
        envelope = str(request["spec"]["manifest"])
        try:
            return opened(envelope, await self.signed.ring())
        except RefusedError:
            # Another controller may have rotated the keys since they were read.
            return opened(envelope, await self.signed.ring(fresh=True))

    async def _step(self, turn: Turn, request: Obj, found: Manifest) -> Turn:
        facts, bundle = await self._facts(turn, request, found)
        decision, now = decide(facts, self.clock.now()), self.clock.now()
        if decision.step is Step.REFUSE:
            await self._refuse(turn, request, found, decision.why)
            await self._never_empty(turn)
            return turn
        request = await self._record(request, found, decision, now, str(turn.observed.tenant["metadata"]["uid"]))
        if decision.step is Step.PREPARE and bundle is not None:
            await self._prepare(turn, request, found, bundle, noted=facts.built and not status.clone_of(request))
        if decision.step is Step.AWAIT_KEYS and not facts.built:
            raise WaitsError(f"a restore waits {status.MESSAGES[Step.AWAIT_KEYS][1]}")
        stopped = decision.step in {Step.STOP, Step.PREPARE, Step.FILL}
        tenant, filling = turn.observed.tenant, decision.step is Step.FILL
        restoring = _restoring(request, found, tenant, filling=filling) if stopped else None
        # The identity counts only where there is no record and no plane. A clone gets one of its own.
        inherited = None if status.clone_of(request) else Inherited(found.identity)
        made = (inherited, AtWork(request, found, decision.step))
        return replace(turn, spec=replace(turn.spec, restoring=restoring)).plus(*made)

    async def _facts(self, turn: Turn, request: Obj, found: Manifest) -> tuple[Facts, Bundle | None]:
        spec, secrets = turn.spec, turn.observed.in_plane(kinds.SECRETS)
        claims = turn.observed.in_plane(kinds.PERSISTENT_VOLUME_CLAIMS)
        standing = await self.host.look(spec, self.clock.now(), keys=SERVICE_ACCOUNT_SECRET in secrets or bool(claims))
        began = status.began(request)
        taken = standing.built and began is None
        bundle, why = None, _against(turn, request, found, await self.signed.ring(), taken=taken)
        try:
            bundle = brought(secrets, str(request["metadata"]["uid"]))
        except BundleError as error:
            why = "; ".join(filter(None, (why, f"its keys cannot be read: {error}")))
        if bundle is not None and bundle.record != found.record:
            why = "; ".join(filter(None, (why, "the keys are those of another snapshot")))
        keyless = bundle is not None and not bundle.secrets.get(SERVICE_ACCOUNT_SECRET, {}).get(ENCRYPTION)
        if keyless and status.clone_of(request):
            why = "; ".join(filter(None, (why, "the key that its Secrets are encrypted with is missing")))
        facts = Facts(
            refused=why,
            began=began or (None if standing.built else status.asked(request)),
            filled=status.filled(request) is not None,
            keys=bundle is not None,
            built=standing.built,
            # Where there never was a plane, nothing has to stop: a turn that went on to its keys would draw new ones.
            stopped=standing.quiet and (began is not None or not standing.built),
            prepared=status.bump_of(request) is not None and bundle is not None and not _missing(turn, request, bundle),
            members=spec.control_plane.replicas,
            full=standing.full,
        )
        return facts, bundle

    async def _record(self, request: Obj, found: Manifest, decision: Decision, now: datetime, uid: str) -> Obj:
        """What must be known before it is acted on. `uid` is the Tenant's, which is the identity of a clone."""
        wanted = status.at_work(request, found, decision.step, now)
        if status.clone_of(request):
            wanted["identity"] = uid
        if decision.step in {Step.STOP, Step.PREPARE} and status.began(request) is None:
            wanted["startTime"] = timestamp(now)
        if decision.step is Step.FILLED:
            wanted["filledTime"] = timestamp(now)
        return await self.host.report(request, wanted)

    async def _prepare(self, turn: Turn, request: Obj, found: Manifest, bundle: Bundle, *, noted: bool) -> None:
        """Write what is missing, in this order: nothing may start before the note is there. Raises Outdated.

        `noted`: whether the syncer needs one; a plane that is new to the host has nothing there that could be deleted.
        """
        spec, secrets = turn.spec, turn.observed.in_plane(kinds.SECRETS)
        uid = planeidentity.reported_uid(turn.observed.tenant)
        try:
            if noted:
                await self.host.keep_quarantined(spec, _note(request, found), uid)
            await self.host.claim(spec)
            await self.host.close_members(spec)
            await self.host.write(spec, _missing(turn, request, bundle), secrets)
            raised = bump(await self.host.highest_revision(spec))
            await self.host.report(request, {"bump": raised})
        except (AlreadyExists, Conflict) as error:
            raise Outdated(f"what a restore prepares was written meanwhile: {error}") from error
        raise Outdated("a restore is prepared")

    async def _refuse(self, turn: Turn, request: Obj, found: Manifest | None, why: str) -> None:
        if found is not None:
            await self.host.release(turn.spec, _note(request, found), restored=False)
        await self.host.report(request, status.failed(request, why, self.clock.now()))
        _log.warning("restore %s refused: %s", request["metadata"]["name"], why, extra={"tenant": turn.tenant})


@dataclass(frozen=True, slots=True)
class RestoreEnded(Facet):
    """After the start: compares what the host has with the plane, and says what the snapshot does not know."""

    name = "restore ended"
    needs = (AtWork, Plan, PlaneHealth)
    host: RestoreHost
    clock: Clock
    comparing: Comparing

    async def reconcile(self, turn: Turn) -> Turn:
        """Compare once the plane answers with all that every plane starts with.

        One refused list does not decide: until a comparison succeeds, the syncer deletes nothing, so it is tried again.
        """
        work, health = turn.need(AtWork), turn.need(PlaneHealth)
        if work.step not in {Step.START, Step.FILLED} or not (health.ready and health.bootstrapped):
            return turn
        # A clone begins with nothing on the host: what is there now is what its plane has asked for.
        is_clone = bool(status.clone_of(work.request))
        compared = Compared() if is_clone else await self.comparing.compare(turn.spec)
        now = self.clock.now()
        if compared.passing and compares_again(status.filled(work.request), now):
            _log.warning("comparing again: %s", compared.trouble, extra={"tenant": turn.tenant})
            request = await self.host.report(work.request, status.comparing(work.request, compared.trouble, now))
            return turn.plus(AtWork(request, work.manifest, Step.COMPARE, status.message_of(request)))
        if compared.clean:
            noted = _note(work.request, work.manifest)
            await self.host.release(turn.spec, noted, restored=True, cluster_uid=health.cluster_uid)
        await self.host.report(work.request, status.restored(work.request, work.manifest, compared, now))
        _log.info("restored from %s", work.manifest.snapshot, extra={"tenant": turn.tenant, "unknown": len(compared.unknown)})
        return turn.plus(replace(work, step=Step.COMPARE))


def _new(observed: Observed) -> str:
    """The UID of a tenant without keys; empty for any other."""
    has_keys = SERVICE_ACCOUNT_SECRET in observed.in_plane(kinds.SECRETS)
    return "" if has_keys else str(observed.tenant["metadata"]["uid"])


def _note(request: Obj, found: Manifest) -> str:
    return note(found.snapshot, found.created, str(request["metadata"]["name"]))


def _missing(turn: Turn, request: Obj, bundle: Bundle) -> Keys:
    there = {name: files_of(secret) for name, secret in turn.observed.in_plane(kinds.SECRETS).items()}
    if status.clone_of(request):
        return clone_keys(bundle.secrets, there, SERVICE_ACCOUNT_SECRET, new_encryption_key())
    return keys(bundle.secrets, there, SERVICE_ACCOUNT_SECRET)


def _restoring(request: Obj, found: Manifest, tenant: Obj, *, filling: bool) -> Restoring:
    uid = str(request["metadata"]["uid"])
    return Restoring(
        cloned=clones.cloned(found, uid, tenant) if status.clone_of(request) else None,
        restore=uid,
        size=found.parts[STORE].plain,
        bump=status.bump_of(request) or 0,
        discard=bool(request["spec"].get("discardOldData")),
        filling=filling,
    )


def _against(turn: Turn, request: Obj, found: Manifest, ring: Ring, *, taken: bool) -> str:
    """What speaks against a snapshot. `taken`: whether there was a plane before this restore began."""
    spec, observed = turn.spec, turn.observed
    of = status.clone_of(request)
    identity = "" if of else _identity(turn, ring)
    etcd = spec.images.etcd.partition("@")[0].rpartition(":")[2]
    taker = Taker(most=MOST_BYTES, identity=identity, kubernetes=spec.version, etcd=etcd)
    # Whether the parts are there is for the command to see: the controller reads nothing of the bucket.
    reasons = judge(found, Stored({name: part.size for name, part in found.parts.items()}), taker)
    if of:
        forbidden = "" if spec.backup.clones else str(observed.tenant["spec"].get("class") or "")
        return clone_refusal(found, reasons, Place(observed.name, of, spec.service_slice, taken, forbidden))
    return refusal(found, reasons, Holder(tenant=observed.name, identity=identity, service_slice=spec.service_slice))


def _identity(turn: Turn, ring: Ring) -> str:
    """The identity of the plane that is there; empty if there is none."""
    observed = turn.observed
    secret = observed.in_plane(kinds.SECRETS).get(planerecord.SECRET)
    if secret is not None:
        try:
            text = files_of(secret).get(planerecord.FILE, b"").decode("utf-8", "replace")
            return planerecord.read(ring.verify(planerecord.PURPOSE, text).text).id
        except (SignatureError, planerecord.RecordError) as error:
            raise InDoubtError(f"the record of the plane does not count: {error}") from error
    runs = runs_as(observed.get(kinds.STATEFUL_SETS, PLANE, turn.spec.namespace))
    return runs or str((observed.tenant.get("status") or {}).get("planeIdentity") or "")
