"""What becomes of reclaims: noted, evicted, held by a budget, deleted at the deadline, and spared."""

from dataclasses import replace

import pytest

from bulkhead.api import labels, ledger
from bulkhead.api.ledger import Reclaimed
from bulkhead.api.objects import Obj
from bulkhead.kube.errors import Forbidden, KubeError, Throttled
from bulkhead.ledger.model import Admission, Cause, Reclaim
from controller.dispatch.admissions import Admissions
from tests.controller.dispatch.pods import host_pod, show
from tests.controller.dispatch.world import World


async def test_a_moved_pod_is_remembered_before_it_goes_and_until_its_successor_is_admitted(world: World) -> None:
    note = {ledger.RECLAIM: ledger.write_reclaim(Reclaimed(1e10, "Consolidated", ""))}
    show(world.pods, host_pod("d", node="n0"))
    pod = next(pod for pod in world.pods.all() if pod.name == "d")
    world.host.answer = lambda _, name: host_pod(name, version=9, node="n0", notes=note)
    await world.reclaims.carry_out([Reclaim(pod, Cause.MOVED, 1e10, to="n1")])
    assert [(moved.pod.uid, moved.node) for moved in world.moves.at(0.0, lambda _: pod)] == [(pod.uid, "n1")]
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
    (pod,) = [pod for pod in world.pods.all() if pod.name == "a"]
    world.host.answer = lambda *_: None
    await world.reclaims.carry_out([Reclaim(pod, Cause.ROLLBACK, 0.0)])
    assert world.host.asked == [("delete", "a", {"grace_seconds": None, "uid": "uid-a", "resource_version": "6"})]
    now = world.clock.now().timestamp()
    assert world.avoided.at(now) == {("team", pod.needs): frozenset({"n0"})}
    assert world.avoided.at(now + 301) == {}


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


@pytest.mark.parametrize("marked", [False, True], ids=["not marked", "marked"])
async def test_a_pod_that_a_budget_holds_is_spared_with_its_condition(world: World, *, marked: bool) -> None:
    note = {ledger.RECLAIM: ledger.write_reclaim(Reclaimed(1e10, "ReclaimedBorrowed", "because"))}
    status = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]} if marked else {}
    show(world.pods, host_pod("d", version=6, notes=note, status=status))
    spare = [pod for pod in world.pods.all() if pod.name == "d"]
    world.host.answer = lambda verb, name: (
        host_pod(name, version=7, notes=note) if verb == "patch status" else host_pod(name, version=8)
    )
    assert await world.reclaims.carry_out([], spare) is None
    assert [verb for verb, *_ in world.host.asked] == ["patch status"] * marked + ["patch pods"], "and it is not evicted"
    if marked:
        (condition,) = world.host.asked[0][2]["status"]["conditions"]
        gone = {"status": "False", "reason": None, "message": None}
        assert {key: condition[key] for key in gone} == gone
    assert world.host.asked[-1][2] == {"metadata": {"uid": "uid-d", "annotations": {ledger.RECLAIM: None}}}


async def test_a_worker_whose_jobs_slurm_has_ended_is_not_spared(world: World) -> None:
    past = world.clock.now().timestamp() - 60
    note = {ledger.RECLAIM: ledger.write_reclaim(Reclaimed(past, "ReclaimedBorrowed", "", worker=True))}
    status = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    show(world.pods, host_pod("d", version=6, notes=note, status=status))
    spare = [replace(pod, slurm_worker=True) for pod in world.pods.all() if pod.name == "d"]
    world.host.answer = lambda *_: None
    await world.reclaims.carry_out([], spare)
    assert [verb for verb, *_ in world.host.asked] == ["delete"]
