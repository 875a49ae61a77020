"""Reads the plane's record among the Secrets that were just read, and writes it before anything follows from it."""

import base64
from dataclasses import dataclass, replace
from typing import Protocol

from bulkhead.api import labels, planerecord
from bulkhead.api.conditions import timestamp
from bulkhead.api.objects import Obj
from bulkhead.api.planerecord import PlaneRecord
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Conflict
from bulkhead.signing import Ring, SignatureError
from bulkhead.work.clock import Clock
from controller.decide.identity import Doubt, Facts, InDoubtError, Known, Write, decide, runs_as
from controller.pki.material import files_of
from controller.plane.spec import PLANE
from controller.tenant.apply import Outdated
from controller.tenant.facets.identity.report import report
from controller.tenant.observe import Observed
from controller.tenant.status import Report
from controller.tenant.turn import Facet, GroundLaid, Identified, Inherited, Seen, Turn


class Keys(Protocol):
    """Where the keys come from."""

    async def ring(self, *, fresh: bool = False) -> Ring:
        """The keys; `fresh`: read again. Raises KubeError or SignatureError."""


@dataclass(frozen=True, slots=True)
class Identity(Facet):
    """See the module."""

    name = "identity"
    needs = (GroundLaid,)
    client: Client
    clock: Clock
    keys: Keys

    async def reconcile(self, turn: Turn) -> Turn:
        """The turn with the plane's identity. Raises InDoubtError."""
        secret = turn.observed.in_plane(kinds.SECRETS).get(planerecord.SECRET)
        inherited = turn.of(Inherited)
        facts, now = _facts(turn.observed, secret, inherited), timestamp(self.clock.now())
        try:
            ring = await self.keys.ring()
            decided = decide(facts, ring, now)
            if isinstance(decided, Doubt):
                # Another controller may have rotated the keys since they were read.
                ring = await self.keys.ring(fresh=True)
                decided = decide(facts, ring, now)
        except SignatureError as error:
            raise InDoubtError(str(error)) from error
        match decided:
            case Doubt(why=why):
                raise InDoubtError(why)
            case Known(identity=identity):
                envelope = facts.record or ""
            case Write(record=record, again=again):
                identity, envelope = record.id, await self._write(turn, record, ring, secret if again else None)
        return replace(turn, spec=replace(turn.spec, identity=identity)).plus(Identified(identity, envelope))

    def report(self, seen: Seen) -> Report:
        """The identity, once the record counts."""
        found = seen.turn.of(Identified)
        return report(found.identity if found is not None else "")

    async def _write(self, turn: Turn, record: PlaneRecord, ring: Ring, there: Obj | None) -> str:
        envelope = ring.sign(planerecord.PURPOSE, record.text())
        data = {planerecord.FILE: base64.b64encode(envelope.encode()).decode()}
        try:
            if there is None:
                meta = {"name": planerecord.SECRET, "labels": labels.made_for(turn.tenant)}
                body: Obj = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "data": data}
                await self.client.create(kinds.SECRETS, body, turn.spec.namespace)
            else:
                body = {"metadata": {"resourceVersion": there["metadata"]["resourceVersion"]}, "data": data}
                await self.client.patch(kinds.SECRETS, planerecord.SECRET, body, turn.spec.namespace)
        except (AlreadyExists, Conflict) as error:
            raise Outdated(f"the plane's record was written meanwhile: {error}") from error
        return envelope


def _facts(observed: Observed, secret: Obj | None, inherited: Inherited | None) -> Facts:
    tenant = observed.tenant
    namespace = f"bh-{observed.name}"
    return Facts(
        tenant=observed.name,
        uid=str(tenant["metadata"]["uid"]),
        # A Secret without the file is a record that was emptied, and not one that was never written.
        record=None if secret is None else files_of(secret).get(planerecord.FILE, b"").decode("utf-8", "replace"),
        runs=runs_as(observed.get(kinds.STATEFUL_SETS, PLANE, namespace)),
        reported=str((tenant.get("status") or {}).get("planeIdentity") or ""),
        inherited=inherited.identity if inherited is not None else "",
    )
