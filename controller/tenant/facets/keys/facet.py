"""Keys and certificates: good ones are kept, others are issued. Renewals of different tenants are spread over time."""

import logging
from collections.abc import MutableMapping
from dataclasses import dataclass

from bulkhead.api.conditions import ConditionType
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from controller import metrics
from controller.decide.plan import Plan
from controller.host.owned import Owned
from controller.pki.issue import Known
from controller.pki.material import assemble, ends
from controller.pki.renewals import Renewals
from controller.plane.pki import USERS, authority_secret
from controller.plane.secrets import SERVICE_ACCOUNT_SECRET, KeyMaterial
from controller.tenant.facets.keys.report import report
from controller.tenant.presenting import present, version_of
from controller.tenant.status import Report
from controller.tenant.turn import Facet, GroundLaid, Identified, Seen, Turn

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PutOff:
    """Why certificates that are due are not renewed yet; empty if none is."""

    words: str


@dataclass(frozen=True, slots=True)
class Keys(Facet):
    """See the module. It writes nothing: keys are among the host objects."""

    name = "keys"
    needs = (GroundLaid, Identified)
    renewals: Renewals
    known: MutableMapping[str, Known]  # what was read from planes' certificates, by tenant

    async def reconcile(self, turn: Turn) -> Turn:
        """Assemble them from the Secrets in the plane's namespace. Raises KeysLostError."""
        observed, known = turn.observed, self.known[turn.tenant]
        secrets, has_data = observed.in_plane(kinds.SECRETS), bool(observed.in_plane(kinds.PERSISTENT_VOLUME_CLAIMS))
        assembled = assemble(turn.spec, secrets, observed.now, has_data=has_data, may_renew=self.renewals.take, known=known)
        for name, why in assembled.issued:
            _log.info("issuing", extra={"tenant": turn.tenant, "certificate": name, "why": why})
            metrics.certificates_issued.inc()
        metrics.report_certificates(turn.tenant, ends(assembled.keys, turn.spec, known))
        return turn.plus(assembled.keys, PutOff(self.renewals.why_not if assembled.put_off else ""))

    def report(self, seen: Seen) -> Report:
        """Whether the keys exist, and the CA by which clients verify the plane."""
        keys, put_off = seen.turn.of(KeyMaterial), seen.turn.of(PutOff)
        authority = keys.authorities["serving"].certificate.decode() if keys is not None else ""
        return report(there=_there(seen), put_off=put_off.words if put_off is not None else "", authority=authority)

    async def forget(self, tenant: str) -> None:
        """Drop what was read from the plane's certificates."""
        self.known.pop(tenant, None)


@dataclass(frozen=True, slots=True)
class Presented(Facet):
    """Makes the plane's API server read at once what it reads again while it runs: certificates, and who is trusted."""

    name = "presented"
    needs = (Plan,)
    client: Client
    owned: Owned

    async def reconcile(self, turn: Turn) -> Turn:
        """Touch the pods that were last touched for other files."""
        wanted = version_of(turn.need(Plan).rendered.parts)
        await present(self.client, turn.tenant, turn.spec.namespace, wanted, self.owned.pods_of(turn.tenant))
        return turn


def _there(seen: Seen) -> bool:
    """Whether the keys exist, written now or before. If the turn did not reach this facet, the previous report counts."""
    if seen.turn.of(KeyMaterial) is None:
        return seen.failure is not None and seen.was_true(ConditionType.PKI_READY)
    written = seen.turn.observed.in_plane(kinds.SECRETS).keys()
    return seen.failure is None or {SERVICE_ACCOUNT_SECRET, authority_secret(USERS)} <= written
