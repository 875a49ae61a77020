"""Reclaims pods step by step (`steps`), all pods of a workload together.

    decided, or noted before ──> annotation on all pods with a node ──> marked, evicted, deleted at the deadline

The annotation on a pod is the decision: every later leader carries it out. The deadline in it never changes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from bulkhead.api import ledger
from bulkhead.api.ledger import Reclaimed
from bulkhead.api.workloads import WorkloadKey
from bulkhead.ledger.model import Cause, Pod, Reclaim, Stage
from bulkhead.work.clock import Clock
from bulkhead.work.remembered import Remembered
from controller.dispatch import metrics, patches
from controller.dispatch.apply import Writes, run_bounded, take_until_deadline
from controller.dispatch.avoid import Avoided
from controller.dispatch.hostpod import Seen
from controller.dispatch.moves import Moves
from controller.dispatch.seen import Pods
from controller.dispatch.steps import ReclaimStep, last_grace, next_step

# How often an eviction is repeated that a disruption budget refuses.
_EVICT_AGAIN_AFTER_SECONDS: Final = 2.0
_MOST_PODS_REMEMBERED: Final = 20_000
# After this many seconds of a turn no new workload is begun.
_BEGIN_WITHIN_SECONDS: Final = 1.0


class Reclaims:
    """Carries out reclaims that were decided now, or noted on pods before."""

    def __init__(self, writes: Writes, pods: Pods, avoided: Avoided, moves: Moves, clock: Clock) -> None:
        self._writes = writes
        self._pods = pods
        self._avoided = avoided
        self._moves = moves
        self._clock = clock
        self._refused: Remembered[str, float] = Remembered(_MOST_PODS_REMEMBERED)

    async def carry_out(self, decided: Sequence[Reclaim], spare: Sequence[Pod] = ()) -> float | None:
        """Do the steps that are due; returns when the next one is due, by the wall clock."""
        await run_bounded(spare, self._spare)
        deadline = self._clock.monotonic() + _BEGIN_WITHIN_SECONDS
        moved = {reclaim.pod.uid: reclaim for reclaim in decided if reclaim.to}
        begun: list[tuple[Pod, Reclaimed]] = []
        broken: set[WorkloadKey] = set()

        async def note(item: tuple[Pod, Reclaimed]) -> None:
            begun.append(item)
            # Before the write: if no answer comes, the annotation may be there.
            if item[0].uid in moved:
                self._moves.note(moved[item[0].uid], self._now())
            if not await self._note(*item):
                broken.add(item[0].workload)

        workloads: dict[WorkloadKey, list[tuple[Pod, Reclaimed]]] = {}
        for item in self._all(decided):
            workloads.setdefault(item[0].workload, []).append(item)
        all_of_it = [item for members in workloads.values() for item in members]
        await run_bounded(take_until_deadline(all_of_it, deadline, self._clock.monotonic, lambda item: item[0].workload), note)
        # All pods of a gang get the annotation before the first is evicted: otherwise the others would look like a running
        # gang.
        whole = [item for item in begun if item[0].workload not in broken]
        due = [] if len(begun) == len(all_of_it) else [self._now()]

        async def go_on(item: tuple[Pod, Reclaimed]) -> None:
            at = await self._go_on(item[0].uid, item[1])
            if at is not None:
                due.append(at)

        await run_bounded(whole, go_on)
        return min(due, default=None)

    def _all(self, decided: Sequence[Reclaim]) -> Iterable[tuple[Pod, Reclaimed]]:
        """The reclaims that were decided now, in their order, and then those that were noted before."""
        now = {reclaim.pod.uid: reclaim for reclaim in decided}
        for reclaim in decided:
            seen = self._pods.get(reclaim.pod.uid)
            noted = None if seen is None else seen.reclaim
            yield reclaim.pod, noted or _reclaimed(reclaim, says_worker=seen is not None and seen.pod.slurm_worker)
        for seen in list(self._pods.seen()):
            if seen.reclaim is not None and seen.pod.uid not in now:
                yield seen.pod, seen.reclaim

    async def _spare(self, pod: Pod) -> None:
        """Remove the annotation from a worker that no workload waits for any longer; its Slurm then removes the drain."""
        seen = self._pods.get(pod.uid)
        if seen is not None and seen.reclaim is not None and not seen.disrupted:
            then = replace(seen.pod, reclaim_by=None, reclaim_cause="")
            await self._writes.patch("spare", seen.pod, patches.spared(seen.pod), then=then)

    async def _note(self, pod: Pod, reclaimed: Reclaimed) -> bool:
        seen = self._pods.get(pod.uid)
        if seen is None or next_step(seen, reclaimed, self._now()).step is not ReclaimStep.NOTE:
            return True
        body = patches.reclaim(seen.pod, reclaimed)
        then = replace(seen.pod, reclaim_by=reclaimed.by, reclaim_cause=reclaimed.cause)
        done = await self._writes.patch("note", seen.pod, body, then=then)
        if done:
            metrics.count_reclaim(reclaimed.cause)
        return done

    async def _go_on(self, uid: str, reclaimed: Reclaimed) -> float | None:
        """Do as many steps as possible now; returns when the next one is due."""
        marked = False
        while (seen := self._pods.get(uid)) is not None:
            # The condition is only information: if the host refuses it, the pod is still evicted.
            following = next_step(replace(seen, disrupted=seen.disrupted or marked), reclaimed, self._now())
            if following.step is ReclaimStep.EVICT:
                return await self._evict(seen, following.at)
            if following.step in (ReclaimStep.DELETE, ReclaimStep.DROP):
                await self._end(following.step, seen, reclaimed)
            if following.step is not ReclaimStep.MARK:
                return following.at
            body = patches.disruption(seen.pod, reclaimed, ledger.moment(self._now())[:19] + "Z")
            await self._writes.patch("mark", seen.pod, body, then=seen.pod, subresource="status")
            marked = True
        return None

    async def _end(self, step: ReclaimStep, seen: Seen, reclaimed: Reclaimed) -> None:
        pod = seen.pod
        if step is ReclaimStep.DELETE:
            await self._writes.delete("delete", pod, grace=last_grace(seen))
            return
        if reclaimed.cause == Cause.ROLLBACK and pod.stage is Stage.ADMITTED and pod.pinned:
            self._avoided.note(pod, self._now())
        if await self._writes.delete("drop", pod, version=seen.version) and seen.reclaim is None:
            metrics.count_reclaim(reclaimed.cause)

    async def _evict(self, seen: Seen, deadline: float | None) -> float | None:
        now, uid = self._clock.monotonic(), seen.pod.uid
        again = self._refused.get(uid, 0.0)
        if now >= again:
            if await self._writes.evict(seen.pod, patches.eviction(seen.pod)):
                return None
            again = self._refused[uid] = now + _EVICT_AGAIN_AFTER_SECONDS
        at = self._now() + again - now
        return at if deadline is None else min(at, deadline)

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _reclaimed(reclaim: Reclaim, *, says_worker: bool) -> Reclaimed:
    """The annotation. For a pod that looks like a worker it records whether it is one, for the next leader."""
    worker = reclaim.pod.slurm_worker if says_worker else None
    return Reclaimed(reclaim.deadline, str(reclaim.cause), reclaim.message, worker)
