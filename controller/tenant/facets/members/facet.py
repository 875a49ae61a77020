"""The members of a plane of three: the record by which they start, the replacement of one, and the recovery from one."""

import contextlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from bulkhead.api import planeidentity, planemembers
from bulkhead.api.conditions import ConditionType
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import is_pending_deletion, is_ready, placed_on
from bulkhead.api.quantity import InvalidQuantityError, parse
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, Throttled
from bulkhead.kube.objects import Resource
from bulkhead.work.clock import Clock
from controller.decide.storage import claims_of
from controller.inside.members import Members
from controller.plane import etcd, memberrecord, membership, rollout, stranded
from controller.plane.memberrecord import CONFIG_MAP, Record, pods_of
from controller.plane.membership import Claim, Decision, Discard, Evict, Pod, Quarantine, Restart, Standing, Write
from controller.plane.secrets import KeyMaterial
from controller.plane.spec import PLANE, PlaneSpec
from controller.plane.statefulset import ON_DELETE
from controller.plane.stranded import Strandings
from controller.tenant.facets.members.report import report, spread
from controller.tenant.interior import Interior
from controller.tenant.status import Report
from controller.tenant.turn import Facet, GroundLaid, Seen, Turn

_log = logging.getLogger(__name__)
# A step follows from what the members say after the one before.
_STEPS_IN_A_TURN: Final = 4


@dataclass(frozen=True, slots=True)
class MembersRecorded(Facet):
    """The record exists before the pods that read it."""

    name = "members recorded"
    needs = (GroundLaid,)
    client: Client

    async def reconcile(self, turn: Turn) -> Turn:
        """Read the record; create it for a new plane, and for one of an earlier release."""
        spec = turn.spec
        if spec.control_plane.replicas == 1:
            return turn
        try:
            found = await self.client.get(kinds.CONFIG_MAPS, CONFIG_MAP, spec.namespace)
        except NotFound:
            found = await self._create(turn)
        await self._end_own_rollout(turn)
        return turn.plus(memberrecord.read(found))

    async def _end_own_rollout(self, turn: Turn) -> None:
        """The API server has filled in the own rollout of a StatefulSet that is of one member or of an earlier release.

        An apply cannot take away a field that it does not have, and the API server refuses both together.
        """
        spec = turn.spec
        there = turn.observed.get(kinds.STATEFUL_SETS, PLANE, spec.namespace)
        if there is None or (there["spec"].get("updateStrategy") or {}).get("type") == ON_DELETE:
            return
        strategy = {"type": ON_DELETE, "rollingUpdate": None}
        body = {"metadata": {"uid": there["metadata"]["uid"]}, "spec": {"updateStrategy": strategy}}
        with contextlib.suppress(NotFound, Conflict):
            await self.client.patch(kinds.STATEFUL_SETS, PLANE, body, spec.namespace)

    async def _create(self, turn: Turn) -> Obj:
        """Open for all only if there was never a plane: no StatefulSet, and no volume."""
        spec = turn.spec
        record = Record(founding=not await self._began(turn))
        try:
            return await self.client.create(kinds.CONFIG_MAPS, memberrecord.config_map(spec, record))
        except AlreadyExists:
            return await self.client.get(kinds.CONFIG_MAPS, CONFIG_MAP, spec.namespace)

    async def _began(self, turn: Turn) -> bool:
        spec = turn.spec
        if claims_of(turn.observed.existing.values(), spec.namespace):
            return True
        try:
            await self.client.get(kinds.STATEFUL_SETS, PLANE, spec.namespace)
        except NotFound:
            return False
        return True


@dataclass(frozen=True, slots=True)
class MembersCared(Facet):
    """Asks the members, replaces one that lost its volume, recovers from one, and rolls out templates, a step at a time."""

    name = "members cared for"
    needs = (KeyMaterial, Record)
    in_any_case = True
    client: Client
    interior: Interior
    members: Members
    clock: Clock

    async def reconcile(self, turn: Turn) -> Turn:
        """Take the steps that the members allow now; none while a restore keeps them stopped."""
        if turn.spec.restoring is not None:
            return turn
        record = turn.need(Record)
        standing = await self._look(turn, record)
        decision = rollout.decide(standing)
        try:
            # The record may have another version after it.
            standing = replace(standing, record=await self._publish(turn, standing))
            decision = rollout.decide(standing)
            for _ in range(_STEPS_IN_A_TURN):
                if decision.step is None:
                    break
                record = await self._apply(turn, standing, decision.step)
                # What was deleted is not seen as such before its informer says so; of a recovery, claims are read afresh.
                if isinstance(decision.step, Restart | Evict) or (
                    isinstance(decision.step, Discard) and record.recovery is None
                ):
                    break
                standing = await self._look(turn, record)
                decision = rollout.decide(standing)
        except Conflict as error:
            _log.info("the record of members has changed: %s", error, extra={"tenant": turn.tenant})
        except (KubeError, TimeoutError) as error:
            _log.warning("cannot change the members: %s", error, extra={"tenant": turn.tenant})
        return turn.plus(standing, decision)

    async def _look(self, turn: Turn, record: Record) -> Standing:
        spec, keys = turn.spec, turn.need(KeyMaterial)
        pods = tuple(_pods(turn, self.clock.now()))
        standing = await self.members.look(spec, keys, self.interior.addresses(spec), record, pods)
        if record.recovery is None:
            there = claims_of(turn.observed.existing.values(), spec.namespace)
            return replace(standing, claims=tuple(_claim(claim) for claim in there))
        # What it deletes is read from the API server, and not from an informer.
        claims = [await self._found(kinds.PERSISTENT_VOLUME_CLAIMS, f"data-{pod}", spec) for pod in pods_of(spec)]
        identity = planeidentity.recorded(await self._found(kinds.CONFIG_MAPS, planeidentity.NAME, spec))
        return replace(
            standing,
            claims=tuple(_claim(claim) for claim in claims if claim is not None),
            quarantined=bool(identity.quarantine),
        )

    async def _found(self, resource: Resource, name: str, spec: PlaneSpec) -> Obj | None:
        try:
            return await self.client.get(resource, name, spec.namespace)
        except NotFound:
            return None

    async def _publish(self, turn: Turn, standing: Standing) -> Record:
        """Write beside the record what each member has while they have no quorum: an admin chooses by it."""
        record, spec = standing.record, turn.spec
        told = "" if standing.quorate or record.founding else planemembers.heard_text(standing.heard)
        if told == record.heard:
            return record
        body = {"metadata": {"resourceVersion": record.version}, "data": {planemembers.HEARD: told}}
        return memberrecord.read(await self.client.patch(kinds.CONFIG_MAPS, CONFIG_MAP, body, spec.namespace))

    async def _apply(self, turn: Turn, standing: Standing, step: membership.Step) -> Record:
        """Do one step; returns the record after it."""
        spec = turn.spec
        match step:
            case Write(record):
                _log.info("the record of members: %s", memberrecord.data(spec, record), extra={"tenant": turn.tenant})
                body = {"metadata": {"resourceVersion": record.version}, "data": memberrecord.data(spec, record)}
                return memberrecord.read(await self.client.patch(kinds.CONFIG_MAPS, CONFIG_MAP, body, spec.namespace))
            case Restart(pod, uid):
                await self._delete(kinds.PODS, pod, spec, uid)
            case Evict(pod, uid):
                await self._evict(turn, pod, uid)
            case Quarantine(words):
                await self._quarantine(spec, words)
            case Discard(claim):
                _log.warning("the volume of %s is given up (claim %s)", claim.pod, claim.uid, extra={"tenant": turn.tenant})
                await self._delete(kinds.PERSISTENT_VOLUME_CLAIMS, f"data-{claim.pod}", spec, claim.uid)
            case membership.Remove(pod, _, why) if not await self._still(turn, standing.pods.get(pod), why):
                # The informer was late.
                raise Conflict(409, "Conflict", f"pod {pod} is not the one that was observed")
            case membership.Remove() | membership.Add() | membership.Move() | membership.Promote() | membership.Disarm():
                keys, addresses = turn.need(KeyMaterial), self.interior.addresses(spec)
                await self.members.change(spec, keys, addresses, standing, step)
        return standing.record

    async def _evict(self, turn: Turn, pod: str, uid: str) -> None:
        """The plane's disruption budget may refuse it: then another pod is away, or is about to be."""
        namespace = turn.spec.namespace
        body: Obj = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
        body["deleteOptions"] = {"preconditions": {"uid": uid}}
        _log.info("%s starts again with the present template", pod, extra={"tenant": turn.tenant})
        try:
            await self.client.create_subresource(kinds.PODS, pod, "eviction", body, namespace)
        except Throttled as error:
            _log.info("%s is not evicted now: %s", pod, error, extra={"tenant": turn.tenant})
        except NotFound:
            return

    async def _quarantine(self, spec: PlaneSpec, words: str) -> None:
        """The syncer deletes nothing until an admin accepts the data: `bulkhead tenant accept-data`."""
        data = {planeidentity.QUARANTINE_KEY: words}
        try:
            await self.client.patch(kinds.CONFIG_MAPS, planeidentity.NAME, {"data": data}, spec.namespace)
        except NotFound:
            await self.client.create(kinds.CONFIG_MAPS, planeidentity.config_map(spec.namespace, data))

    async def _still(self, turn: Turn, pod: Pod | None, why: membership.Why) -> bool:
        """Whether a member still has to go, as the API server has its pod and claim: a removal cannot be undone."""
        if why == "other data":  # by etcd's own word
            return True
        found = await self._found(kinds.PODS, pod.name, turn.spec) if pod is not None else None
        if pod is None or found is None or is_pending_deletion(found):
            return False
        if why == "empty":
            return memberrecord.refused(found)
        if why == "forgotten":
            return memberrecord.forgot(found)
        if found["metadata"]["uid"] != pod.uid or placed_on(found):
            return False
        return bool(pod.stranded) or await self._found(kinds.PERSISTENT_VOLUME_CLAIMS, f"data-{pod.name}", turn.spec) is None

    async def _delete(self, resource: Resource, name: str, spec: PlaneSpec, uid: str) -> None:
        try:
            await self.client.delete(resource, name, spec.namespace, uid=uid or None)
        except (NotFound, Conflict):
            # Another object has its name already.
            return

    def report(self, seen: Seen) -> Report:
        """The members as they were found."""
        standing = seen.turn.of(Standing)
        silent = [pod for pod in pods_of(seen.turn.spec) if standing is not None and pod not in standing.lists]
        down = (
            f"{' and '.join(silent)} of {len(pods_of(seen.turn.spec))} members do not answer; the others serve"
            if silent
            else ""
        )
        decision, strandings = seen.turn.of(Decision), seen.turn.of(Strandings) or Strandings()
        gone = stranded.of_several(seen.turn.spec.namespace, strandings)
        if down and gone:
            down = f"{down}; {gone}"
        if down and decision is not None and decision.rolling:
            down = f"{down}; {decision.rolling}"
        found = report(standing, decision, down, gone)
        names = pods_of(seen.turn.spec) if len(pods_of(seen.turn.spec)) > 1 else ()
        placed = spread(pod for name, pod in seen.named(kinds.PODS).items() if name in names)
        return replace(found, conditions={**found.conditions, ConditionType.MEMBERS_SPREAD: placed})


def _pods(turn: Turn, now: datetime) -> Iterable[Pod]:
    """The plane's pods, with what their containers and volumes show."""
    spec, namespace = turn.spec, turn.spec.namespace
    sizes = {
        str(claim["metadata"]["name"]): _capacity(claim) for claim in claims_of(turn.observed.existing.values(), namespace)
    }
    found = (turn.observed.get(kinds.PODS, pod, namespace) for pod in pods_of(spec))
    revision = memberrecord.revision(turn.observed.get(kinds.STATEFUL_SETS, PLANE, namespace))
    strandings = turn.of(Strandings) or Strandings()
    return (_pod(pod, sizes, revision, strandings, now) for pod in found if pod is not None and not is_pending_deletion(pod))


def _pod(pod: Obj, sizes: dict[str, int | None], revision: str, strandings: Strandings, now: datetime) -> Pod:
    meta = pod["metadata"]
    name = str(meta["name"])
    found = strandings.of(name)
    return Pod(
        name,
        str(meta.get("uid") or ""),
        refused=memberrecord.refused(pod),
        tries=memberrecord.tries(pod),
        capacity=sizes.get(f"data-{name}"),
        on_node=bool((pod.get("spec") or {}).get("nodeName")),
        runs_for=memberrecord.runs_for(pod, now),
        corrupt=memberrecord.corrupt(pod),
        forgot=memberrecord.forgot(pod),
        alone=etcd.members_of_pod(pod) == 1,
        ready=is_ready(pod),
        outdated=memberrecord.is_outdated(pod, revision),
        stranded=found.node if found is not None and found.has_volume and not found.exists else "",
    )


def _claim(claim: Obj) -> Claim:
    meta = claim["metadata"]
    return Claim(str(meta["name"]).removeprefix("data-"), str(meta["uid"]), ends=is_pending_deletion(claim))


def _capacity(claim: Obj) -> int | None:
    """Bytes of a bound volume; None if it is not bound."""
    status = claim.get("status") or {}
    try:
        return int(parse((status.get("capacity") or {})["storage"])) if status.get("phase") == "Bound" else None
    except (KeyError, InvalidQuantityError):
        return None
