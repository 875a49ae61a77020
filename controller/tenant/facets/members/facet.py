"""The members of a plane of three: the record by which they start, and the replacement of one that lost its volume."""

import logging
from dataclasses import dataclass
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.api.podphase import is_pending_deletion
from bulkhead.api.quantity import InvalidQuantityError, parse
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from controller.decide.storage import claims_of
from controller.inside.members import Members
from controller.plane import memberrecord, membership
from controller.plane.memberrecord import CONFIG_MAP, Record, pods_of
from controller.plane.membership import Decision, Pod, Restart, Standing, Write
from controller.plane.secrets import KeyMaterial
from controller.plane.spec import PLANE, PlaneSpec
from controller.tenant.facets.members.report import report
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
        return turn.plus(memberrecord.read(found))

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
    """Asks the members, and replaces one that lost its volume, a step at a time."""

    name = "members cared for"
    needs = (KeyMaterial, Record)
    in_any_case = True
    client: Client
    interior: Interior
    members: Members

    async def reconcile(self, turn: Turn) -> Turn:
        """Take the steps that the members allow now."""
        spec, keys, record = turn.spec, turn.need(KeyMaterial), turn.need(Record)
        addresses = self.interior.addresses(spec)
        pods = _pods(turn)
        standing = await self.members.look(spec, keys, addresses, record, pods)
        decision = membership.decide(standing)
        try:
            for _ in range(_STEPS_IN_A_TURN):
                if decision.step is None:
                    break
                record = await self._apply(turn, standing, decision)
                # A pod that was deleted is not seen as such before its informer says so.
                if isinstance(decision.step, Restart):
                    break
                standing = await self.members.look(spec, keys, addresses, record, pods)
                decision = membership.decide(standing)
        except Conflict as error:
            _log.info("the record of members has changed: %s", error, extra={"tenant": turn.tenant})
        except (KubeError, TimeoutError) as error:
            _log.warning("cannot replace a member: %s", error, extra={"tenant": turn.tenant})
        return turn.plus(standing, decision)

    async def _apply(self, turn: Turn, standing: Standing, decision: Decision) -> Record:
        """Do one step; returns the record after it."""
        spec, step = turn.spec, decision.step
        match step:
            case Write(record):
                _log.info("the record of members: %s", memberrecord.data(spec, record), extra={"tenant": turn.tenant})
                body = {"metadata": {"resourceVersion": record.version}, "data": memberrecord.data(spec, record)}
                return memberrecord.read(await self.client.patch(kinds.CONFIG_MAPS, CONFIG_MAP, body, spec.namespace))
            case Restart(pod, uid):
                await self._restart(spec, pod, uid)
            case membership.Remove(pod, _) if not await self._is_lost(turn, pod):
                # The informer was late.
                raise Conflict(409, "Conflict", f"pod {pod} is not the one that was observed")
            case membership.Remove() | membership.Add() | membership.Promote():
                keys, addresses = turn.need(KeyMaterial), self.interior.addresses(spec)
                await self.members.change(spec, keys, addresses, standing, step)
            case None:
                pass
        return standing.record

    async def _is_lost(self, turn: Turn, pod: str) -> bool:
        """Whether the pod still shows that its volume is empty, as the API server has it: a removal cannot be undone."""
        try:
            found = await self.client.get(kinds.PODS, pod, turn.spec.namespace)
        except NotFound:
            return False
        return memberrecord.refused(found) and not is_pending_deletion(found)

    async def _restart(self, spec: PlaneSpec, pod: str, uid: str) -> None:
        try:
            await self.client.delete(kinds.PODS, pod, spec.namespace, uid=uid or None)
        except (NotFound, Conflict):
            # Another pod has its name already.
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
        return report(standing, seen.turn.of(Decision), down)


def _pods(turn: Turn) -> tuple[Pod, ...]:
    """The plane's pods, with what their containers and volumes show."""
    spec, namespace = turn.spec, turn.spec.namespace
    sizes = {
        str(claim["metadata"]["name"]): _capacity(claim) for claim in claims_of(turn.observed.existing.values(), namespace)
    }
    found = (turn.observed.get(kinds.PODS, pod, namespace) for pod in pods_of(spec))
    return tuple(_pod(pod, sizes) for pod in found if pod is not None and not is_pending_deletion(pod))


def _pod(pod: Obj, sizes: dict[str, int | None]) -> Pod:
    meta = pod["metadata"]
    name = str(meta["name"])
    return Pod(
        name,
        str(meta.get("uid") or ""),
        refused=memberrecord.refused(pod),
        tries=memberrecord.tries(pod),
        capacity=sizes.get(f"data-{name}"),
    )


def _capacity(claim: Obj) -> int | None:
    """Bytes of a bound volume; None if it is not bound."""
    status = claim.get("status") or {}
    try:
        return int(parse((status.get("capacity") or {})["storage"])) if status.get("phase") == "Bound" else None
    except (KeyError, InvalidQuantityError):
        return None
