"""Asks for the snapshot of the present slot, deletes those that the retention does not keep, and reports the last whole one.

Each write may be repeated: names follow from the slot, deletions have the object's UID. What is stored goes by the object's
finalizer (`controller.snapshots.removal`). While a plane does not have the data that it had, nothing is asked for and nothing
is deleted: snapshots of an empty plane have the same identity, and would take the places of those that it can be restored from.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from bulkhead.api import planeidentity
from bulkhead.api.objects import Obj
from bulkhead.api.planeidentity import Recorded
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Conflict, NotFound
from bulkhead.work.clock import Clock
from controller import metrics
from controller.host.snapshots import Snapshots
from controller.inside.access import PlaneHealth
from controller.snapshots import schedule, thinning
from controller.snapshots.removal import SnapshotRemovals
from controller.snapshots.schedule import Plane
from controller.tenant.facets.schedule.report import Standing, report
from controller.tenant.status import Report
from controller.tenant.turn import Facet, Identified, Seen, Turn

# What is left over goes with the next reconciles: a changed retention deletes nothing at a stroke.
_DELETED_AT_ONCE: Final = 10


@dataclass(frozen=True, slots=True)
class SnapshotSchedule(Facet):
    """See the module."""

    name = "schedule"
    needs = (Identified,)
    requests: Snapshots
    removals: SnapshotRemovals
    client: Client
    clock: Clock

    async def reconcile(self, turn: Turn) -> Turn:
        """Ask, delete, and find the last whole one."""
        if not self.requests.known():
            return turn
        plane, now, backup = Plane(turn.tenant, turn.need(Identified).identity), self.clock.now(), turn.spec.backup
        listed = self.requests.of(turn.tenant)
        for request in listed:
            self.removals.order(request)
        if not backup.every_seconds:
            return turn.plus(Standing(0, now=now))
        moment = schedule.slot(plane, backup.every_seconds, now)
        has_place, held = self.removals.has_place(backup.target), _held(turn)
        if has_place and not held:
            await self._ask(schedule.request(plane, moment), listed)
            await self._thin(thinning.surplus(thinning.of(listed, plane), backup)[:_DELETED_AT_ONCE], listed)
        covered = [found for request in listed if (found := schedule.covers(request, plane.identity)) is not None]
        return turn.plus(
            Standing(
                backup.every_seconds,
                now=now,
                last=max(covered, default=None),
                upcoming=moment + timedelta(seconds=backup.every_seconds),
                has_place=has_place,
                target=backup.target,
                trouble=schedule.trouble(listed, plane),
                held=held,
            )
        )

    def report(self, seen: Seen) -> Report:
        """The last whole snapshot, against the schedule."""
        standing = seen.turn.of(Standing)
        made = report(seen.turn.observed.tenant, standing)
        if standing is not None:
            metrics.report_snapshots(seen.turn.tenant, last=made.last, due=made.due)
        return made.report

    async def forget(self, tenant: str) -> None:
        """What was taken of a deleted tenant stays until its objects are deleted."""
        for request in self.requests.of(tenant):
            self.removals.order(request)

    async def _ask(self, wanted: Obj, listed: list[Obj]) -> None:
        name = wanted["metadata"]["name"]
        if any(request["metadata"]["name"] == name for request in listed):
            return
        try:
            await self.client.create(kinds.TENANT_SNAPSHOTS, wanted)
        except AlreadyExists:
            # The watch has not shown it yet.
            return

    async def _thin(self, surplus: tuple[str, ...], listed: list[Obj]) -> None:
        uids = {str(request["metadata"]["name"]): str(request["metadata"]["uid"]) for request in listed}
        for name in surplus:
            try:
                await self.client.delete(kinds.TENANT_SNAPSHOTS, name, uid=uids[name])
            except (NotFound, Conflict):
                continue


def _held(turn: Turn) -> str:
    """Why snapshots are neither taken nor deleted for now; empty if the plane has its data, as far as that is known."""
    record, health = turn.of(Recorded) or Recorded(), turn.of(PlaneHealth) or PlaneHealth()
    lost = planeidentity.lost(record, planeidentity.reported_uid(turn.observed.tenant), health.cluster_uid)
    return f"none is taken and none deleted while the plane does not have its data: {lost}" if lost else ""
