"""Reclaims pods step by step (`steps`), all pods of a workload together.

    decided, or noted before ──> some workloads ──> annotation on all pods with a node ──> evicted, deleted at the deadline
                                      ^                                                         │
                                      └─────────────── the turn's time is not over <────────────┘

The annotation on a pod is the decision: every later leader carries it out. The deadline in it never changes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from bulkhead.api import ledger
from bulkhead.api.ledger import Reclaimed
from bulkhead.api.workloads import WorkloadKey
from bulkhead.ledger.model import Cause, Pod, Reclaim, Stage
from bulkhead.work.clock import Clock
from bulkhead.work.remembered import Remembered
from controller.dispatch import metrics, patches
from controller.dispatch.apply import Eviction, Writes, run_bounded
from controller.dispatch.avoid import Avoided
from controller.dispatch.hostpod import Seen
from controller.dispatch.moves import Moves
from controller.dispatch.seen import Pods
from controller.dispatch.steps import ReclaimStep, last_grace, next_step

# How often an eviction is repeated that a disruption budget refuses.
_EVICT_AGAIN_AFTER_SECONDS: Final = 2.0
_MOST_PODS_REMEMBERED: Final = 20_000
# After this many seconds of a turn no more workloads are begun.
_BEGIN_WITHIN_SECONDS: Final = 2.0
# Pods that are noted before the first of them is evicted, at least: a few for each request at a time. A gang is never divided.
_PODS_AT_ONCE: Final = 64

_Members: TypeAlias = list[tuple[Pod, Reclaimed]]


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
        due: list[float] = []
        for batch in _batches(self._workloads(decided)):
            if self._clock.monotonic() > deadline:
                due.append(self._now())
                break
            due += await self._carry_out(batch, moved)
        return min(due, default=None)

    async def _carry_out(self, batch: _Members, moved: Mapping[str, Reclaim]) -> list[float]:
        """Do the steps of a few workloads; returns when the next ones are due."""
        broken: set[WorkloadKey] = set()
        due: list[float] = []

        async def note(item: tuple[Pod, Reclaimed]) -> None:
            # Before the write: if no answer comes, the annotation may be there.
            if item[0].uid in moved:
                self._moves.note(moved[item[0].uid], self._now())
            if not await self._note(*item):
                broken.add(item[0].workload)

        async def go_on(item: tuple[Pod, Reclaimed]) -> None:
            at = await self._go_on(item[0].uid, item[1])
            if at is not None:
                due.append(at)

        # All pods of a gang get the annotation before the first is evicted: otherwise the others would look like a running
        # gang.
        await run_bounded(batch, note)
        await run_bounded([item for item in batch if item[0].workload not in broken], go_on)
        return due

    def _workloads(self, decided: Sequence[Reclaim]) -> Iterable[_Members]:
        """What to do, by workload: those that were decided now, in their order, and then those that were noted before.

        Of the latter, pods whose eviction was refused come last, the most recently refused one at the end: pods that a budget
        holds never keep others from their turn.
        """
        found: dict[WorkloadKey, _Members] = {}
        for pod, reclaimed in self._decided(decided):
            found.setdefault(pod.workload, []).append((pod, reclaimed))
        now = {reclaim.pod.uid for reclaim in decided}
        before = [
            (seen.pod, seen.reclaim) for seen in self._pods.seen() if seen.reclaim is not None and seen.pod.uid not in now
        ]
        for item in sorted(before, key=lambda item: self._refused.get(item[0].uid, 0.0)):
            found.setdefault(item[0].workload, []).append(item)
        return found.values()

    def _decided(self, decided: Sequence[Reclaim]) -> Iterator[tuple[Pod, Reclaimed]]:
        for reclaim in decided:
            seen = self._pods.get(reclaim.pod.uid)
            noted = None if seen is None else seen.reclaim
            yield reclaim.pod, noted or _reclaimed(reclaim, says_worker=seen is not None and seen.pod.slurm_worker)

    async def _spare(self, pod: Pod) -> None:
        """Remove the annotation from a pod for which no workload waits any longer; Slurm then undoes the drain of a worker."""
        seen = self._pods.get(pod.uid)
        if seen is None or seen.reclaim is None:
            return
        if seen.disrupted:
            # Slurm has ended the jobs of a worker that has the condition.
            if pod.slurm_worker:
                return
            body = patches.undisrupted(seen.pod, self._moment())
            await self._writes.patch("unmark", seen.pod, body, then=seen.pod, subresource="status")
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
            # The condition is only information: if the host refuses it, the pod is still ended.
            following = next_step(replace(seen, disrupted=seen.disrupted or marked), reclaimed, self._now())
            if following.step is ReclaimStep.EVICT:
                return await self._evict(seen, reclaimed, following.at)
            if following.step in (ReclaimStep.DELETE, ReclaimStep.DROP):
                await self._end(following.step, seen, reclaimed)
            if following.step is not ReclaimStep.MARK:
                return following.at
            await self._mark(seen, reclaimed)
            marked = True
        return None

    async def _mark(self, seen: Seen, reclaimed: Reclaimed) -> None:
        body = patches.disruption(seen.pod, reclaimed, self._moment())
        await self._writes.patch("mark", seen.pod, body, then=seen.pod, subresource="status")

    async def _end(self, step: ReclaimStep, seen: Seen, reclaimed: Reclaimed) -> None:
        pod = seen.pod
        if step is ReclaimStep.DELETE:
            await self._writes.delete("delete", pod, grace=last_grace(seen))
            return
        if reclaimed.cause == Cause.ROLLBACK and pod.stage is Stage.ADMITTED and pod.pinned:
            self._avoided.note(pod, self._now())
        if await self._writes.delete("drop", pod, version=seen.version) and seen.reclaim is None:
            metrics.count_reclaim(reclaimed.cause)

    async def _evict(self, seen: Seen, reclaimed: Reclaimed, deadline: float | None) -> float | None:
        now, uid = self._clock.monotonic(), seen.pod.uid
        again = self._refused.get(uid, 0.0)
        if now >= again:
            answer = await self._writes.evict(seen.pod, patches.eviction(seen.pod))
            if answer is Eviction.ACCEPTED:
                return None
            if answer is Eviction.REFUSED and not seen.disrupted:
                await self._mark(seen, reclaimed)
            again = self._refused[uid] = now + _EVICT_AGAIN_AFTER_SECONDS
        at = self._now() + again - now
        return at if deadline is None else min(at, deadline)

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _moment(self) -> str:
        """The time in whole seconds, as Kubernetes writes it."""
        return ledger.moment(self._now())[:19] + "Z"


def _batches(workloads: Iterable[_Members]) -> Iterator[_Members]:
    """Whole workloads together, until there are `_PODS_AT_ONCE` pods."""
    batch: _Members = []
    for members in workloads:
        batch += members
        if len(batch) >= _PODS_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _reclaimed(reclaim: Reclaim, *, says_worker: bool) -> Reclaimed:
    """The annotation. For a pod that looks like a worker it records whether it is one, for the next leader."""
    worker = reclaim.pod.slurm_worker if says_worker else None
    return Reclaimed(reclaim.deadline, str(reclaim.cause), reclaim.message, worker)
