"""What becomes of writes: an answer, a refusal, no answer, and a lease that is another's."""

import itertools
from dataclasses import replace

import pytest

from bulkhead.api import ledger
from bulkhead.api.labels import HOSTNAME
from bulkhead.api.objects import Obj
from bulkhead.kube.errors import Conflict, Forbidden, KubeError, NotFound, Throttled, Timeout, Unavailable, Unprocessable
from bulkhead.ledger.model import Admission, Needs, Node, Pod, PodVerdict, Stage, Why
from controller.dispatch import patches
from controller.dispatch.answers import Verdicts
from controller.dispatch.apply import DeposedError, take_until_deadline
from controller.dispatch.avoid import Avoided
from tests.controller.dispatch.pods import host_pod, show
from tests.controller.dispatch.world import World


async def test_an_admission_is_one_patch_of_that_pod_and_no_other(world: World) -> None:
    world.host.answer = lambda _, name: host_pod(name, version=9, node="")
    await world.admit("a")
    assert world.host.asked == [
        (
            "patch pods",
            "a",
            {
                "metadata": {
                    "uid": "uid-a",
                    "annotations": {
                        ledger.ADMITTED: '{"at":"2026-01-01T00:00:00.000Z","node":"n0","pinned":true}',
                        ledger.VERDICT: None,
                    },
                },
                "spec": {
                    "schedulingGates": [{"name": ledger.GATE, "$patch": "delete"}],
                    "nodeSelector": {"kubernetes.io/hostname": "the-name"},
                },
            },
        )
    ]
    assert world.stages() == [Stage.ADMITTED, Stage.WAITING, Stage.WAITING]


@pytest.mark.parametrize(
    ("plain", "flavor", "pinned"),
    [(True, "", "the-name"), (True, "h100", "the-name"), (False, "", ""), (False, "h100", "the-name")],
)
def test_a_pod_is_pinned_where_the_check_knows_all_of_it_or_its_kind_of_node_counts(
    world: World, *, plain: bool, flavor: str, pinned: str
) -> None:
    admission = Admission(replace(world.pods.all()[0], plain=plain), "n0", flavor)
    assert patches.pinned(admission, Node("n0", {}, {HOSTNAME: "the-name"})) == pinned


@pytest.mark.parametrize("error", [Timeout("late"), Unavailable(0, "", "reset"), Unavailable(503, "", "no")], ids=repr)
async def test_where_no_answer_comes_it_counts_as_written_until_it_was_read(world: World, error: KubeError) -> None:
    world.host.answer = lambda *_: error
    await world.admit("a")
    assert (world.stages()[0], world.writes.away) == (Stage.ADMITTED, 1)
    await world.writes.read_again()
    assert world.stages()[0] is Stage.ADMITTED, "what cannot be read is not known either"
    world.host.answer = lambda _, name: host_pod(name, gated=True)
    await world.writes.read_again()
    assert world.stages()[0] is Stage.WAITING


@pytest.mark.parametrize("error", [Forbidden(403, "", "no"), Unprocessable(422, "", "no"), Conflict(409, "", "no")], ids=repr)
async def test_a_pod_that_is_refused_waits_longer_each_time_and_keeps_no_other(world: World, error: KubeError) -> None:
    world.host.answer = lambda verb, name: (
        host_pod(name, gated=True) if verb == "get" else error if name == "a" else host_pod(name, version=9, node="")
    )
    await world.admit("a", "b")
    assert (world.stages(), world.writes.away) == ([Stage.WAITING, Stage.ADMITTED, Stage.WAITING], 0)
    await world.writes.read_again()
    asked = len(world.host.asked)
    await world.admit("a", "c")
    assert [name for _, name, _ in world.host.asked[asked:]] == ["c"], "not again at once"
    assert world.writes.due() is not None
    world.clock.advance(60)
    await world.admit("a")
    assert world.host.asked[-1][:2] == ("patch pods", "a")


async def test_a_host_that_asks_for_patience_has_done_nothing(world: World) -> None:
    world.host.answer = lambda *_: Throttled(429, "", "slower")
    await world.admit("a")
    assert (world.stages()[0], world.writes.away, world.pods.doubts()) == (Stage.WAITING, 1, [])


async def test_a_pod_that_is_gone_is_gone(world: World) -> None:
    world.host.answer = lambda *_: NotFound(404, "NotFound", "no")
    await world.admit("a")
    assert (len(world.stages()), world.writes.away) == (2, 0)


async def test_without_the_lease_nothing_is_written(world: World) -> None:
    world.leads = False
    with pytest.raises(ExceptionGroup) as raised:
        await world.admit("a", "b")
    assert raised.group_contains(DeposedError)
    assert world.host.asked == []


async def test_a_verdict_is_written_after_a_moment_and_once(world: World) -> None:
    verdicts = Verdicts(world.writes, world.pods, world.clock)
    said = {pod.uid: PodVerdict(Why.QUOTA, "asks 1") for pod in world.pods.all()}
    text = ledger.write_verdict("QuotaExceeded", "asks 1")
    world.host.answer = lambda _, name: host_pod(name, version=9, gated=True, notes={ledger.VERDICT: text})
    due = await verdicts.carry_out(said, {})
    assert world.host.asked == []
    assert due is not None
    world.clock.advance(due)
    assert await verdicts.carry_out(said, {}) is None
    assert [body["metadata"]["annotations"] for _, _, body in world.host.asked] == [{ledger.VERDICT: text}] * 3
    await verdicts.carry_out(said, {})
    assert len(world.host.asked) == 3


async def test_an_outdated_notice_on_a_running_pod_is_removed(world: World) -> None:
    text = ledger.write_verdict(ledger.OVER_QUOTA, "it runs until it ends")
    for name in ("runs", "stays"):
        show(world.pods, host_pod(name, node="n0", notes={ledger.VERDICT: text}))
    # A waiting pod keeps the last message: it is judged in each turn.
    show(world.pods, host_pod("a", version=2, gated=True, notes={ledger.VERDICT: text}))
    stays = next(pod for pod in world.pods.all() if pod.name == "stays")
    world.clock.advance(60)
    verdicts = Verdicts(world.writes, world.pods, world.clock)
    await verdicts.carry_out({}, {stays.uid: PodVerdict(Why.LOWERED, "it runs until it ends")})
    (asked,) = world.host.asked
    assert (asked[1], asked[2]["metadata"]["annotations"]) == ("runs", {ledger.VERDICT: None})


async def test_a_pod_that_may_go_to_one_node_alone_is_noted_as_such(world: World) -> None:
    own = Needs(selector=((HOSTNAME, "the-name"),))
    pod = replace(world.pods.all()[0], needs=own)
    patch = patches.admission(Admission(pod, "n0"), 0.0, "the-name")
    assert ledger.read_admitted(patch["metadata"]["annotations"]) == ledger.Admitted(0.0, "n0", pinned=True, fixed=True)


def test_what_is_avoided_is_bounded_for_each_tenant() -> None:
    avoided = Avoided()
    quiet = Pod("u", "bh-b-work", "p", {}, Stage.ADMITTED, 0.0, tenant="b", pinned="n0")
    avoided.note(quiet, 0.0)
    for number in range(3000):
        avoided.note(replace(quiet, tenant="a", pinned=f"n{number}"), 0.0)
    assert {key: len(nodes) for key, nodes in avoided.at(1.0).items()} == {("a", Needs()): 128, ("b", Needs()): 1}


async def test_a_text_whose_numbers_change_while_quota_is_reclaimed_is_written_rarely(world: World) -> None:
    show(world.pods, host_pod("x", gated=True))
    verdicts, uid = Verdicts(world.writes, world.pods, world.clock), "uid-x"
    world.clock.advance(1)
    version = itertools.count(9)

    def taken(_: str, name: str) -> Obj:
        annotations = world.host.asked[-1][2]["metadata"]["annotations"]
        return host_pod(name, version=next(version), gated=True, notes=annotations)

    world.host.answer = taken
    for number in range(59):
        await verdicts.carry_out({uid: PodVerdict(Why.RECLAIMING, f"{number} are reclaimed")}, {})
        world.clock.advance(1)
    assert len(world.host.asked) == 1
    due = await verdicts.carry_out({uid: PodVerdict(Why.RECLAIMING, "59 are reclaimed")}, {})
    assert due == 1.0
    # Another reason is told as soon as ever.
    await verdicts.carry_out({uid: PodVerdict(Why.QUOTA, "asks 1")}, {})
    assert len(world.host.asked) == 2
    await verdicts.carry_out({uid: PodVerdict(Why.QUOTA, "asks 2")}, {})
    world.clock.advance(2)
    await verdicts.carry_out({uid: PodVerdict(Why.QUOTA, "asks 3")}, {})
    assert len(world.host.asked) == 3


async def test_another_pod_of_the_name_is_not_the_one_that_was_meant(world: World) -> None:
    world.host.answer = lambda *_: Timeout("late")
    await world.admit("a")
    world.host.answer = lambda _, name: host_pod(name, gated=True, meta={"uid": "of-another"})
    await world.writes.read_again()
    assert [pod.uid for pod in world.pods.all()] == ["uid-b", "uid-c"]


def test_an_eviction_is_of_that_one_pod(world: World) -> None:
    pod = world.pods.all()[0]
    assert patches.eviction(pod)["deleteOptions"] == {"preconditions": {"uid": "uid-a"}}


def test_what_belongs_together_is_written_together_and_no_more_after_the_moment() -> None:
    now = itertools.count()
    items = [("x", 1), ("x", 2), ("x", 3), ("y", 1)]
    assert list(take_until_deadline(items, 0.5, lambda: next(now), lambda item: item[0])) == items[:3]
