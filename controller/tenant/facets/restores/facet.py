"""Takes the steps of a restore (`controller.restores.decide`): the first facet up to the start, the second one after it."""

import logging
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from bulkhead.api import planerecord
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
from controller.pki.material import files_of
from controller.plane.secrets import SERVICE_ACCOUNT_SECRET
from controller.plane.sections import Restoring
from controller.plane.spec import PLANE
from controller.restores import status
from controller.restores.decide import (
    MOST_BYTES,
    Decision,
    Facts,
    Holder,
    Keys,
    Step,
    WaitsError,
    bump,
    decide,
    keys,
    note,
    refusal,
)
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
    """The restore that is being done, and its present step."""

    request: Obj
    manifest: Manifest
    step: Step


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
            return turn
        for other in asked[1:]:
            why = f"for TenantRestore {request['metadata']['name']} of the same tenant"
            await self.host.report(other, status.waiting(other, why, self.clock.now()))
        try:
            found = await self._opened(request)
        except (RefusedError, SignatureError) as error:
            await self._refuse(turn, request, None, str(error))
            return turn
        return await self._step(turn, request, found)

    def report(self, seen: Seen) -> Report:
        """That a restore is at work, before anything else."""
        found = seen.turn.of(AtWork)
        return report(found.step if found is not None else None)

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
            return turn
        request = await self._record(request, found, decision, now)
        if decision.step is Step.PREPARE and bundle is not None:
            await self._prepare(turn, request, found, bundle, built=facts.built)
        if decision.step is Step.AWAIT_KEYS and not facts.built:
            raise WaitsError(f"a restore waits {status.MESSAGES[Step.AWAIT_KEYS][1]}")
        stopped = decision.step in {Step.STOP, Step.PREPARE, Step.FILL}
        restoring = _restoring(request, found, filling=decision.step is Step.FILL) if stopped else None
        # The identity counts only where there is no record and no plane.
        made = (Inherited(found.identity), AtWork(request, found, decision.step))
        return replace(turn, spec=replace(turn.spec, restoring=restoring)).plus(*made)

    async def _facts(self, turn: Turn, request: Obj, found: Manifest) -> tuple[Facts, Bundle | None]:
        spec, secrets = turn.spec, turn.observed.in_plane(kinds.SECRETS)
        claims = turn.observed.in_plane(kinds.PERSISTENT_VOLUME_CLAIMS)
        standing = await self.host.look(spec, keys=SERVICE_ACCOUNT_SECRET in secrets or bool(claims))
        bundle, why = None, refusal(found, *_against(turn, found, await self.signed.ring()))
        try:
            bundle = brought(secrets, str(request["metadata"]["uid"]))
        except BundleError as error:
            why = "; ".join(filter(None, (why, f"its keys cannot be read: {error}")))
        if bundle is not None and bundle.record != found.record:
            why = "; ".join(filter(None, (why, "the keys are those of another snapshot")))
        began = status.began(request)
        facts = Facts(
            refused=why,
            began=began,
            filled=status.is_filled(request),
            keys=bundle is not None,
            built=standing.built,
            # Where there never was a plane, nothing has to stop: a turn that went on to its keys would draw new ones.
            stopped=standing.quiet and (began is not None or not standing.built),
            prepared=status.bump_of(request) is not None and bundle is not None and not _missing(turn, bundle),
            members=spec.control_plane.replicas,
            full=standing.full,
        )
        return facts, bundle

    async def _record(self, request: Obj, found: Manifest, decision: Decision, now: datetime) -> Obj:
        """What must be known before it is acted on."""
        wanted = status.at_work(request, found, decision.step, now)
        if decision.step in {Step.STOP, Step.PREPARE} and status.began(request) is None:
            wanted["startTime"] = timestamp(now)
        if decision.step is Step.FILLED:
            wanted["filledTime"] = timestamp(now)
        return await self.host.report(request, wanted)

    async def _prepare(self, turn: Turn, request: Obj, found: Manifest, bundle: Bundle, *, built: bool) -> None:
        """Write what is missing, in this order: nothing may start before the note is there. Raises Outdated."""
        spec, secrets = turn.spec, turn.observed.in_plane(kinds.SECRETS)
        uid = str((turn.observed.tenant.get("status") or {}).get("planeClusterUID") or "")
        try:
            if built:
                await self.host.keep_quarantined(spec, _note(request, found), uid)
            await self.host.claim(spec)
            await self.host.close_members(spec)
            await self.host.write(spec, _missing(turn, bundle), secrets)
            raised = bump(await self.host.highest_revision(spec))
            await self.host.report(request, {"bump": raised})
        except (AlreadyExists, Conflict) as error:
            raise Outdated(f"what a restore prepares was written meanwhile: {error}") from error
        raise Outdated("a restore is prepared")

    async def _refuse(self, turn: Turn, request: Obj, found: Manifest | None, why: str) -> None:
        if found is not None:
            await self.host.release(turn.spec, _note(request, found), restored=False)
        await self.host.report(request, status.failed(request, why, self.clock.now()))
        await self.host.drop_keys(turn.spec)
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
        """Compare once the plane answers with all that every plane starts with."""
        work, health = turn.need(AtWork), turn.need(PlaneHealth)
        if work.step not in {Step.START, Step.FILLED} or not (health.ready and health.bootstrapped):
            return turn
        compared = await self.comparing.compare(turn.spec)
        if compared.clean:
            await self.host.release(turn.spec, _note(work.request, work.manifest), restored=True)
        await self.host.report(work.request, status.restored(work.request, work.manifest, compared, self.clock.now()))
        await self.host.drop_keys(turn.spec)
        _log.info("restored from %s", work.manifest.snapshot, extra={"tenant": turn.tenant, "unknown": len(compared.unknown)})
        return turn.plus(replace(work, step=Step.COMPARE))


def _new(observed: Observed) -> str:
    """The UID of a tenant without keys; empty for any other."""
    has_keys = SERVICE_ACCOUNT_SECRET in observed.in_plane(kinds.SECRETS)
    return "" if has_keys else str(observed.tenant["metadata"]["uid"])


def _note(request: Obj, found: Manifest) -> str:
    return note(found.snapshot, found.created, str(request["metadata"]["name"]))


def _missing(turn: Turn, bundle: Bundle) -> Keys:
    secrets = turn.observed.in_plane(kinds.SECRETS)
    return keys(bundle.secrets, {name: files_of(secret) for name, secret in secrets.items()}, SERVICE_ACCOUNT_SECRET)


def _restoring(request: Obj, found: Manifest, *, filling: bool) -> Restoring:
    return Restoring(
        restore=str(request["metadata"]["uid"]),
        size=found.parts[STORE].plain,
        bump=status.bump_of(request) or 0,
        discard=bool(request["spec"].get("discardOldData")),
        filling=filling,
    )


def _against(turn: Turn, found: Manifest, ring: Ring) -> tuple[tuple[str, ...], Holder]:
    """What speaks against a snapshot, and the plane whose place it would take."""
    spec, observed = turn.spec, turn.observed
    identity = _identity(turn, ring)
    etcd = spec.images.etcd.partition("@")[0].rpartition(":")[2]
    taker = Taker(most=MOST_BYTES, identity=identity, kubernetes=spec.version, etcd=etcd)
    # Whether the parts are there is for the command to see: the controller reads nothing of the bucket.
    reasons = judge(found, Stored({name: part.size for name, part in found.parts.items()}), taker)
    return reasons, Holder(tenant=observed.name, identity=identity, service_slice=spec.service_slice)


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
