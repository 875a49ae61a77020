"""Makes a retained plane the new Tenant's: its record is signed again, then its namespaces and slice lose their marks.

    record for the new Tenant ──> work namespace ──> slice ──> plane's namespace ──> observed again, as any other tenant's

A controller that dies in between finds the marks of what comes later, and begins again: each write may be repeated. The plane's
namespace is last, because while it has its mark nothing is built in it. The admission has refused everything that can be seen
without the record (`controller.decide.adopt`).
"""

import base64
from dataclasses import dataclass
from typing import Protocol

from bulkhead.api import labels, names, planerecord
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict, NotFound
from bulkhead.kube.objects import Resource
from bulkhead.signing import Ring, SignatureError
from controller import metrics
from controller.decide import accepted
from controller.decide.adopt import Claim, signed_again, takes, withdrawn
from controller.decide.identity import InDoubtError
from controller.decide.retain import retained_by
from controller.pki.material import files_of
from controller.refusal import Refusal
from controller.sections import section_of
from controller.tenant.apply import Outdated
from controller.tenant.observe import recorded_spec
from controller.tenant.turn import Facet, Turn


class Keys(Protocol):
    """Where the keys come from."""

    async def ring(self, *, fresh: bool = False) -> Ring:
        """The keys; `fresh`: read again. Raises KubeError or SignatureError."""


@dataclass(frozen=True, slots=True)
class Adoption(Facet):
    """See the module."""

    name = "adoption"
    client: Client
    keys: Keys

    async def reconcile(self, turn: Turn) -> Turn:
        """Take it up, and have everything observed again.

        Raises InDoubtError if its record does not count, or if the new Tenant lets in users that the former had shut out.
        """
        claim = turn.observed.claim
        if not takes(claim):
            return turn
        uid = turn.spec.uid
        await self._check_revoked(turn, claim)
        try:
            await self._sign(claim, uid, turn.spec.namespace)
            work = names.work_namespace(claim.tenant)
            await self._take(kinds.NAMESPACES, work, claim, {labels.TENANT_UID: uid, labels.ENDS: None})
            await self._take(kinds.SERVICE_CIDRS, turn.spec.namespace, claim, {})
            await self._take(kinds.NAMESPACES, turn.spec.namespace, claim, {labels.TENANT_UID: uid})
        except Conflict as error:
            raise Outdated(f"the retained plane changed meanwhile: {error}") from error
        metrics.report_retained(claim.tenant, None)
        raise Outdated(f"the retained plane {claim.adopt} is taken up")

    async def _check_revoked(self, turn: Turn, claim: Claim) -> None:
        former = claim.retained.uid if claim.retained is not None else ""
        spec = accepted.spec_of(await recorded_spec(self.client, claim.tenant), former)
        if why := withdrawn(claim, spec, section_of(turn.observed.tenant, "spec")):
            raise InDoubtError(why)

    async def _sign(self, claim: Claim, uid: str, namespace: str) -> None:
        try:
            secret = await self.client.get(kinds.SECRETS, planerecord.SECRET, namespace)
        except NotFound:
            secret = None
        envelope = None if secret is None else files_of(secret).get(planerecord.FILE, b"").decode("utf-8", "replace")
        try:
            ring = await self.keys.ring(fresh=True)
        except SignatureError as error:
            raise InDoubtError(str(error)) from error
        record = signed_again(claim, uid, envelope, ring)
        if isinstance(record, Refusal):
            raise InDoubtError(record.message)
        if record is None or secret is None:
            return
        data = {planerecord.FILE: base64.b64encode(ring.sign(planerecord.PURPOSE, record.text()).encode()).decode()}
        body = {"metadata": {"resourceVersion": secret["metadata"]["resourceVersion"]}, "data": data}
        await self.client.patch(kinds.SECRETS, planerecord.SECRET, body, namespace)

    async def _take(self, resource: Resource, name: str, claim: Claim, notes: Obj) -> None:
        """Take the marks off one object, if it has them for this very plane."""
        try:
            found = await self.client.get(resource, name)
        except NotFound:
            return
        retained = retained_by(found, claim.tenant)
        if retained is None or retained.identity != claim.adopt:
            return
        meta = {
            "resourceVersion": found["metadata"]["resourceVersion"],
            "labels": {labels.RETAINED: None},
            "annotations": {labels.RETAINED_UNTIL: None, **notes},
        }
        await self.client.patch(resource, name, {"metadata": meta})
