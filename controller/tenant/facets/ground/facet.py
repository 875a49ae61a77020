"""The namespaces of the keys and the right to read them, then the Secrets.

The Secrets are read from the API server, because keys must never be created twice.

If the plane's namespace was lost, the record of its data went with it (`bulkhead.api.planeidentity`). What the Tenant's status
says of that data is recorded again before the plane starts, so that an empty plane is not taken for it.
"""

import logging
from dataclasses import dataclass, replace

from bulkhead.api import planeidentity
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists
from bulkhead.kube.objects import key_of
from bulkhead.work.clock import Clock
from controller.decide.accepted import record
from controller.host.owned import SELECTOR
from controller.plane.render import ground
from controller.plane.spec import PLANE
from controller.tenant.apply import Applier, Stages
from controller.tenant.facets.ground.report import report
from controller.tenant.newright import with_new_right
from controller.tenant.status import Report
from controller.tenant.turn import Facet, GroundLaid, Seen, Turn

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ground(Facet):
    """Applies the namespaces and rights, records the accepted spec, and reads the Secrets."""

    name = "ground"
    client: Client
    applier: Applier
    clock: Clock

    async def reconcile(self, turn: Turn) -> Turn:
        """Record the accepted spec before anything is built from it, as soon as the record's namespace exists."""
        observed, admitted = turn.observed, turn.admitted
        namespaces, rights = ground(turn.spec)
        note = () if admitted.held or admitted.edit else (record(observed.tenant),)
        there = observed.get(kinds.NAMESPACES, turn.spec.namespace) is not None
        stages = Stages(self.applier, observed)
        for stage in (note, namespaces, rights) if there else (namespaces, note, rights):
            await stages.apply(stage)
        await self._remember(turn)
        listed = await with_new_right(
            self.clock, lambda: self.client.list(kinds.SECRETS, turn.spec.namespace, label_selector=SELECTOR)
        )
        secrets = {(kinds.SECRETS, key_of(obj)): obj for obj in listed.items}
        observed = replace(observed, objects={**observed.objects, **secrets})
        return replace(turn.plus(GroundLaid()), observed=observed, refused=(*turn.refused, *stages.refused))

    async def _remember(self, turn: Turn) -> None:
        """Record the UID of a plane's data where the plane is built once more and nothing in its namespace has it."""
        uid = planeidentity.reported_uid(turn.observed.tenant)
        if not uid or turn.observed.get(kinds.STATEFUL_SETS, PLANE, turn.spec.namespace) is not None:
            return
        lost = planeidentity.config_map(turn.spec.namespace, {planeidentity.UID_KEY: uid})
        try:
            await self.client.create(kinds.CONFIG_MAPS, lost)
        except AlreadyExists:
            return
        _log.warning("the record of the plane's data was lost: it has to be %s", uid, extra={"tenant": turn.tenant})

    def report(self, seen: Seen) -> Report:
        """The namespaces at the end of the turn."""
        namespaces = tuple(seen.named(kinds.NAMESPACES).values())
        return report(seen.turn.spec, namespaces, seen.turn.observed.tenant_class)
