"""Copies the pull Secret to the namespaces that need it, and removes it from all others."""

import contextlib
import logging
from dataclasses import dataclass

from bulkhead.api import names
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.work.clock import Clock
from controller.host.pullsecrets import PullSecrets
from controller.plane import pullsecret
from controller.tenant.apply import Applier
from controller.tenant.newright import TRIES, with_new_right
from controller.tenant.turn import Facet, GroundLaid, PullTrouble, Turn

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pulls(Facet):
    """See the module. A failure blocks nothing: it is reported with an image that cannot be pulled."""

    name = "pulls"
    needs = (GroundLaid,)
    client: Client
    applier: Applier
    clock: Clock
    secrets: PullSecrets

    async def reconcile(self, turn: Turn) -> Turn:
        """Copy the Secret into both namespaces, and delete copies where it is not needed."""
        not_copied = ""
        try:
            await self._copy(turn)
        except KubeError as error:
            _log.warning("cannot copy the pull secret: %s", error, extra={"tenant": turn.tenant})
            not_copied = f"the platform's pull secret could not be copied: {error}"
        return turn.plus(PullTrouble(not_copied or self.secrets.trouble))

    async def _copy(self, turn: Turn) -> None:
        spec, observed = turn.spec, turn.observed
        bound = observed.get(kinds.ROLE_BINDINGS, pullsecret.BINDING, spec.work_namespace) is not None
        there = {spec.namespace: observed.get(kinds.SECRETS, names.PULL_SECRET, spec.namespace) is not None}
        for namespace, may_be in (there | {spec.work_namespace: bound}).items():
            if may_be and namespace not in pullsecret.wanted_in(spec):
                with contextlib.suppress(NotFound):
                    await self.client.delete(kinds.SECRETS, names.PULL_SECRET, namespace)
        if self.secrets.content:
            copies = pullsecret.copies(spec, self.secrets.content)
            await with_new_right(self.clock, lambda: self.applier.stage(copies, observed.objects), tries=1 if bound else TRIES)
