"""To which pod a sample belongs: never to a pod that did not have the device when the value was measured."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bulkhead.gpus import fields
from bulkhead.gpus.attribution import Attributed, Device, Dropped, Name, Node, Pod, State, Verdict, attribute
from bulkhead.gpus.exposition import Sample
from bulkhead.gpus.fields import ENERGY, POWER, UTILISATION, XID

RED, BLUE = Name("bh-red-work", "train"), Name("bh-blue-work", "serve")
PODS = {RED: Pod("uid-red", 1), BLUE: Pod("uid-blue", 1)}
SETTLE = 60.0


def sample(field: str, value: float, pod: Name | None, gpu: str = "GPU-0", **labels: str) -> Sample:
    """One line of an exporter."""
    named = {"namespace": pod.namespace, "pod": pod.name, "container": "main"} if pod is not None else {}
    device = {"gpu": gpu[-1], "UUID": gpu, "Hostname": "node-1", "modelName": "NVIDIA H100"}
    return Sample(field, {**device, **named, **labels}, value)


@dataclass
class Exporter:
    """Judges pages of one node, one after another."""

    gpus: int = 1
    shares: bool = False
    settle: float = 0.0
    state: State = field(default_factory=dict)
    now: float = 1000.0

    def page(
        self,
        *samples: Sample,
        after: float = 30.0,
        before: Mapping[Name, Pod] = PODS,
        later: Mapping[Name, Pod] | None = None,
    ) -> Verdict:
        verdict = attribute(
            self.state,
            samples,
            pods=(before, before if later is None else later),
            node=Node(self.gpus, self.shares),
            now=self.now,
            settle_seconds=self.settle,
        )
        self.state = verdict.state
        self.now += after
        return verdict


def values(verdict: Verdict) -> dict[tuple[str, str], float]:
    return {(kept.uid, kept.sample.name): kept.sample.value for kept in verdict.samples}


def test_a_settled_pods_sample_is_its_own_and_keeps_the_devices_labels_alone() -> None:
    verdict = Exporter().page(sample(UTILISATION, 87, RED, secret="host-only", Hostname="node-1"))
    assert verdict.samples == (
        Attributed(
            "uid-red",
            RED,
            "main",
            Sample(UTILISATION, {"gpu": "0", "UUID": "GPU-0", "modelName": "NVIDIA H100"}, 87),
        ),
    )


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ({"before": {}}, Dropped.UNKNOWN),
        ({"later": {}}, Dropped.CHANGED),
        ({"later": {RED: Pod("another", 1)}}, Dropped.CHANGED),
    ],
)
def test_a_pod_that_is_not_the_same_before_and_after_the_scrape_gets_nothing(
    case: dict[str, Mapping[Name, Pod]], expected: Dropped
) -> None:
    verdict = Exporter().page(sample(UTILISATION, 87, RED), **case)  # type: ignore[arg-type]
    assert not verdict.samples
    assert verdict.dropped == {expected: 1}


def test_a_device_that_two_pods_claim_belongs_to_none() -> None:
    verdict = Exporter(gpus=1).page(sample(UTILISATION, 87, RED), sample(POWER, 300, BLUE))
    assert not verdict.samples
    assert verdict.dropped == {Dropped.SHARED: 2}


@pytest.mark.parametrize("label", fields.SHARED_LABELS)
def test_a_device_that_a_label_calls_shared_belongs_to_none(label: str) -> None:
    assert Exporter().page(sample(UTILISATION, 87, RED, **{label: "1"})).dropped == {Dropped.SHARED: 1}


def test_a_node_that_slices_time_or_offers_more_than_its_page_lists_gives_nothing() -> None:
    assert Exporter(shares=True).page(sample(UTILISATION, 87, RED)).dropped == {Dropped.SHARED: 1}
    assert Exporter(gpus=4).page(sample(UTILISATION, 87, RED)).dropped == {Dropped.SHARED: 1}
    # The control: the same page, and the node offers what it lists.
    assert Exporter(gpus=1).page(sample(UTILISATION, 87, RED)).samples


def test_a_device_of_unreadable_lines_belongs_to_none_and_hides_no_other() -> None:
    lines = [sample(UTILISATION, 87, RED, "GPU-0"), sample(UTILISATION, 12, BLUE, "GPU-1")]

    def judged(*page: Sample, unreadable: Iterable[Mapping[str, str]] = ()) -> Verdict:
        return attribute({}, page, unreadable=unreadable, pods=(PODS, PODS), node=Node(2), now=0.0, settle_seconds=0.0)

    # The node offers two GPUs, so a page that lists one says that several pods share it.
    assert judged(lines[1]).dropped == {Dropped.SHARED: 1}
    verdict = judged(lines[1], unreadable=[{"UUID": "GPU-0"}, {"gpu": "0"}])
    assert (values(verdict), verdict.dropped) == ({("uid-blue", UTILISATION): 12}, {})
    verdict = judged(*lines, unreadable=[{"UUID": "GPU-0"}])
    assert (values(verdict), verdict.dropped) == ({("uid-blue", UTILISATION): 12}, {Dropped.SHARED: 1})


def test_a_pod_that_a_page_gives_more_devices_than_it_asked_for_gets_none() -> None:
    page = [sample(UTILISATION, 87, RED, gpu) for gpu in ("GPU-0", "GPU-1")]
    assert Exporter(gpus=2).page(*page).dropped == {Dropped.TOO_MANY: 2}
    claimed = {RED: Pod("uid-red", None)}
    assert len(Exporter(gpus=2).page(*page, before=claimed).samples) == 2


def test_a_new_holder_waits_until_the_exporter_has_measured_again() -> None:
    exporter = Exporter(settle=SETTLE)
    shown = [values(exporter.page(sample(UTILISATION, 87, RED))) for _ in range(4)]
    assert shown == [{}, {}, {("uid-red", UTILISATION): 87}, {("uid-red", UTILISATION): 87}]
    # It changes hands, and red's value is still what the exporter has.
    assert exporter.page(sample(UTILISATION, 87, BLUE)).dropped == {Dropped.SETTLING: 1}
    # Coming back is a new beginning too.
    assert exporter.page(sample(UTILISATION, 99, RED)).dropped == {Dropped.SETTLING: 1}


def test_a_pod_of_the_same_name_is_another_pod() -> None:
    exporter = Exporter(settle=SETTLE)
    for _ in range(3):
        exporter.page(sample(UTILISATION, 87, RED))
    again = {RED: Pod("uid-red-2", 1)}
    assert exporter.page(sample(UTILISATION, 87, RED), before=again).dropped == {Dropped.SETTLING: 1}


def test_counters_begin_with_the_pod_and_show_nothing_of_those_before() -> None:
    exporter = Exporter()
    assert values(exporter.page(sample(ENERGY, 5_000, RED))) == {("uid-red", ENERGY): 0}
    assert values(exporter.page(sample(ENERGY, 5_700, RED))) == {("uid-red", ENERGY): 700}
    assert values(exporter.page(sample(ENERGY, 9_000, BLUE))) == {("uid-blue", ENERGY): 0}
    assert values(exporter.page(sample(ENERGY, 9_500, RED))) == {("uid-red", ENERGY): 0}
    # The driver was loaded again: a counter may fall, and then all of it is of this pod's time.
    assert values(exporter.page(sample(ENERGY, 40, RED))) == {("uid-red", ENERGY): 40}


def test_an_error_of_before_the_pod_is_not_shown_and_its_own_is() -> None:
    exporter = Exporter()
    for _ in range(2):
        assert values(exporter.page(sample(XID, 79, RED))) == {("uid-red", XID): 0}
    assert values(exporter.page(sample(XID, 31, RED))) == {("uid-red", XID): 31}
    assert values(exporter.page(sample(XID, 79, RED))) == {("uid-red", XID): 79}
    assert values(exporter.page(sample(XID, 79, BLUE))) == {("uid-blue", XID): 0}


def test_of_a_mig_instance_only_what_is_measured_for_it_alone_is_shown() -> None:
    slices = {"GPU_I_ID": "3", "GPU_I_PROFILE": "1g.10gb"}
    verdict = Exporter().page(
        sample(fields.ENGINE_ACTIVE, 0.5, RED, **slices),
        sample(fields.MEMORY_USED, 900, RED, **slices),
        sample(POWER, 300, RED, **slices),
        sample(XID, 13, RED, **slices),
        sample(fields.TEMPERATURE, 60, RED, **slices),
    )
    assert {kept.sample.name for kept in verdict.samples} == {fields.ENGINE_ACTIVE, fields.MEMORY_USED}
    assert verdict.dropped == {Dropped.BOARD: 3}
    assert verdict.samples[0].sample.labels["GPU_I_ID"] == "3"


def test_instances_of_one_board_belong_to_their_own_pods() -> None:
    verdict = Exporter(gpus=2).page(
        sample(fields.ENGINE_ACTIVE, 0.5, RED, GPU_I_ID="1"), sample(fields.ENGINE_ACTIVE, 0.9, BLUE, GPU_I_ID="2")
    )
    assert values(verdict) == {("uid-red", fields.ENGINE_ACTIVE): 0.5, ("uid-blue", fields.ENGINE_ACTIVE): 0.9}


def test_a_page_that_fails_keeps_what_counters_began_with_and_a_pod_that_went_is_forgotten() -> None:
    exporter = Exporter()
    exporter.page(sample(ENERGY, 5_000, RED))
    exporter.page()
    assert values(exporter.page(sample(ENERGY, 5_700, RED))) == {("uid-red", ENERGY): 700}
    exporter.page(before={})
    assert not exporter.state


# -- handovers

TENANTS = ("red", "blue", "green")
COLLECT = 30.0  # what the exporter waits between two measurements


@dataclass
class World:
    """One device, its holders in truth, and an exporter that measures seldom, averages, and labels late."""

    spans: list[tuple[float, float, str]] = field(default_factory=list)  # from, to, holder's UID

    def holders(self, since: float, until: float) -> set[str]:
        return {uid for start, end, uid in self.spans if start < until and end > since}

    def holder(self, at: float) -> str:
        return next((uid for start, end, uid in self.spans if start <= at < end), "")


@st.composite
def worlds(draw: st.DrawFn) -> World:
    world = World()
    at = 0.0
    for number in range(draw(st.integers(2, 6))):
        at += draw(st.sampled_from([0.0, 0.5, 3.0, 40.0]))
        end = at + draw(st.sampled_from([1.0, 20.0, 45.0, 90.0, 200.0]))
        # A StatefulSet's pods have the same name again, a tenant's next pod may have another.
        world.spans.append((at, end, f"{draw(st.sampled_from(TENANTS))}-{number}"))
        at = end
    return world


def name_of(uid: str) -> Name:
    return Name(f"bh-{uid.partition('-')[0]}-work", "train")


def known(world: World, at: float, lag: float) -> dict[Name, Pod]:
    """The pods as a watch shows them that is `lag` behind; a pod whose end it has not seen is still there."""
    uid = world.holder(max(at - lag, 0.0))
    return {name_of(uid): Pod(uid, 1)} if uid else {}


def scrapes(world: World, draw: Callable[[st.SearchStrategy[float]], float]) -> Iterator[tuple[float, Verdict, set[str]]]:
    state: State = {}
    end = world.spans[-1][1]
    at = 0.0
    while at < end:
        at += draw(st.sampled_from([5.0, 15.0, 30.0]))
        measured = at - draw(st.floats(0.0, COLLECT))
        truth = world.holders(measured - COLLECT, measured)
        # The label names the holder now, or the one a moment ago.
        labelled = world.holder(at - draw(st.sampled_from([0.0, 0.0, 1.0])))
        lag = draw(st.sampled_from([0.0, 0.5, 2.0]))
        lines = [sample(UTILISATION, 50, name_of(labelled) if labelled else None)]
        verdict = attribute(
            state,
            lines,
            pods=(known(world, at, lag), known(world, at + 3.0, lag)),
            node=Node(1),
            now=at,
            settle_seconds=SETTLE,
        )
        state = verdict.state
        yield at, verdict, truth


@settings(deadline=None)
@given(st.data())
def test_no_value_of_one_holder_is_shown_to_another_over_any_handovers(data: st.DataObject) -> None:
    world = data.draw(worlds())
    for _, verdict, truth in scrapes(world, data.draw):
        for kept in verdict.samples:
            assert truth == {kept.uid}, f"{kept.uid} is shown what {truth} did"


def test_a_long_holder_is_shown_in_that_world() -> None:
    world = World([(0.0, 400.0, "red-0")])
    shown: list[Iterable[Attributed]] = []

    state: State = {}
    for at in range(30, 390, 30):
        pods = known(world, at, 0.0)
        verdict = attribute(
            state, [sample(UTILISATION, 50, name_of("red-0"))], pods=(pods, pods), node=Node(1), now=at, settle_seconds=SETTLE
        )
        state = verdict.state
        shown.append(verdict.samples)
    assert [bool(samples) for samples in shown] == [False, False, *[True] * 10]


def test_devices_are_told_apart_by_uuid_and_instance() -> None:
    verdict = Exporter(gpus=2).page(sample(UTILISATION, 1, RED, "GPU-0"), sample(UTILISATION, 2, BLUE, "GPU-1"))
    assert set(verdict.state) == {Device("GPU-0"), Device("GPU-1")}
    assert values(verdict) == {("uid-red", UTILISATION): 1, ("uid-blue", UTILISATION): 2}
