"""Looks for the nodes of members that do not serve. It asks nothing while all of them do, and changes nothing."""

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass

from bulkhead.api.podphase import serves
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from controller.host.snapshots import Snapshots
from controller.plane import stranded
from controller.plane.memberrecord import pods_of
from controller.plane.stranded import Stranded, Strandings
from controller.snapshots import schedule
from controller.tenant.turn import Facet, Identified, Turn

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stranding(Facet):
    """Others report what it finds: the plane's facet for one member, that of the members for three."""

    name = "stranding"
    needs = (Identified,)
    in_any_case = True
    client: Client
    requests: Snapshots

    async def reconcile(self, turn: Turn) -> Turn:
        """Find the members whose node is gone."""
        try:
            found = tuple([one async for one in self._look(turn)])
        except (KubeError, TimeoutError) as error:
            _log.warning("cannot look for the nodes of members: %s", error, extra={"tenant": turn.tenant})
            return turn
        if not found:
            return turn
        identity = turn.need(Identified).identity
        whole = {
            moment: str(request["metadata"]["name"])
            for request in self.requests.of(turn.tenant)
            if (moment := schedule.covers(request, identity)) is not None
        }
        taken = max(whole, default=None)
        return turn.plus(Strandings(found, whole[taken] if taken else "", taken))

    async def _look(self, turn: Turn) -> AsyncIterator[Stranded]:
        namespace = turn.spec.namespace
        for name in pods_of(turn.spec):
            pod = turn.observed.get(kinds.PODS, name, namespace)
            if pod is None or serves(pod):
                continue
            claim = turn.observed.get(kinds.PERSISTENT_VOLUME_CLAIMS, f"data-{name}", namespace)
            node, has_volume = stranded.node_of(pod, claim)
            if not node:
                continue
            nodes = (await self.client.list(kinds.NODES, field_selector=f"metadata.name={node}")).items
            if stranded.is_away(nodes):
                yield Stranded(name, node, exists=bool(nodes), has_volume=has_volume, answers=stranded.answers(nodes))
