"""What a tenant's pods and Services take on the host: what is there stays, what comes on top or grows needs room."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.labels import VIRTUAL_NAME, VIRTUAL_NAMESPACE
from bulkhead.api.objects import Obj
from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, Meta
from syncer import metrics
from syncer.quota.extent import Extent, Limits
from syncer.translate import Reason, Untranslatable
from syncer.translate.metadata import NAMESPACE_HASH
from tests.kit.fakeclock import FakeClock

WEB = {NAMESPACE_HASH: "x", "app": "web"}
OTHER = {NAMESPACE_HASH: "x", "app": "other"}
FAR = 10**9
UNIT = 200  # bytes of one pod here


def key(name: str) -> Key:
    return Key("work", name)


def pod(size: int = UNIT, labels: dict[str, str] = WEB, phase: str = "Running") -> Obj:
    """A host pod of exactly this size as it is written."""
    made: Obj = {"metadata": {"labels": labels}, "spec": {"text": ""}, "status": {"phase": phase}}
    made["spec"]["text"] = "x" * (size - len(msgspec.json.encode(made)))
    return made


def service(ports: int, name: str = "web", selector: dict[str, str] = WEB) -> Obj:
    noted = {VIRTUAL_NAMESPACE: "team", VIRTUAL_NAME: name}
    return {"metadata": {"annotations": noted}, "spec": {"selector": selector, "ports": [{"port": n} for n in range(ports)]}}


def change(name: str, kind: Any = "added", labels: dict[str, str] | None = None) -> Change:
    return Change(kind, key(name), Meta(name=name, labels=labels))


class Bed:
    """A host whose cache shows what it is told to."""

    def __init__(self, pod_bytes: int = FAR, endpoints: int = FAR) -> None:
        self.clock = FakeClock()
        self.extent = Extent(Limits(pod_bytes, endpoints), self.clock)

    def pod(self, name: str, host: Obj) -> None:
        self.extent.pod_seen(change(name, labels=host["metadata"]["labels"]), host, len(msgspec.json.encode(host)))

    def no_pod(self, name: str) -> None:
        self.extent.pod_seen(change(name, "deleted"), None, 0)

    def service(self, name: str, host: Obj | None) -> None:
        self.extent.service_seen(change(name, "added" if host else "deleted"), host)

    def wants(self, name: str, host: Obj, *, is_there: bool = False) -> None:
        self.extent.claim_service(key(name), host, is_there=is_there)

    def has_room(self, name: str, host: Obj) -> bool:
        try:
            self.extent.claim_pod(key(name), host)
        except Untranslatable:
            return False
        return True


@pytest.fixture(params=["bytes", "endpoints"])
def bed(request: pytest.FixtureRequest) -> Bed:
    """Room for three pods, by either bound."""
    return Bed(pod_bytes=3 * UNIT) if request.param == "bytes" else Bed(pod_bytes=FAR, endpoints=3)


def full(bed: Bed) -> None:
    bed.service("s", service(1))
    for name in "abc":
        bed.pod(name, pod())


# -- both bounds alike


def test_a_pod_that_comes_on_top_needs_room_and_one_that_went_frees_it(bed: Bed) -> None:
    full(bed)
    assert not bed.has_room("d", pod())
    bed.no_pod("a")
    assert bed.has_room("d", pod())
    assert not bed.has_room("e", pod()), "what was claimed and is not seen yet counts as well"


def test_creates_that_the_cache_does_not_show_yet_count(bed: Bed) -> None:
    bed.service("s", service(1))
    assert [bed.has_room(name, pod()) for name in "abcd"] == [True, True, True, False]
    bed.extent.drop_pod(key("b"))
    assert bed.has_room("d", pod())


def test_a_claim_that_never_showed_is_forgotten_after_a_minute(bed: Bed) -> None:
    bed.service("s", service(1))
    assert all(bed.has_room(name, pod()) for name in "abc")
    bed.pod("a", pod())
    bed.clock.advance(59)
    assert not bed.has_room("d", pod())
    bed.clock.advance(1)
    assert bed.has_room("d", pod())
    assert bed.has_room("e", pod())
    assert not bed.has_room("f", pod()), "what was seen stays"


def test_what_is_there_stays_however_much_it_is(bed: Bed) -> None:
    """After an upgrade a tenant may have more than it may get: all of it may be written again, and less."""
    full(bed)
    for name in "defg":
        bed.pod(name, pod())
    assert bed.has_room("a", pod())
    bed.extent.claim_growth(key("b"), WEB, 0)
    bed.extent.claim_growth(key("b"), WEB, -10)
    bed.wants("s", service(1), is_there=True)
    assert not bed.has_room("h", pod())
    for name in "defg":
        bed.no_pod(name)
        assert not bed.has_room("h", pod())
    bed.no_pod("a")
    assert bed.has_room("h", pod())


def test_limits_may_change_while_it_runs(bed: Bed) -> None:
    full(bed)
    bed.extent.adopt(Limits(4 * UNIT, 4))
    assert bed.has_room("d", pod())
    assert metrics.POD_BYTES_LIMIT._value.get() == 4 * UNIT
    assert metrics.SERVICE_ENDPOINTS_LIMIT._value.get() == 4
    bed.extent.adopt(Limits(UNIT, 1))
    assert bed.has_room("d", pod())
    assert not bed.has_room("e", pod())


# -- bytes of pods


def test_a_pod_that_ended_takes_its_bytes_until_it_is_deleted() -> None:
    bed = Bed(pod_bytes=3 * UNIT)
    for name in "abc":
        bed.pod(name, pod(phase="Succeeded"))
    with pytest.raises(Untranslatable) as refused:
        bed.extent.claim_pod(key("d"), pod())
    assert refused.value.reason is Reason.QUOTA_EXCEEDED
    assert str(refused.value) == (
        "pods may have 600 bytes together on the host, those that have ended among them: this one would have 200, all others "
        "have 600. Delete pods that have ended, or move text into ConfigMaps. The pod starts when enough is free."
    )
    bed.no_pod("b")
    assert bed.has_room("d", pod())


def test_a_pod_that_is_there_grows_within_the_room_alone() -> None:
    bed = Bed(pod_bytes=3 * UNIT)
    bed.pod("a", pod())
    bed.pod("b", pod())
    bed.extent.claim_growth(key("a"), WEB, UNIT)
    with pytest.raises(Untranslatable, match="The pod changes on the host when enough is free"):
        bed.extent.claim_growth(key("b"), WEB, 1)
    bed.pod("a", pod(UNIT + 50))
    bed.extent.claim_growth(key("b"), WEB, UNIT - 50)
    assert not bed.has_room("c", pod())


# -- endpoints of Services


def test_ports_count_for_each_pod_and_the_service_that_asks_for_too_much_is_told() -> None:
    bed = Bed(endpoints=20_000)
    for number in range(1000):
        bed.pod(f"p{number}", pod())
    bed.wants("a", service(15))
    with pytest.raises(Untranslatable) as refused:
        bed.wants("b", service(250))
    assert (refused.value.reason, refused.value.field) == (Reason.QUOTA_EXCEEDED, "spec.ports")
    assert refused.value.message == (
        "Services may have 20000 endpoints together, each pod counted once for each port: this one would have 250000 "
        "(250 ports, 1000 pods), all others have 15000. Use fewer ports, select fewer pods, or delete Services. "
        "The Service is mirrored when enough is free."
    )
    bed.wants("b", service(5))
    bed.service("a", service(15))
    with pytest.raises(Untranslatable, match="On the host it stays as it is"):
        bed.wants("a", service(16), is_there=True)
    bed.service("b", None)
    bed.wants("a", service(20), is_there=True)


def test_services_of_ordinary_tenants_have_room() -> None:
    """A thousand pods behind three ports each, a few hundred Services beside, a headless one over all of them."""
    bed = Bed(endpoints=20_000)
    for number in range(1000):
        bed.pod(f"p{number}", pod(labels=WEB | {"part": str(number % 50)}))
    for number in range(50):
        bed.wants(f"s{number}", service(3, selector=WEB | {"part": str(number)}))
    for number in range(199):
        bed.wants(f"t{number}", service(30, selector=OTHER))
    bed.wants("headless", service(0))
    assert metrics.SERVICE_ENDPOINTS._value.get() == 3000 + 199 * 30 + 1000


def test_services_made_before_their_pods_do_not_get_round_it() -> None:
    bed = Bed(endpoints=100)
    bed.wants("a", service(40, name="large"))
    bed.wants("b", service(5, name="small"))
    assert bed.has_room("p1", pod())
    assert bed.has_room("p2", pod())
    with pytest.raises(Untranslatable) as refused:
        bed.extent.claim_pod(key("p3"), pod())
    assert refused.value.message == (
        "Services may have 100 endpoints together, each pod counted once for each port: with this pod they would have 135. "
        "Of those that select it, team/large has most ports (40): use fewer ports, or delete Services. "
        "The pod starts when enough is free."
    )
    assert bed.has_room("p3", pod(labels=OTHER)), "a pod that no Service selects is not an endpoint"


def test_labels_that_lead_a_running_pod_to_services_need_room_too() -> None:
    bed = Bed(endpoints=100)
    bed.service("a", service(60))
    bed.pod("p1", pod())
    bed.pod("p2", pod(labels=OTHER))
    with pytest.raises(Untranslatable, match=r"Of those that select it, team/web has most ports \(60\)"):
        bed.extent.claim_growth(key("p2"), WEB, 0)
    bed.extent.claim_growth(key("p1"), OTHER, 0)
    bed.extent.claim_growth(key("p2"), WEB, 0)


def test_a_pod_that_ended_is_an_endpoint_of_nothing() -> None:
    bed = Bed(endpoints=2)
    bed.service("s", service(1))
    bed.pod("a", pod())
    bed.pod("b", pod(phase="Failed"))
    assert bed.has_room("c", pod())
    bed.extent.claim_growth(key("b"), WEB, 0)
    assert not bed.has_room("d", pod())


def test_a_service_that_the_host_refused_is_as_it_was() -> None:
    bed = Bed(endpoints=10)
    bed.service("a", service(2))
    bed.wants("a", service(8), is_there=True)
    bed.extent.drop_service(key("a"))
    bed.wants("b", service(8))
    bed.extent.drop_service(key("b"))
    bed.extent.drop_service(key("b"))
    bed.wants("c", service(8))
    bed.clock.advance(60)
    bed.wants("d", service(8))


def test_a_start_in_any_order_finds_the_same() -> None:
    there = [("service", f"s{number}", service(number)) for number in range(5)]
    there += [("pod", f"p{number}", pod(labels=WEB if number % 2 else OTHER)) for number in range(9)]
    found = set()
    for order in (there, there[::-1], there[::2] + there[1::2]):
        bed = Bed()
        for kind, name, host in order:
            (bed.service if kind == "service" else bed.pod)(name, host)
        found.add((metrics.SERVICE_ENDPOINTS._value.get(), metrics.POD_BYTES._value.get()))
    assert len(found) == 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["pod", "grow", "service", "pod gone", "service gone", "seen"]),
            st.sampled_from("abcdef"),
            st.integers(0, 40),
            st.sampled_from([WEB, OTHER]),
        ),
        max_size=60,
    )
)
def test_whatever_is_asked_for_nothing_is_ever_let_beyond_the_limits(steps: list[tuple[str, str, int, dict[str, str]]]) -> None:
    """The host writes what has room and shows it at some time; no order of that leads beyond the limits."""
    bed = Bed(pod_bytes=600, endpoints=60)
    pods, services = dict[str, Obj](), dict[str, Obj]()
    for step, name, number, labels in steps:
        try:
            match step:
                case "pod":
                    made = pod(150 + number, labels)
                    bed.extent.claim_pod(key(name), made)
                    pods[name] = made
                case "grow" if name in pods:
                    made = pod(len(msgspec.json.encode(pods[name])) + number, labels)
                    grows = len(msgspec.json.encode(made)) - len(msgspec.json.encode(pods[name]))
                    bed.extent.claim_growth(key(name), labels, grows)
                    pods[name] = made
                case "service":
                    bed.wants(name, service(number, name, labels), is_there=name in services)
                    services[name] = service(number, name, labels)
                case "pod gone":
                    pods.pop(name, None)
                    bed.no_pod(name)
                case "service gone":
                    services.pop(name, None)
                    bed.service(name, None)
                case "seen" if name in pods:
                    bed.pod(name, pods[name])
        except Untranslatable:
            pass
        assert sum(len(msgspec.json.encode(host)) for host in pods.values()) <= 600
        assert metrics.SERVICE_ENDPOINTS._value.get() <= 60
