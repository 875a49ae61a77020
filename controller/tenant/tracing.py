"""Times the reconciles of tenants that are being created, for their traces (`controller/decide/creation.py`).

begin ──> step, step, … ──> ended ──> spans ──> offered to the sender; nothing is timed while traces are off
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator

from bulkhead.api.objects import Obj
from bulkhead.tracing.spans import Span
from bulkhead.work.clock import Clock
from bulkhead.work.remembered import Remembered
from controller.decide import creation
from controller.decide.creation import Step
from controller.refusal import Refusal

# Tenants whose creation was reported by this process: one that becomes ready again is not created again.
_MAX_REMEMBERED_TENANTS = 4096


class Steps:
    """What one reconcile spent its time on."""

    def __init__(self, clock: Clock | None) -> None:
        """Without a clock nothing is timed."""
        self._clock = clock
        self.start = clock.now().timestamp() if clock is not None else 0.0
        self.steps: list[Step] = []

    @property
    def timed(self) -> bool:
        """Whether anything is timed."""
        return self._clock is not None

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time what is done inside; an exception passes through."""
        if self._clock is None:
            yield
            return
        start, failed = self._clock.now().timestamp(), True
        try:
            yield
            failed = False
        finally:
            self.steps.append(Step(name, start, self._clock.now().timestamp(), failed))


UNTIMED = Steps(None)


class CreationTraces:
    """The traces of all tenants that are being created."""

    def __init__(self, clock: Clock, offer: Callable[[Iterable[Span]], None] | None = None) -> None:
        """`offer` takes spans; None while traces are off."""
        self._clock = clock
        self._offer = offer
        self._reported: Remembered[str, None] = Remembered(_MAX_REMEMBERED_TENANTS)

    def begin(self, tenant: Obj) -> Steps:
        """Begin to time a reconcile, if it belongs to a creation."""
        now = self._clock.now().timestamp()
        traced = self._offer is not None and _uid(tenant) not in self._reported and creation.is_traced(tenant, now)
        return Steps(self._clock) if traced else UNTIMED

    def ended(
        self, tenant: Obj, steps: Steps, status: Obj | None, failure: Refusal | None, pods: Callable[[], Iterable[Obj]]
    ) -> None:
        """Send what a reconcile did; with the status that makes the tenant ready, also the whole creation."""
        if self._offer is None or not steps.timed:
            return
        now = self._clock.now().timestamp()
        self._offer(creation.reconciled(tenant, steps.steps, steps.start, now, str(failure.reason) if failure else ""))
        whole = creation.became_ready(tenant, status, pods(), now) if status is not None else []
        if whole:
            self._offer(whole)
            self._reported[_uid(tenant)] = None


def _uid(tenant: Obj) -> str:
    return str(tenant["metadata"]["uid"])
