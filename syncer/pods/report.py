"""Reports the status of a host pod on its virtual pod, and never an older one than was reported before.

What the ledger says of the pod is an event too: why it waits, once for each new text, and that it is to be taken back.
"""

from bulkhead.api.conditions import condition_of
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import has_ended, is_pending_deletion
from bulkhead.kube.errors import Conflict
from bulkhead.kube.objects import key_of, uid_of
from bulkhead.kube.resources import PODS
from syncer.events import Recorder
from syncer.pods.actions import Answer
from syncer.tracing import Untraced
from syncer.translate.kinds import ledgernews, podstatus
from syncer.watch.informers import Caches
from syncer.write.host import HostWriter
from syncer.write.plane import VirtualWriter


class PodReport:
    """Writes the status of host pods on virtual pods, and what the ledger says of them as events."""

    def __init__(self, caches: Caches, host: HostWriter, virtual: VirtualWriter, recorder: Recorder, way: Untraced) -> None:
        self._caches = caches
        self._host = host
        self._virtual = virtual
        self._recorder = recorder
        self._way = way

    async def report(self, virtual: Obj, host: Obj) -> Obj | None:
        """Write the status; returns the virtual pod as it is then, None if it may differ from what was read."""
        current = await self._not_older(host, virtual)
        if current is None:
            return None
        host = current
        desired = podstatus.status_to_virtual(host, virtual, self._caches.view())
        self._tell(virtual, host, desired)
        try:
            written = await self._virtual.status(PODS, virtual, desired)
        except Conflict:
            # Something wrote in between, or our own binding did: once more on what is there now.
            fresh = await self._virtual.read(PODS, key_of(virtual))
            if fresh is not None and uid_of(fresh) == uid_of(virtual):
                # It may have been this syncer's successor, which knows more of the host than this one before it stood still.
                await self._once_more(fresh, host)
            return None
        if written is None:
            return virtual
        self._way.arrived(virtual, host, desired)
        # What a webhook of the tenant made of it is reconciled when its event comes.
        return written if podstatus.same(written.get("status"), desired) else None

    async def _once_more(self, virtual: Obj, host: Obj) -> None:
        current = await self._not_older(host, virtual)
        if current is not None:
            desired = podstatus.status_to_virtual(current, virtual, self._caches.view())
            if await self._virtual.status(PODS, virtual, desired) is not None:
                self._way.arrived(virtual, current, desired)

    async def _not_older(self, host: Obj, virtual: Obj) -> Obj | None:
        """The host pod, read from the host if this copy is from before what its virtual pod shows; None if it is not there."""
        if not podstatus.goes_back(host, virtual):
            return host
        # An older copy would make it look as if the pod had never run, and then it might run twice.
        return Answer(await self._host.read(PODS, key_of(host))).host_pod_of(uid_of(virtual))

    async def report_gone(self, virtual: Obj, last: Obj | None, *, awaited: bool) -> bool:
        """Report a host pod that is gone as it was last; returns whether that says how it ended, or why.

        `awaited`: the owner of a finalizer waits for the end, so that it is reported as failed where the result is not known.
        """
        why = None
        if last is not None:
            virtual = await self.report(virtual, last) or virtual
            why = ledgernews.taken_back(last, virtual, self._caches.view())
        if awaited and not has_ended(virtual):
            await self._virtual.status(PODS, virtual, podstatus.lost(virtual, why))
        return why is not None or (last is not None and has_ended(last))

    def _tell(self, virtual: Obj, host: Obj, desired: Obj) -> None:
        now, before = (condition_of(pod, "PodScheduled") for pod in ({"status": desired}, virtual))
        text, shown = ((str(condition.get("reason")), str(condition.get("message"))) for condition in (now, before))
        if text != shown and ledgernews.verdict(host) is not None:
            self._recorder.warn(virtual, *text)
        announced = ledgernews.announced(host, virtual, self._caches.view())
        if announced is not None:
            # Once it ends, the pod may be gone before the event has its turn.
            self._recorder.warn(virtual, *announced, last=is_pending_deletion(host))
