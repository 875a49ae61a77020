"""Hands the tenant's TenantSnapshots to their tasks (`controller.snapshots.loop`), which report on them by themselves."""

from dataclasses import dataclass

from bulkhead.api.names import SLURM_KEYS
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import KubeError
from controller.host.snapshots import Snapshots
from controller.pki.material import files_of
from controller.plane.secrets import KeyMaterial, authority_secrets
from controller.snapshots.loop import SnapshotTasks
from controller.snapshots.spec import Order
from controller.tenant.interior import Interior
from controller.tenant.turn import Facet, Identified, Turn


@dataclass(frozen=True, slots=True)
class TenantSnapshots(Facet):
    """Orders what is asked for and not finished."""

    name = "snapshots"
    needs = (KeyMaterial, Identified)
    requests: Snapshots
    tasks: SnapshotTasks
    interior: Interior

    async def reconcile(self, turn: Turn) -> Turn:
        """Order each with what is there now."""
        for request in self.requests.pending(turn.tenant):
            order = Order(
                request=request,
                tenant=turn.observed.tenant,
                spec=turn.spec,
                keys=turn.need(KeyMaterial),
                record=turn.need(Identified).record,
                secrets={str(secret["metadata"]["name"]): files_of(secret) for secret in _originals(turn)},
                addresses=self.interior.addresses(turn.spec),
            )
            self.tasks.order(order)
        return turn

    async def leave(self, tenant: str, *, ends: bool) -> None:
        """End them with the plane."""
        if ends:
            await self.tasks.forget(tenant)

    async def forget(self, tenant: str) -> None:
        """Report for each that its tenant is not there. Raises the last KubeError if the host did not take every report."""
        trouble: KubeError | None = None
        for request in self.requests.pending(tenant):
            try:
                await self.tasks.fail(request, f"there is no Tenant {tenant}")
            except KubeError as error:
                trouble = error
        if trouble is not None:
            raise trouble


def _originals(turn: Turn) -> list[Obj]:
    """The keys of the plane, and those of its Slurm cluster if it has one."""
    slurm = turn.observed.in_plane(kinds.SECRETS).get(SLURM_KEYS)
    return [*authority_secrets(turn.spec, turn.need(KeyMaterial)), *([slurm] if slurm is not None else [])]
