"""Admits pods: one patch for each pod removes the gate, and the pods of a gang follow one another directly.

    admissions, in the order of the decision ──> a few at once ──> the turn's time is over ──> started workloads are finished

The next turn decides again about the remaining pods, and about pods whose patch failed. If one pod of a gang is admitted, the
others of the gang come first in that turn.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from bulkhead.ledger.gangs import as_admitted
from bulkhead.ledger.model import Admission, Node, Pod, Stage
from bulkhead.work.clock import Clock
from controller.dispatch import metrics, patches
from controller.dispatch.apply import Writes, run_bounded, take_until_deadline
from controller.dispatch.moves import Moves
from controller.dispatch.seen import Pods

# After this many seconds of a turn no new workload is begun.
_BEGIN_WITHIN_SECONDS: Final = 1.0
# Called for each admitted pod, with the time of its admission.
Traced: TypeAlias = Callable[[Pod, float], None]


def trace_none(_: Pod, __: float) -> None:
    """Traces are off."""


class Admissions:
    """Carries out admissions."""

    def __init__(self, writes: Writes, pods: Pods, moves: Moves, clock: Clock, traced: Traced = trace_none) -> None:
        self._writes = writes
        self._pods = pods
        self._moves = moves
        self._clock = clock
        self._traced = traced

    async def carry_out(self, admissions: Sequence[Admission], nodes: Mapping[str, Node]) -> None:
        """Write as many as there is time for."""
        deadline = self._clock.monotonic() + _BEGIN_WITHIN_SECONDS
        begun = take_until_deadline(admissions, deadline, self._clock.monotonic, lambda admission: admission.pod.workload)
        await run_bounded(begun, lambda admission: self._admit(admission, nodes))

    async def _admit(self, admission: Admission, nodes: Mapping[str, Node]) -> None:
        seen = self._pods.get(admission.pod.uid)
        if seen is None:
            return
        now = self._clock.now().timestamp()
        node = nodes.get(admission.node)
        hostname = patches.pinned(admission, node)
        body = patches.admission(admission, now, hostname)
        then = replace(
            as_admitted(admission),
            stage=Stage.ADMITTED,
            admitted=now,
            flavor=admission.flavor,
            pinned=admission.node if hostname else "",
        )
        if await self._writes.patch("admit", admission.pod, body, then=then):
            self._moves.forget(admission.instead)
            metrics.admission_seconds.observe(max(0.0, self._clock.monotonic() - seen.since))
            metrics.count_admission(admission.pod.tenant, now - admission.pod.created)
            self._traced(admission.pod, now)
