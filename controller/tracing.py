"""Where the controller's traces go: one queue for the tenants' creations and for the ledger's part of pods' ways.

Off without a collector, and then nothing that sends is loaded. Either kind of span costs its caller a look at the queue.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from bulkhead.ledger.model import Pod
from bulkhead.tracing import podway
from bulkhead.tracing.spans import Span, is_sampled
from bulkhead.work.clock import Clock
from controller import metrics
from controller.settings import Settings

if TYPE_CHECKING:
    from bulkhead.tracing.sending import Sender


class Traces:
    """What the controller sends; nothing while traces are off."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._one_in = settings.trace_one_pod_in
        self._sender = _sender(settings, clock)

    @property
    def offer(self) -> Callable[[Iterable[Span]], None] | None:
        """Takes spans; None while traces are off."""
        return self._sender.offer if self._sender is not None else None

    async def run(self) -> None:
        """Send until cancelled; returns at once while traces are off."""
        if self._sender is not None:
            await self._sender.run()

    def admitted(self, pod: Pod, at: float) -> None:
        """The ledger has admitted a pod."""
        if self._sender is None or not is_sampled(podway.trace_of_pod(pod.tenant, pod.virtual_uid), self._one_in):
            return
        names = podway.PodNames(pod.tenant, pod.virtual_namespace, pod.virtual_name, pod.virtual_uid, node=pod.node)
        self._sender.offer([podway.admitted(names, pod.created, at)])


def _sender(settings: Settings, clock: Clock) -> "Sender | None":
    if settings.tracing is None:
        return None
    from bulkhead.tracing.sending import Sender  # noqa: PLC0415 -- only while traces are on

    collector = settings.tracing.collector(settings.cluster_domain)
    return Sender(collector, {"service.name": "bulkhead-controller"}, clock, metrics.count_spans)
