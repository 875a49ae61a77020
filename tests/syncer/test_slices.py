"""Which pods hold an address: what is told of a change, with an address that goes from pod to pod."""

from bulkhead.kube.objects import Key
from syncer.slices import Addresses
from syncer.translate.endpointslice import Holder
from syncer.translate.metadata import Identity

A, B = Key("work", "a"), Key("work", "b")


def holder(name: str, uid: str = "1") -> Holder:
    return Holder(name, uid, "node", Identity("Pod", "team", name, uid))


def test_only_what_is_news_is_told() -> None:
    known = Addresses()
    assert known.set(A, {"1.1.1.1": holder("a")}) == {"1.1.1.1"}
    assert known.set(A, {"1.1.1.1": holder("a")}) == frozenset()
    assert known.set(A, {"1.1.1.2": holder("a")}) == {"1.1.1.1", "1.1.1.2"}
    assert dict(known) == {"1.1.1.2": (holder("a"),)}
    assert known.set(A, {"1.1.1.2": holder("a", "2")}) == {"1.1.1.2"}
    assert known.set(A, {}) == {"1.1.1.2"}
    assert known.set(A, {}) == frozenset()
    assert dict(known) == {}


def test_an_address_may_be_told_of_its_next_pod_before_the_last_one_has_ended() -> None:
    known = Addresses()
    known.set(A, {"1.1.1.1": holder("a")})
    assert known.set(B, {"1.1.1.1": holder("b")}) == {"1.1.1.1"}
    assert known["1.1.1.1"] == (holder("a"), holder("b"))
    assert known.set(A, {}) == {"1.1.1.1"}
    assert known["1.1.1.1"] == (holder("b"),)
