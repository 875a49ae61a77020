"""What two controllers, one after the other, send of a tenant's creation. There is no kubelet, so the plane never answers."""

from collections.abc import Iterable

import pytest

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.tracing.spans import Span, trace_of
from tests.kit.controllerhost import ControllerHost, ask, take_down

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]


async def test_a_controller_goes_on_with_the_trace_of_the_one_before(client: Client) -> None:
    made = await ask(client, "traced")
    sent: list[Span] = []

    def offer(spans: Iterable[Span]) -> None:
        sent.extend(spans)

    async with ControllerHost(client, traces=offer) as world:
        await world.settle("traced")
    first = len(sent)
    names = {span.name for span in sent}
    assert {"reconcile", "step.admission", "step.slice", "step.ground", "step.keys", "step.objects", "step.report"} <= names
    async with ControllerHost(client, traces=offer) as world:
        await world.settle("traced")
        assert len(sent) > first
        assert {span.trace for span in sent} == {trace_of("tenant", str(made["metadata"]["uid"]))}
        assert len({span.span for span in sent}) == len(sent), "no span twice"
        reconciles = {span.span for span in sent if span.name == "reconcile"}
        assert {span.parent for span in sent if span.name.startswith("step.")} <= reconciles
        # Once it has been reported as Ready it is no longer being created.
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Ready",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        there = await client.get(kinds.TENANTS, "traced")
        conditions = [ready, *(other for other in there["status"]["conditions"] if other["type"] != "Ready")]
        await client.patch(kinds.TENANTS, "traced", {"status": {"conditions": conditions}}, subresource="status")
        before = len(sent)
        await world.reconciler.reconcile("traced")
        assert len(sent) == before
        await take_down(world, "traced")


async def test_nothing_is_timed_while_traces_are_off(client: Client) -> None:
    await ask(client, "untraced")
    async with ControllerHost(client) as world:
        await world.settle("untraced")
        tenant = await client.get(kinds.TENANTS, "untraced")
        assert not world.reconciler._traces.begin(tenant).timed
        await take_down(world, "untraced")
