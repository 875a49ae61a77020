"""The ledger at rest: it looks for what waits for it although no Tenant needs it, and leaves no note behind."""

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from bulkhead.api import labels, names
from bulkhead.api import ledger as notes
from bulkhead.api.objects import Obj
from bulkhead.kube.codec import Page
from bulkhead.kube.errors import Throttled
from bulkhead.kube.objects import ObjList
from bulkhead.ledger.model import PodVerdict, Tenant, Why
from controller.dispatch import loop
from controller.dispatch.answers import Standings, Verdicts
from controller.dispatch.apply import Writes
from controller.dispatch.loop import Ledger
from controller.dispatch.observe import Need
from controller.dispatch.quotas import Quota
from controller.dispatch.seen import Pods
from tests.controller.dispatch.pods import SPACE, FakeHost, host_pod, show
from tests.kit.background import background
from tests.kit.fakeclock import FakeClock


class Needed:
    """No Tenant needs the ledger, and what is left for it is as a test says."""

    informers = ()
    cohorts = SimpleNamespace(by_name=dict)

    def __init__(self, *left: bool) -> None:
        self.left = list(left)

    def is_declared(self) -> bool:
        return False

    async def any_left(self) -> bool:
        return self.left.pop(0)


async def test_a_ledger_at_rest_looks_again_for_pods_with_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    need, watched = Needed(False, False, True), asyncio.Event()

    async def watch(_: Any) -> None:
        watched.set()
        await asyncio.Event().wait()

    ledger = Ledger(FakeHost(), lambda: True)
    monkeypatch.setattr(loop, "Need", lambda *_: need)
    monkeypatch.setattr(loop, "_LOOK_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(ledger, "_watch", watch)
    async with background(ledger.run()), asyncio.timeout(30.0):
        await watched.wait()
    assert not need.left


def quota(tenant: str = "team", **annotations: str) -> Obj:
    """The quota in the namespace of `team`, which is of this tenant by its label."""
    meta = {"name": names.POD_QUOTA, "namespace": SPACE, "labels": {labels.TENANT: tenant}}
    return {"metadata": meta | {"annotations": annotations}}


class Host(FakeHost):
    """A host with these quotas and pods."""

    def __init__(self, quotas: list[Obj], pods: list[Obj]) -> None:
        super().__init__()
        self.quotas, self.held = quotas, pods

    async def list_metadata(self, r: Any, namespace: str | None = None, **more: Any) -> ObjList:
        return ObjList(self.quotas, "1")

    async def pages(self, r: Any, namespace: str | None = None, **more: Any) -> AsyncGenerator[Page, None]:
        yield Page([msgspec.Raw(msgspec.json.encode(pod)) for pod in self.held], "1", "")


@pytest.mark.parametrize(
    ("quotas", "pods", "left"),
    [
        ([quota(**{notes.OVER_SINCE: notes.write_over_since({("", "nvidia.com/gpu"): 0.0})})], [], True),
        ([quota(**{notes.STANDING: "{}"})], [], True),
        ([quota()], [host_pod(gated=True)], True),
        # What no turn can remove does not wake it again and again.
        ([quota(**{notes.OVER_SINCE: "x"}), quota("other", **{notes.STANDING: "{}"})], [host_pod()], False),
    ],
    ids=["a note of an excess", "a standing", "a pod with the gate", "nothing"],
)
async def test_what_is_left_for_a_ledger_that_no_tenant_needs(quotas: list[Obj], pods: list[Obj], left: bool) -> None:
    assert await Need(Host(quotas, pods), lambda: None).any_left() is left


async def test_a_ledger_that_comes_to_rest_removes_what_it_noted_on_quotas() -> None:
    clock, host = FakeClock(), FakeHost()
    writes = Writes(host, Pods(clock.monotonic, lambda: None), clock, lambda: True)
    over = Quota("bh-a-work", Tenant("a", over_since={("", "nvidia.com/gpu"): 0.0}), "")
    judged = Quota("bh-b-work", Tenant("b"), '{"nvidia.com/gpu":{}}', "{}")
    await Standings(host, writes, clock).stand_down([over, judged, Quota("bh-c-work", Tenant("c"), "")])
    assert [body["metadata"]["annotations"] for _, _, body in host.asked] == [
        {notes.OVER_SINCE: None},
        {notes.STANDING: None, notes.QUEUE: None},
    ]


async def test_a_ledger_that_comes_to_rest_removes_notices_that_it_has_just_written() -> None:
    clock, host = FakeClock(), FakeHost()
    pods = Pods(clock.monotonic, lambda: None)
    verdicts = Verdicts(Writes(host, pods, clock, lambda: True), pods, clock)
    notice = PodVerdict(Why.LOWERED, "it is evicted after 20:00")
    told = {notes.VERDICT: notes.write_verdict(str(notice.why), notice.message)}
    host.answer = lambda _, name: host_pod(name, version=6, notes=told)
    show(pods, host_pod())
    clock.advance(10.0)
    await verdicts.carry_out({}, {"uid-p": notice})
    host.asked.clear()
    await verdicts.stand_down()
    assert [body["metadata"]["annotations"] for _, _, body in host.asked] == [{notes.VERDICT: None}]


async def test_a_look_that_the_host_refuses_is_repeated_and_not_taken_for_nothing_left() -> None:
    clock, refusals = FakeClock(), [Throttled(429, "TooManyRequests", "later")]

    class Refusing(Needed):
        async def any_left(self) -> bool:
            if refusals:
                raise refusals.pop()
            return True

    looking = asyncio.create_task(Ledger(FakeHost(), lambda: True, clock)._any_left(cast("Need", Refusing())))
    while not clock.sleepers:  # noqa: ASYNC110 -- a clock of the tests tells no one who sleeps
        await asyncio.sleep(0)
    clock.advance(60.0)
    assert await looking
