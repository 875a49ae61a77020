"""The places of waiting pods that tenants see: the ledger's order, counted over all tenants of a queue, bounded."""

import json

from bulkhead.api import ledger
from bulkhead.api.ledger import Place
from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import Gang, Snapshot
from bulkhead.ledger.waiting import places, waiting
from tests.ledger.test_cohorts import COHORT, node, of, pod, tenant


def found(snapshot: Snapshot) -> dict[str, dict[str, Place]]:
    return places(snapshot, decide(snapshot, 100.0))


def queue(*pods: str) -> Snapshot:
    """Two tenants of a cohort on a full node, one without a cohort; `a-1` is a pod of ada, `b-1` of bob, `c-1` of cleo."""
    full = pod("full", 8, of="ada", where="n0")
    owners = {"a": "ada", "b": "bob", "c": "cleo"}
    waits = tuple(pod(name, 4, of=owners[name[0]]) for name in pods)
    cleo = tenant("cleo", "", any=8)
    return of(tenant("ada", any=8), tenant("bob", any=8), cleo, nodes=(node("n0"),), pods=(full, *waits))


def test_places_count_the_workloads_of_all_tenants_of_a_queue() -> None:
    snapshot = queue("a-1", "b-1", "a-2", "c-1")
    decisions = decide(snapshot, 100.0)
    listed = [(workload.first.uid, workload.place) for workload in waiting(snapshot, decisions, COHORT)]
    assert [place for _, place in listed] == [1, 2, 3]
    noted = places(snapshot, decisions)
    assert {uid: place.number for tenant_ in ("ada", "bob") for uid, place in noted[tenant_].items()} == dict(listed)
    # A tenant without a cohort has a queue of its own, and no tenant's pod has a place in the note of another.
    assert {uid: place.number for uid, place in noted["cleo"].items()} == {"c-1": 1}
    assert all(set(noted["ada"]).isdisjoint(noted[other]) for other in ("bob", "cleo"))


def test_a_gang_has_one_place_and_what_is_not_in_the_queue_has_none() -> None:
    gang = Gang("pair", 2)
    pods = (pod("g-1", 8, gang=gang), pod("g-2", 8, gang=gang), pod("half", 1, gang=Gang("half", 2)))
    noted = found(of(tenant("ada", any=8), nodes=(node("n0"),), pods=(pod("full", 8, where="n0"), *pods)))["ada"]
    assert "half" not in noted
    assert len({place.number for uid, place in noted.items() if uid.startswith("g-")}) == 1


def test_the_note_has_a_bound_and_is_read_without_belief() -> None:
    snapshot = queue(*(f"a-{number:03}" for number in range(200)))
    noted = found(snapshot)["ada"]
    assert len(noted) == ledger.QUEUED_PODS_NOTED
    assert min(place.number for place in noted.values()) == 1
    text = ledger.write_queue({f"{number:036}": Place(number + 1, 1.8e9) for number in range(500)})
    assert len(text) < 4096
    assert len(ledger.read_queue({ledger.QUEUE: text})) == ledger.QUEUED_PODS_NOTED
    for junk in ("", "[]", "{", json.dumps({"a": 1, "b": [], "c": [0], "d": [True], "e": ["1"], "f": [-1, "x"], "g": None})):
        assert ledger.read_queue({ledger.QUEUE: junk}) == {}
    assert ledger.read_queue({ledger.QUEUE: '{"a":[2,"tomorrow"]}'}) == {"a": Place(2)}


def test_nothing_is_noted_where_no_pod_waits() -> None:
    assert set(map(bool, found(queue()).values())) == {False}
