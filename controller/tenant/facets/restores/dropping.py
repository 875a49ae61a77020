"""Deletes the keys of a snapshot once no restore needs them, however the restore has ended."""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import NotServed
from controller.host.restores import Restores
from controller.tenant.facets.restores.host import RestoreHost, left_over
from controller.tenant.turn import Facet, GroundLaid, Turn


@dataclass(frozen=True, slots=True)
class RestoreKeysDropped(Facet):
    """Drops the keys of TenantRestores that are finished or gone.

    A facet of its own, so that a controller that died, or a host that refused, right after the end of a restore does not leave
    them for good; and in any case, so that a plane that is not built does not keep them.
    """

    name = "restore keys"
    needs = (GroundLaid,)
    in_any_case = True
    requests: Restores
    host: RestoreHost

    async def reconcile(self, turn: Turn) -> Turn:
        """Ask the host only where the Secrets that were read and the informer say that keys are left over.

        The keys of a TenantRestore come after it. So a list that is read after the Secrets has it, also where the informer
        does not.
        """
        secrets = turn.observed.in_plane(kinds.SECRETS)
        if not left_over(secrets, _uids(self.requests.pending(turn.tenant))):
            return turn
        # Without the kind nothing tells which keys are needed.
        with contextlib.suppress(NotServed):
            unfinished = await self.requests.unfinished(turn.tenant)
            await self.host.drop(turn.spec, left_over(secrets, _uids(unfinished)))
        return turn


def _uids(requests: Iterable[Obj]) -> frozenset[str]:
    return frozenset(str(request["metadata"]["uid"]) for request in requests)
