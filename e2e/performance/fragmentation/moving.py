"""The core alone in a cohort that allows moving pods: what the waiting workloads gain, and what work the moved ones lose.

    arrivals, ends ──> decide ──> admitted ──> runs for its time, and ends
                              └──> moved ──> what it did is lost; its successor comes at once, with all its time before it

All work restarts from the beginning, as without checkpoints. Moved pods end at once: the time that this takes does not change
where pods go. No servers are involved.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import Admission, Moved, Pod, Reclaim, Rules, Snapshot, Stage
from bulkhead.ledger.read import node_of
from e2e.performance.fragmentation import trace
from e2e.performance.fragmentation.deciding import seen, started, tenant
from e2e.performance.fragmentation.timeline import History, sample
from e2e.performance.fragmentation.trace import Job

_COHORT: Final = "research"
_KEPT: Final = 60.0
_END, _COME, _LOOK = range(3)


class Moving:
    """One run."""

    def __init__(self, jobs: Sequence[Job], nodes: Iterable[Obj], most: int = 4) -> None:
        self._jobs = jobs
        self._nodes = [node_of(node) for node in nodes]
        gpus = sum(node.allocatable[labels.GPU] for node in self._nodes)
        self._tenants = {trace.TENANT: replace(tenant(gpus), cohort=_COHORT)}
        self._rules = {_COHORT: Rules(max_moves=most)}
        self.history = History(jobs, gpus)
        self._pods: dict[str, Pod] = {}
        self._moved: dict[str, Moved] = {}
        # The number of placed pods for each workload that has come and not gone; the number of its moves, and the work that
        # they cost.
        self._there: dict[int, int] = {}
        self._moves: Counter[int] = Counter()
        self._lost = 0.0
        self._events = [(job.arrives, _COME, job.number, 0) for job in jobs]

    def run(self) -> History:
        """Until nothing more happens."""
        events = self._events
        heapq.heapify(events)
        while events:
            now = events[0][0]
            while events and events[0][0] == now:
                _, what, number, moves = heapq.heappop(events)
                if what == _COME:
                    self._come(self._jobs[number], now)
                elif what == _END and moves == self._moves[number]:
                    self._end(self._jobs[number])
            self._settle(now)
            self.history.samples.append(sample(now, self._there, self.history))
        return self.history

    def cost(self) -> dict[str, Any]:
        """The cost of the moves."""
        return {
            "moves": self._moves.total(),
            "most_of_one": max(self._moves.values(), default=0),
            "gpu_hours_lost": round(self._lost / 3600, 1),
        }

    def _come(self, job: Job, now: float) -> None:
        self._there[job.number] = 0
        for name in job.names:
            obj = trace.pod(job, name, gated=True)
            obj["metadata"]["uid"] = name
            self._pods[name] = replace(seen(obj, now), maker=job.name)

    def _end(self, job: Job) -> None:
        del self._there[job.number]
        self._pods = {uid: pod for uid, pod in self._pods.items() if pod.maker != job.name}

    def _settle(self, now: float) -> None:
        while True:
            self._moved = {uid: each for uid, each in self._moved.items() if each.until is not None and each.until > now}
            pods, moved = tuple(self._pods.values()), tuple(self._moved.values())
            decisions = decide(Snapshot(self._tenants, tuple(self._nodes), pods, self._rules, moved=moved), now)
            for reclaim in decisions.reclaim:
                self._move(reclaim, now)
            for admission in decisions.admit:
                self._admit(admission, now)
            if not decisions.reclaim and not decisions.admit:
                break
        if decisions.next_at is not None:
            heapq.heappush(self._events, (decisions.next_at, _LOOK, 0, 0))

    def _move(self, reclaim: Reclaim, now: float) -> None:
        gone = self._pods.pop(reclaim.pod.uid)
        job = self._job(gone)
        self._moves[job.number] += 1
        self._there[job.number] -= 1
        self._lost += (now - (gone.admitted or now)) * job.gpus
        self._moved[gone.uid] = Moved(gone, reclaim.to, now, now + _KEPT)
        name = f"{job.name}-again-{self._moves[job.number]}"
        self._pods[name] = replace(
            gone, uid=name, name=name, virtual_name=name, stage=Stage.WAITING, created=now, node="", admitted=None, ends_by=None
        )

    def _admit(self, admission: Admission, now: float) -> None:
        pod = admission.pod
        job = self._job(pod)
        self._moved.pop(admission.instead, None)
        self._pods[pod.uid] = started(replace(pod, stage=Stage.BOUND, node=admission.node, admitted=now))
        self._there[job.number] += 1
        if self._there[job.number] == job.pods:
            self.history.started.setdefault(job.number, now)
            heapq.heappush(self._events, (now + job.lasts, _END, job.number, self._moves[job.number]))

    def _job(self, pod: Pod) -> Job:
        return self._jobs[int(pod.maker.removeprefix("job-"))]
