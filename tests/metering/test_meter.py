"""Metering: what is read of a pod, and that each second of each pod is counted once under gaps, restarts and jumping clocks."""

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bulkhead.api import labels, ledger
from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import Flavor, Gang, Line, Node, Pod, Rules, Share, Snapshot, Stage, Tenant
from bulkhead.metering.held import Held, held_of
from bulkhead.metering.meter import HOUR, Meter, Tally, UsageKey
from bulkhead.metering.steady import Steady
from bulkhead.metering.usagebook import Sums
from controller.dispatch import patches

GPU = "nvidia.com/gpu"
EPOCH = 1_767_225_600  # 2026-01-01T00:00:00Z


def stamp(seconds: float) -> str:
    return ledger.moment(EPOCH + seconds)


def host_pod(gpus: int = 2, **more: Any) -> dict[str, Any]:
    """A bound pod; `more` over its parts: annotations, spec, status."""
    noted = {labels.VIRTUAL_NAMESPACE: "ml", labels.VIRTUAL_NAME: "train-0"} | more.get("annotations", {})
    spec = {"containers": [{"name": "0", "resources": {"limits": {GPU: gpus, "cpu": "4"}}}], "nodeName": "n1"} | more.get(
        "spec", {}
    )
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(10)}
    return {
        "metadata": {"uid": "u1", "namespace": "bh-red-work", "name": "train-0-x", "annotations": noted},
        "spec": spec,
        "status": {"phase": "Pending", "conditions": [bound]} | more.get("status", {}),
    }


def at(seconds: float) -> int:
    return round((EPOCH + seconds) * 1000)


def containers(*states: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": str(number), **state} for number, state in enumerate(states)]


def test_a_bound_pod_holds_from_its_binding_and_runs_from_its_first_container() -> None:
    found = held_of(host_pod())
    assert found == Held("u1", "red", "ml", "train-0", "Pod/train-0", {GPU: 2}, "", (), {}, at(10), None, False, None)
    running = containers({"state": {"running": {"startedAt": stamp(15)}}}, {"state": {"running": {"startedAt": stamp(12.5)}}})
    found = held_of(host_pod(status={"phase": "Running", "containerStatuses": running}))
    assert found is not None
    # The other one has no devices.
    assert (found.running, found.over) == (at(15), False)


RUNS = {"state": {"running": {"startedAt": stamp(20)}}}
RAN = {"state": {"terminated": {"startedAt": stamp(20), "finishedAt": stamp(30)}}}
WAITS = {"state": {"waiting": {"reason": "PodInitializing"}}}
WITH, WITHOUT = {"resources": {"limits": {GPU: 2}}}, {"resources": {"limits": {"cpu": "4"}}}
BY_CLAIM = {"resources": {"claims": [{"name": "gpu"}]}}


@pytest.mark.parametrize(
    ("init", "main", "status", "used"),
    [
        # A pod is Pending while its init containers run, and while the image of any of its containers is pulled.
        ([WITH], [WITH], ([RUNS], [WAITS]), True),
        ([WITH], [WITHOUT], ([RAN], [WAITS]), True),
        ([WITHOUT], [WITH], ([RUNS], [WAITS]), False),
        ([WITHOUT], [WITH], ([RAN], [WAITS]), False),
        ([], [WITH, WITHOUT], ([], [RUNS, WAITS]), True),
        ([], [WITH, WITHOUT], ([], [WAITS, RUNS]), False),
        ([BY_CLAIM], [WITHOUT], ([RUNS], [WAITS]), True),
        ([], [BY_CLAIM, WITHOUT], ([], [WAITS, RUNS]), False),
        # Where none says that it is one of those that the devices are for, all are.
        ([], [WITHOUT], ([], [RUNS]), True),
    ],
)
def test_devices_are_used_once_a_container_that_has_them_runs(
    init: list[Any], main: list[Any], status: tuple[list[Any], list[Any]], used: bool
) -> None:
    parts = [{"name": f"i{number}", **container} for number, container in enumerate(init)], containers(*main)
    states = [
        {"name": container["name"], **state}
        for part, said in zip(parts, status, strict=True)
        for container, state in zip(part, said, strict=True)
    ]
    spec = {"initContainers": parts[0], "containers": parts[1], "resourceClaims": [{"name": "gpu"}]}
    said = {"phase": "Pending", "initContainerStatuses": states[: len(init)], "containerStatuses": states[len(init) :]}
    found = held_of(host_pod(spec=spec, status=said))
    assert found is not None
    assert found.running == (at(20) if used else None)


def test_a_pod_whose_last_container_was_an_init_container_ended_with_it() -> None:
    spec = {"initContainers": [{"name": "i0", **WITH}]}
    ended = {"phase": "Failed", "initContainerStatuses": [{"name": "i0", **RAN}], "containerStatuses": [{"name": "0", **WAITS}]}
    found = held_of(host_pod(spec=spec, status=ended))
    assert found is not None
    assert (found.running, found.ended) == (at(20), at(30))


def test_an_admitted_pod_holds_from_its_admission_with_flavor_and_what_it_borrows() -> None:
    admitted = ledger.Admitted(EPOCH + 5, "n1", flavor="h100", borrowed={GPU: 9, "example.com/other": 1})
    owners = [{"kind": "Node", "name": "x"}, {"kind": "Job", "name": "train", "controller": True}]
    noted = {ledger.ADMITTED: ledger.write_admitted(admitted), labels.VIRTUAL_OWNERS: json.dumps(owners)}
    pod = host_pod(annotations=noted, spec={"nodeName": ""}, status={"conditions": []})
    found = held_of(pod)
    assert found is not None
    assert (found.since, found.flavor, found.borrowed, found.owner) == (at(5), "h100", {GPU: 2}, "Job/train")


@pytest.mark.parametrize(
    "pod",
    [
        host_pod(spec={"nodeName": ""}),
        host_pod(spec={"schedulingGates": [{"name": ledger.GATE}]}),
        host_pod(gpus=0),
        host_pod() | {"metadata": {"uid": "u", "namespace": "kube-system"}},
        host_pod() | {"metadata": {"uid": "u", "namespace": "bh-red"}},
        host_pod() | {"metadata": {"namespace": "bh-red-work"}},
        {},
        {"metadata": [], "spec": 1, "status": None},
    ],
)
def test_what_holds_nothing_is_not_metered(pod: dict[str, Any]) -> None:
    assert held_of(pod) is None


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        (
            {"containerStatuses": containers({"state": {"terminated": {"startedAt": stamp(1), "finishedAt": stamp(70)}}})},
            at(70),
        ),
        ({"startTime": stamp(2), "conditions": [{"type": "Ready", "lastTransitionTime": stamp(33)}]}, at(33)),
        ({"startTime": stamp(2), "conditions": [{"type": "Ready"}]}, None),
    ],
)
def test_a_pod_that_is_over_ended_when_it_says(status: dict[str, Any], ended: int | None) -> None:
    found = held_of(host_pod(status={"phase": "Failed"} | status))
    assert found is not None
    assert (found.over, found.ended) == (True, ended)


@pytest.mark.parametrize("said", ["[", "{}", '[{"kind":1,"controller":true}]', "[" * 70_000, "[" * 9000])
def test_owners_that_are_none_leave_the_pod_as_its_owner_or_an_empty_name(said: str) -> None:
    found = held_of(host_pod(annotations={labels.VIRTUAL_OWNERS: said}))
    assert found is not None
    assert found.owner in {"Pod/train-0", "/"}


def held(uid: str = "u", since: int = 0, running: int | None = None, ended: int | None = None, **more: Any) -> Held:
    parts = {"devices": {GPU: 1}, "flavor": "", "unflavored": (), "borrowed": {}} | more
    owner, namespace = parts.pop("name_of_owner", "Job/p"), parts.pop("namespace", "ml")
    return Held(uid, "red", namespace, "p", owner, since=since, running=running, over=ended is not None, ended=ended, **parts)


def sums(tallies: list[Tally]) -> Sums:
    total = Sums()
    for tally in tallies:
        total = total.plus(Sums(tally.used, tally.idle, tally.borrowed))
    return total


def test_idle_and_used_and_borrowed_are_told_apart_and_hours_are_split() -> None:
    meter = Meter(0)
    meter.see(held(since=HOUR - 1000, running=HOUR + 2000, ended=HOUR + 5000, devices={GPU: 4}, borrowed={GPU: 1}))
    found = list(meter.count(HOUR * 2))
    account = UsageKey("red", "ml", "Job/p", GPU, "")
    assert found == [Tally(0, account, 0, 4000, 1000), Tally(1, account, 12_000, 8000, 5000)]
    assert list(meter.count(HOUR * 3)) == []


def test_a_worker_without_a_job_is_idle() -> None:
    meter = Meter(0)
    meter.see(held(since=0, running=0, virtual_uid="v"))
    assert sums(list(meter.count(1000, {("red", "v")}))) == Sums(0, 1000, 0)
    assert sums(list(meter.count(2000, {("blue", "v")}))) == Sums(1000, 0, 0)
    # Another pod of the tenant may have the name of a worker, in any namespace.
    assert sums(list(meter.count(3000, {("red", "p"), ("red", "")}))) == Sums(1000, 0, 0)


def test_which_pod_it_is_in_its_plane_is_read_from_what_the_syncer_noted() -> None:
    found = held_of(host_pod(annotations={labels.VIRTUAL_UID: "v"}))
    assert found is not None
    assert found.virtual_uid == "v"


def test_a_pod_that_is_seen_again_after_its_end_is_not_counted_again() -> None:
    meter = Meter(0)
    over = held(since=0, running=0, ended=500)
    meter.see(over)
    assert sums(list(meter.count(1000))).used == 500
    meter.see(over)
    assert list(meter.count(2000)) == []
    meter.gone("u", 2000)
    assert list(meter.count(3000)) == []
    assert meter._known == {}


def test_a_pod_whose_end_was_not_seen_ended_when_it_was_last_counted() -> None:
    meter = Meter(0)
    meter.see(held(since=0, running=0))
    assert sums(list(meter.count(1000))).used == 1000
    meter.gone("u", None)
    assert list(meter.count(9000)) == []


# -- a world of pods, a controller that dies, and a clock that jumps


@dataclass
class TruePod:
    since: int
    running: int | None = None
    ended: int | None = None
    there: bool = True
    # This number of seconds can no longer be known.
    lost: int = 0

    def true(self, until: int) -> int:
        return max(0, min(until, until if self.ended is None else self.ended) - self.since)


@dataclass
class World:
    """What is true, what the store has, and the controller as long as it lives."""

    now: int = 1_000_000
    offset: int = 0
    monotonic: int = 0
    pods: dict[str, TruePod] = field(default_factory=dict)
    meter: Meter | None = None
    steady: Steady | None = None
    counted: Counter[str] = field(default_factory=Counter)
    until: int = 1_000_000

    def held(self, uid: str) -> Held:
        pod = self.pods[uid]
        return held(uid, pod.since, pod.running, pod.ended, name_of_owner=uid)

    def clock(self) -> int:
        assert self.steady is not None
        return self.steady.now(self.now + self.offset, self.monotonic)

    def start(self) -> None:
        self.steady = Steady(self.now + self.offset, self.monotonic)
        self.meter = Meter(self.until)
        for uid, pod in self.pods.items():
            if pod.there:
                self.meter.see(self.held(uid), listed=True)

    def stop(self) -> None:
        self.meter = None
        for pod in self.pods.values():
            if not pod.there:
                self.lose(pod)

    def lose(self, pod: TruePod) -> None:
        """It was deleted, and who saw it has not written so."""
        assert pod.ended is not None
        pod.lost = max(pod.lost, pod.ended - max(pod.since, self.until))

    def begin(self) -> None:
        uid = f"p{len(self.pods)}"
        self.pods[uid] = TruePod(self.now)
        self.tell(uid)

    def change(self, what: str, uid: str) -> None:
        pod = self.pods[uid]
        if what == "run" and pod.ended is None and pod.running is None:
            pod.running = self.now
        elif what in {"end", "delete"} and pod.ended is None:
            pod.ended = self.now
        pod.there = pod.there and what != "delete"
        self.tell(uid)

    def tell(self, uid: str) -> None:
        pod = self.pods[uid]
        if self.meter is None:
            if not pod.there:
                self.lose(pod)
        elif pod.there:
            self.meter.see(self.held(uid))
        else:
            self.meter.gone(uid, self.clock())

    def count(self, *, written: bool) -> None:
        if self.meter is None:
            return
        found = list(self.meter.count(self.clock()))
        assert all(min(tally.used, tally.idle, tally.borrowed) >= 0 for tally in found)
        if written:
            self.until = self.meter.until
            for tally in found:
                self.counted[tally.account.owner] += tally.used + tally.idle
        else:
            self.stop()


PASSES = st.tuples(st.just("pass"), st.integers(1, 900_000))
PODS = st.tuples(st.sampled_from(["begin", "run", "end", "delete"]), st.integers(0, 9))
LIVES = st.tuples(st.sampled_from(["count", "count", "die unwritten", "die", "start"]), st.just(0))
JUMPS = st.tuples(st.just("jump"), st.integers(-3_000_000, 3_000_000))


def play(steps: list[tuple[str, int]]) -> World:
    world = World()
    world.start()
    for what, number in steps:
        there = [uid for uid, pod in world.pods.items() if pod.there]
        if what == "pass":
            world.now += number
            world.monotonic += number
        elif what == "jump":
            world.offset = number
        elif what == "begin":
            world.begin()
        elif what == "start" and world.meter is None:
            world.start()
        elif what == "die" and world.meter is not None:
            world.stop()
        elif what in {"count", "die unwritten"}:
            world.count(written=what == "count")
        elif what in {"run", "end", "delete"} and there:
            world.change(what, there[number % len(there)])
    if world.meter is None:
        world.start()
    world.count(written=True)
    return world


@settings(max_examples=400)
@given(st.lists(st.one_of(PASSES, PODS, LIVES), max_size=60))
def test_every_second_is_counted_once_but_what_vanished_unseen(steps: list[tuple[str, int]]) -> None:
    world = play(steps)
    assert world.until == world.now
    for uid, pod in world.pods.items():
        true = pod.true(world.now)
        assert true - pod.lost <= world.counted[uid] <= true


@settings(max_examples=400)
@given(st.lists(st.one_of(PASSES, PODS, LIVES, JUMPS), max_size=60))
def test_a_clock_that_jumps_is_off_by_its_jumps_at_most(steps: list[tuple[str, int]]) -> None:
    # In the end the clock is right again, and long enough that what was counted ahead has happened.
    world = play([*steps, ("jump", 0), ("die", 0), ("pass", 4_000_000)])
    off = 2 * max((abs(number) for what, number in steps if what == "jump"), default=0)
    for uid, pod in world.pods.items():
        true = pod.true(world.now)
        assert true - pod.lost - off <= world.counted[uid] <= true + off


def test_the_world_of_these_tests_would_notice_a_pod_that_is_counted_twice() -> None:
    """The positive control: a controller that forgets up to when it counted."""
    world = World()
    world.start()
    world.begin()
    world.now += 1000
    world.monotonic += 1000
    world.count(written=True)
    world.until = 1_000_000
    world.stop()
    world.start()
    world.count(written=True)
    assert world.counted["p0"] == 2 * world.pods["p0"].true(world.now)


def test_a_jump_is_believed_once_it_has_lasted_and_time_never_runs_backwards() -> None:
    steady = Steady(0, 0)
    assert steady.now(50_000_000, 1000) == 1000
    assert steady.now(2000, 2000) == 2000
    assert steady.now(50_003_000, 3000) == 3000
    assert steady.now(50_703_000, 703_000) == 50_703_000
    assert steady.now(704_000, 704_000) == 50_704_000
    assert steady.now(1_404_000, 1_404_000) == 50_704_000
    assert steady.now(50_705_000, 50_705_000) == 50_705_000


HCA, SLICE = "rdma/hca", "nvidia.com/mig-1g.10gb"
# Of one gang: what its pods ask for, what the tenant has quotas of, and under what each device is metered.
FLAVORED: dict[str, tuple[list[dict[str, int]], list[Line], list[tuple[str, str, int]]]] = {
    "one with a flavor alone": ([{GPU: 2}], [("fast", GPU)], [(GPU, "fast", 2)]),
    "one with a flavor, and one that nothing counts": ([{GPU: 2, HCA: 1}], [("fast", GPU)], [(GPU, "fast", 2), (HCA, "", 1)]),
    "one with a flavor, and one without": (
        [{GPU: 2, HCA: 1}], [("fast", GPU), ("", HCA)], [(GPU, "fast", 2), (HCA, "", 1)],
    ),
    "two with flavors, and one without": (
        [{GPU: 2, SLICE: 3, HCA: 1}],
        [("fast", GPU), ("fast", SLICE), ("", HCA)],
        [(GPU, "fast", 2), (SLICE, "fast", 3), (HCA, "", 1)],
    ),
    "a gang of both kinds of pods": (
        [{GPU: 2}, {HCA: 1}], [("fast", GPU), ("", HCA)], [(GPU, "fast", 2), (HCA, "", 1)],
    ),
    "no flavors at all": ([{GPU: 2, HCA: 1}], [("", GPU), ("", HCA)], [(GPU, "", 2), (HCA, "", 1)]),
}  # fmt: skip


@pytest.mark.parametrize("name", FLAVORED)
def test_each_device_is_metered_under_what_it_is(name: str) -> None:
    asked, lines, wanted = FLAVORED[name]
    tenant = Tenant("red", "c", shares={line: Share(8) for line in lines}, prefers={GPU: ("fast",)})
    flavors = tuple(Flavor("fast", resource, {"kind": "fast"}) for resource in (GPU, SLICE))
    node = Node("n1", {GPU: 8, HCA: 8, SLICE: 8, "cpu": 64_000, "pods": 100}, {"kind": "fast"})
    pods = tuple(
        Pod(f"u{number}", "bh-red-work", f"p{number}", asks | {"cpu": 1000}, Stage.WAITING, 1.0, "red",
            gang=Gang("g", len(asked)) if len(asked) > 1 else None)
        for number, asks in enumerate(asked)
    )  # fmt: skip
    decided = decide(Snapshot({"red": tenant}, (node,), pods, {"c": Rules(flavors=flavors)}), 10.0)
    meter = Meter(0)
    for admission in decided.admit:
        noted = patches.admission(admission, 0.001, "n1")["metadata"]["annotations"]
        asks = {resource: str(number) for resource, number in admission.pod.asks.items()}
        found = held_of(host_pod(annotations=noted, spec={"containers": [{"resources": {"limits": asks}}]}))
        assert found is not None
        meter.see(replace(found, uid=admission.pod.uid))
    tallies = [(tally.account.resource, tally.account.flavor, tally.idle // 1000) for tally in meter.count(1001)]
    assert sorted(tallies) == sorted(wanted)


def test_a_note_without_that_word_says_the_flavor_of_all_and_one_with_many_words_stays_short_enough_to_be_read() -> None:
    noted = {ledger.ADMITTED: ledger.write_admitted(ledger.Admitted(EPOCH, "n1", flavor="fast"))}
    found = held_of(host_pod(annotations=noted))
    assert found is not None
    assert (found.flavor, found.unflavored) == ("fast", ())
    many = tuple(f"{'d' * 200}.com/{number}" for number in range(100))
    written = ledger.write_admitted(ledger.Admitted(EPOCH, "n1", flavor="fast", unflavored=many))
    read = ledger.read_admitted({ledger.ADMITTED: written})
    assert read is not None
    assert 0 < len(read.unflavored) < len(many)
    assert set(read.unflavored) <= set(many)
