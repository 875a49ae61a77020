"""Pods in the ledger's cache: decoded once, never older than its own write, and read again if the state is unknown."""

from dataclasses import replace
from typing import Any

import pytest

from bulkhead.api import ledger
from bulkhead.ledger import read
from bulkhead.ledger.model import Stage
from controller.dispatch import hostpod
from controller.dispatch import seen as seen_module
from controller.dispatch.seen import MOST_REQUIREMENTS_OF_A_TENANT, Pods
from tests.controller.dispatch.pods import end, host_pod, seen, show


class World:
    def __init__(self) -> None:
        self.time = 100.0
        self.news = 0
        self.pods = Pods(lambda: self.time, self._changed)

    def _changed(self) -> None:
        self.news += 1

    def stage(self) -> Stage:
        (pod,) = self.pods.all()
        return pod.stage


@pytest.fixture
def world() -> World:
    made = World()
    show(made.pods, host_pod(gated=True))
    return made


def test_only_what_matters_is_news(world: World) -> None:
    assert world.news == 1
    show(world.pods, host_pod(gated=True, version=6))
    show(world.pods, host_pod(gated=True, version=7, status={"phase": "Pending", "hostIP": "10.0.0.1"}))
    assert world.news == 1
    show(world.pods, host_pod(version=8))
    assert (world.news, world.stage()) == (2, Stage.BOUND)


def test_an_own_write_is_there_at_once_and_an_older_event_does_not_undo_it(world: World) -> None:
    world.pods.answered(host_pod(version=9, node=""))
    assert world.stage() is Stage.ADMITTED
    show(world.pods, host_pod(gated=True, version=8))
    assert world.stage() is Stage.ADMITTED
    show(world.pods, host_pod(version=9, node=""))
    show(world.pods, host_pod(version=10))
    assert (world.stage(), world.pods.doubts()) == (Stage.BOUND, [])


def test_what_no_watch_shows_is_read_again(world: World) -> None:
    world.pods.answered(host_pod(version=9, node=""))
    assert world.pods.doubts() == []
    world.time += 31
    assert [pod.uid for pod in world.pods.doubts()] == ["uid-p"]
    # The host says the same: that is what holds, whatever the watch does.
    world.pods.answered(host_pod(version=9, node=""))
    assert world.pods.doubts() == []
    # And a host that is back from a backup is believed.
    show(world.pods, host_pod(gated=True, version=6))
    assert world.stage() is Stage.WAITING


def test_what_may_have_been_written_counts_as_written_until_it_was_read(world: World) -> None:
    (pod,) = world.pods.all()
    world.pods.doubt(replace(pod, stage=Stage.ADMITTED))
    show(world.pods, host_pod(gated=True, version=6, status={"hostIP": "10.0.0.1"}))
    assert world.stage() is Stage.ADMITTED
    assert [each.stage for each in world.pods.doubts()] == [Stage.ADMITTED]
    world.pods.answered(host_pod(gated=True, version=6))
    assert (world.stage(), world.pods.doubts()) == (Stage.WAITING, [])


def test_an_answer_brings_nothing_back_that_is_gone(world: World) -> None:
    end(world.pods, host_pod())
    world.pods.answered(host_pod(version=9))
    assert (len(world.pods), world.pods.doubts()) == (0, [])


def test_one_that_has_ended_holds_nothing(world: World) -> None:
    world.pods.answered(host_pod(version=9, status={"phase": "Succeeded"}))
    assert len(world.pods) == 0


def test_equal_amounts_are_one_object() -> None:
    assert seen(name="a").pod.asks is seen(name="b").pod.asks


def test_nothing_of_a_pod_is_kept_by_the_informer() -> None:
    pods = Pods(lambda: 0.0, lambda: None)
    import msgspec

    big = host_pod(notes={"x": "y" * 100_000})
    meta, body = pods.shrink(msgspec.json.encode(big), None)
    assert (meta.annotations, meta.labels, body) == (None, None, b"{}")


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def choosy(number: int, requirements: int = 1000, **more: Any) -> dict[str, Any]:
    """A pod like no other, which says much about its nodes."""
    listed = [{"key": f"k{number}-{each}", "operator": "Exists"} for each in range(requirements)]
    wish = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": listed}]}}}
    return host_pod(f"p{number}", affinity=wish, **{"gated": True} | more)


def test_a_tenants_pods_say_so_much_about_their_nodes_together_and_then_fit_nowhere() -> None:
    pods, most = Pods(lambda: 0.0, lambda: None), MOST_REQUIREMENTS_OF_A_TENANT // 1001
    for number in range(most + 5):
        show(pods, choosy(number))
    # Who says little is what it says, and so is another tenant's.
    show(pods, host_pod("small", gated=True, nodeSelector={"pool": "a"}))
    show(pods, choosy(9999, meta={"namespace": "bh-other-work"}))
    needs = {pod.name: pod.needs for pod in pods.all()}
    assert [name for name, each in needs.items() if each == read.NOWHERE] == [f"p{number}" for number in range(most, most + 5)]
    # A pod that ends makes room for the next one.
    end(pods, choosy(0))
    show(pods, choosy(most, version=7))
    assert {pod.name: pod.needs for pod in pods.all()}[f"p{most}"] != read.NOWHERE


def test_the_needs_of_a_pod_without_a_gate_are_read_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pods, note = Pods(lambda: 0.0, lambda: None), {ledger.ADMITTED: '{"at":"2026-01-01T00:00:00Z","node":"n0"}'}
    show(pods, choosy(1, version=5))
    show(pods, choosy(1, version=6, gated=False, node="", notes=note))
    (before,) = pods.all()
    monkeypatch.setattr(read, "_needs", lambda *_: pytest.fail("read again"))
    for version in (7, 8):
        show(pods, choosy(1, version=version, gated=False, node="n0", notes=note))
    (now,) = pods.all()
    assert now.stage is Stage.BOUND
    assert now.needs is before.needs


def test_an_own_write_is_decoded_once_and_a_pod_that_was_changed_here_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    decodes: list[str] = []

    def counted(obj: Any, *more: Any) -> Any:
        decodes.append(obj["metadata"]["resourceVersion"])
        return hostpod.decoded(obj, *more)

    monkeypatch.setattr(seen_module, "decoded", counted)
    world.pods.answered(host_pod(version=9))
    show(world.pods, host_pod(version=9))
    assert decodes == ["9"]
    show(world.pods, host_pod(version=10))
    assert decodes == ["9", "10"]
    # It counts as ending, which the host has not shown: a relist with the same version proves nothing, and it is still read.
    world.pods.ends("uid-p")
    show(world.pods, host_pod(version=10))
    assert decodes == ["9", "10", "10"]
    world.time += 31
    assert [pod.uid for pod in world.pods.doubts()] == ["uid-p"]


def test_what_a_gated_pod_needs_may_change() -> None:
    pods = Pods(lambda: 0.0, lambda: None)
    for version, pool in ((5, "a"), (6, "b")):
        show(pods, host_pod(gated=True, version=version, nodeSelector={"pool": pool}))
    (pod,) = pods.all()
    assert pod.needs.selector == (("pool", "b"),)
