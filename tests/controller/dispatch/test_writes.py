"""What becomes of writes: an answer, a refusal, no answer, and a lease that is another's."""

import itertools
from dataclasses import replace

import pytest

from bulkhead.api import labels, ledger
from bulkhead.api.labels import HOSTNAME
from bulkhead.api.ledger import Reclaimed
from bulkhead.api.objects import Obj
from bulkhead.kube.errors import Conflict, Forbidden, KubeError, NotFound, Throttled, Timeout, Unavailable, Unprocessable
from bulkhead.ledger.model import Admission, Cause, Needs, Node, Pod, PodVerdict, Reclaim, Stage, Why
from controller.dispatch import patches
from controller.dispatch.admissions import Admissions
from controller.dispatch.answers import Verdicts
from controller.dispatch.apply import DeposedError, Writes, take_until_deadline
from controller.dispatch.avoid import Avoided
from controller.dispatch.moves import Moves
from controller.dispatch.reclaims import Reclaims
from controller.dispatch.seen import Pods
from tests.controller.dispatch.pods import FakeHost, host_pod, show
from tests.kit.fakeclock import FakeClock


class World:
    """Three pods that wait."""

    def __init__(self) -> None:
        self.clock, self.host, self.leads = FakeClock(), FakeHost(), True
        self.pods = Pods(self.clock.monotonic, lambda: None)
        self.writes = Writes(self.host, self.pods, self.clock, lambda: self.leads)
        self.avoided = Avoided()
        self.moves = Moves()
        self.reclaims = Reclaims(self.writes, self.pods, self.avoided, self.moves, self.clock)
        for name in ("a", "b", "c"):
            show(self.pods, host_pod(name, gated=True))

    async def admit(self, *names: str) -> None:
        chosen = [pod for pod in self.pods.all() if pod.name in names]
        nodes = {"n0": Node("n0", {}, {"kubernetes.io/hostname": "the-name"})}
        await Admissions(self.writes, self.pods, self.moves, self.clock).carry_out(
            [Admission(pod, "n0") for pod in chosen], nodes
        )

    def stages(self) -> list[Stage]:
        return [pod.stage for pod in self.pods.all()]


@pytest.fixture
def world() -> World:
    return World()


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


async def test_a_moved_pod_is_remembered_before_it_goes_and_until_its_successor_is_admitted(world: World) -> None:
    note = {ledger.RECLAIM: ledger.write_reclaim(Reclaimed(1e10, "Consolidated", ""))}
    show(world.pods, host_pod("d", node="n0"))
    pod = next(pod for pod in world.pods.all() if pod.name == "d")
    world.host.answer = lambda _, name: host_pod(name, version=9, node="n0", notes=note)
    await world.reclaims.carry_out([Reclaim(pod, Cause.MOVED, 1e10, to="n1")])
    assert [(each.pod.uid, each.node) for each in world.moves.at(0.0, lambda _: pod)] == [(pod.uid, "n1")]
    world.host.answer = lambda _, name: host_pod(name, version=9, node="")
    successor = next(pod for pod in world.pods.all() if pod.name == "a")
    await Admissions(world.writes, world.pods, world.moves, world.clock).carry_out(
        [Admission(successor, "n1", instead=pod.uid)], {}
    )
    assert world.moves.at(0.0, lambda _: pod) == ()


@pytest.mark.parametrize("known", [True, False])
async def test_of_a_pod_that_says_that_it_is_a_worker_the_note_says_whether_it_is(world: World, *, known: bool) -> None:
    owners = '[{"apiVersion": "slurm.bulkhead.dev/v1alpha1", "kind": "NodeSet", "name": "gpu", "controller": true}]'
    says = {
        "notes": {labels.VIRTUAL_NAMESPACE: "slurm", labels.VIRTUAL_OWNERS: owners},
        "meta": {"labels": {"app.kubernetes.io/part-of": "slurm", "app.kubernetes.io/name": "slurmd"}},
    }
    show(world.pods, host_pod("d", **says))
    show(world.pods, host_pod("e"))
    world.host.answer = lambda _, name: host_pod(name, version=9)
    pods = {pod.name: pod for pod in world.pods.all()}
    back = [Reclaim(replace(pods["d"], slurm_worker=known), Cause.BORROWED, 1e10), Reclaim(pods["e"], Cause.BORROWED, 1e10)]
    await world.reclaims.carry_out(back)
    noted = {name: body["metadata"]["annotations"] for verb, name, body in world.host.asked if verb == "patch pods"}
    found = {name: ledger.read_reclaim(notes) for name, notes in noted.items()}
    assert {name: note.worker for name, note in found.items() if note is not None} == {"d": known, "e": None}


async def test_a_gang_is_noted_whole_before_the_first_of_it_goes(world: World) -> None:
    gang = {"bulkhead.dev/gang": "g", "bulkhead.dev/gang-size": "2"}
    for name in ("a", "b"):
        show(world.pods, host_pod(name, version=6, notes=gang))
    note = {ledger.RECLAIM: ledger.write_reclaim(Reclaimed(1e10, "ReclaimedBorrowed", ""))}
    world.host.answer = lambda _, name: (
        host_pod(name, version=9, notes=gang | note) if name == "a" else Forbidden(403, "", "no")
    )
    back = [Reclaim(pod, Cause.BORROWED, 1e10) for pod in world.pods.all() if pod.gang]
    await world.reclaims.carry_out(back)
    assert [(verb, name) for verb, name, _ in world.host.asked] == [("patch pods", "a"), ("patch pods", "b")]


async def test_a_budget_that_says_no_is_asked_again_and_loses_at_the_deadline(world: World) -> None:
    now = world.clock.now().timestamp()
    note = {ledger.RECLAIM: ledger.write_reclaim(Reclaimed(now + 5, "ReclaimedBorrowed", ""))}
    marked = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    show(world.pods, host_pod("a", version=6, notes=note, status=marked))
    world.host.answer = lambda verb, name: (
        Throttled(429, "", "budget") if verb == "eviction" else host_pod(name, version=9, notes=note, status=marked)
    )
    assert await world.reclaims.carry_out([]) == now + 2
    world.clock.advance(1)
    await world.reclaims.carry_out([])
    assert [verb for verb, *_ in world.host.asked] == ["eviction"]
    assert world.writes.away == 0
    world.clock.advance(1)
    assert await world.reclaims.carry_out([]) == now + 4
    world.clock.advance(3)
    await world.reclaims.carry_out([])
    assert [verb for verb, *_ in world.host.asked] == ["eviction", "eviction", "delete"]
    assert world.host.asked[-1][2] == {"grace_seconds": 30, "uid": "uid-a", "resource_version": None}


async def test_a_gang_that_was_not_bound_goes_as_it_was_seen_and_its_nodes_are_avoided(world: World) -> None:
    admitted = {ledger.ADMITTED: '{"at":"2026-01-01T00:00:00Z","node":"n0","pinned":true}'}
    show(world.pods, host_pod("a", version=6, node="", notes=admitted))
    (pod,) = [each for each in world.pods.all() if each.name == "a"]
    world.host.answer = lambda *_: None
    await world.reclaims.carry_out([Reclaim(pod, Cause.ROLLBACK, 0.0)])
    assert world.host.asked == [("delete", "a", {"grace_seconds": None, "uid": "uid-a", "resource_version": "6"})]
    now = world.clock.now().timestamp()
    assert world.avoided.at(now) == {("team", pod.needs): frozenset({"n0"})}
    assert world.avoided.at(now + 301) == {}


def test_what_is_avoided_is_bounded_for_each_tenant() -> None:
    avoided = Avoided()
    quiet = Pod("u", "bh-b-work", "p", {}, Stage.ADMITTED, 0.0, tenant="b", pinned="n0")
    avoided.note(quiet, 0.0)
    for number in range(3000):
        avoided.note(replace(quiet, tenant="a", pinned=f"n{number}"), 0.0)
    assert {key: len(nodes) for key, nodes in avoided.at(1.0).items()} == {("a", Needs()): 128, ("b", Needs()): 1}


async def test_an_evicted_pod_counts_as_ending_and_is_read_only_if_no_watch_shows_it(world: World) -> None:
    note = {ledger.RECLAIM: ledger.write_reclaim(Reclaimed(1e10, "ReclaimedBorrowed", ""))}
    for name in ("a", "b"):
        show(world.pods, host_pod(name, version=6, notes=note))
    world.host.answer = lambda *_: {}
    await world.reclaims.carry_out([])
    # An event of a moment before undoes nothing.
    show(world.pods, host_pod("a", version=7, notes=note, status={"hostIP": "10.0.0.1"}))
    await world.writes.read_again()
    assert await world.reclaims.carry_out([]) is None
    assert [pod.ending for pod in world.pods.all() if pod.name in {"a", "b"}] == [True, True]
    going = {"deletionTimestamp": "2026-01-01T00:00:30Z"}
    show(world.pods, host_pod("a", version=8, notes=note, meta=going))
    world.clock.advance(31)
    world.host.answer = lambda _, name: host_pod(name, version=6, notes=note)
    await world.writes.read_again()
    assert [(verb, name) for verb, name, _ in world.host.asked] == [("eviction", "a"), ("eviction", "b"), ("get", "b")]
    # The host has the last word.
    assert {pod.name: pod.ending for pod in world.pods.all() if pod.name in {"a", "b"}} == {"a": True, "b": False}


async def test_many_pods_are_noted_and_evicted_in_one_turn_a_few_at_a_time(world: World) -> None:
    names = [f"p{number}" for number in range(200)]
    for name in names:
        show(world.pods, host_pod(name))
    back = [Reclaim(pod, Cause.BORROWED, 1e10) for pod in world.pods.all() if pod.name in names]
    note = {ledger.RECLAIM: ledger.write_reclaim(Reclaimed(1e10, "ReclaimedBorrowed", ""))}
    world.host.answer = lambda verb, name: {} if verb == "eviction" else host_pod(name, version=9, notes=note)
    assert await world.reclaims.carry_out(back) is None
    verbs = [verb for verb, *_ in world.host.asked]
    assert (verbs.count("patch pods"), verbs.count("eviction"), len(verbs)) == (200, 200, 400), "two writes each, no read"
    assert verbs.index("eviction") < 100, "the first are evicted before the last are noted"


async def test_after_its_time_a_turn_begins_no_more_workloads_and_the_next_one_goes_on(world: World) -> None:
    names = [f"p{number}" for number in range(200)]
    for name in names:
        show(world.pods, host_pod(name))
    back = [Reclaim(pod, Cause.BORROWED, 1e10) for pod in world.pods.all() if pod.name in names]
    note = {ledger.RECLAIM: ledger.write_reclaim(Reclaimed(1e10, "ReclaimedBorrowed", ""))}

    def slowly(verb: str, name: str) -> Obj:
        world.clock.advance(0.02)
        return {} if verb == "eviction" else host_pod(name, version=9, notes=note)

    world.host.answer = slowly
    due = await world.reclaims.carry_out(back)
    assert due is not None
    assert due <= world.clock.now().timestamp()
    noted = {name for verb, name, _ in world.host.asked if verb == "patch pods"}
    assert len(noted) < 200
    assert {name for verb, name, _ in world.host.asked if verb == "eviction"} == noted, "none is left halfway"
    for _ in range(5):
        await world.reclaims.carry_out([reclaim for reclaim in back if reclaim.pod.name not in noted])
    assert {name for verb, name, _ in world.host.asked if verb == "eviction"} == set(names)


async def test_pods_that_a_budget_holds_keep_no_others_from_their_turn(world: World) -> None:
    note = {ledger.RECLAIM: ledger.write_reclaim(Reclaimed(1e10, "ReclaimedBorrowed", ""))}
    for number in range(200):
        show(world.pods, host_pod(f"held{number}", notes=note))

    def slowly(verb: str, name: str) -> Obj | KubeError:
        world.clock.advance(0.02)
        refused = verb == "eviction" and name.startswith("held")
        return Throttled(429, "", "budget") if refused else host_pod(name, version=9, notes=note)

    world.host.answer = slowly
    await world.reclaims.carry_out([])
    show(world.pods, host_pod("late", notes=note))
    for _ in range(3):
        world.clock.advance(2)
        await world.reclaims.carry_out([])
    assert ("eviction", "late") in {(verb, name) for verb, name, _ in world.host.asked}


async def test_a_pod_whose_eviction_is_refused_is_marked_once(world: World) -> None:
    note = {ledger.RECLAIM: ledger.write_reclaim(Reclaimed(1e10, "ReclaimedBorrowed", "because"))}
    marked = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    show(world.pods, host_pod("a", version=6, notes=note))
    world.host.answer = lambda verb, name: (
        Throttled(429, "", "budget") if verb == "eviction" else host_pod(name, version=9, notes=note, status=marked)
    )
    for _ in range(2):
        await world.reclaims.carry_out([])
        world.clock.advance(2)
    assert [verb for verb, *_ in world.host.asked] == ["eviction", "patch status", "eviction"]
    (condition,) = world.host.asked[1][2]["status"]["conditions"]
    assert (condition["reason"], condition["message"]) == ("ReclaimedBorrowed", "because")


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
