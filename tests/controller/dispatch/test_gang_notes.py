"""What a gang was when it was admitted, as it is noted on its pods and read again."""

import json
from dataclasses import replace
from typing import Any

import pytest

from bulkhead.api import ledger
from bulkhead.ledger import read
from bulkhead.ledger.gangs import shape_of
from bulkhead.ledger.model import Admission, AdmittedGang, Gang, Pod, Topology
from controller.dispatch import patches
from tests.controller.dispatch.pods import host_pod

AT = 1_800_000_000.125
GANG = {"bulkhead.dev/gang": "g", "bulkhead.dev/gang-size": "2"}


def waits() -> Pod:
    found = read.pod_of(host_pod("a", node="", gated=True, notes=GANG))
    assert found is not None
    assert found.gang == Gang("g", 2)
    return found


def noted(admission: Admission) -> dict[str, Any]:
    body = patches.admission(admission, AT, "")
    return dict(body["metadata"]["annotations"])


def seen_again(admission: Admission) -> Pod:
    found = read.pod_of(host_pod("a", node="n1", notes=GANG | noted(admission)))
    assert found is not None
    return found


@pytest.mark.parametrize("topology", [None, Topology("bulkhead.dev/rack", required=True), Topology("zone", required=False)])
def test_a_gang_is_read_as_it_was_noted(topology: Topology | None) -> None:
    pod = waits()
    gang = AdmittedGang(AT, 2, topology, ((shape_of(pod), 2),), (("nvidia.com/gpu", 3),))
    found = seen_again(Admission(pod, "n1", gang=gang))
    assert (found.admitted_gang, found.shape, found.alone) == (gang, shape_of(pod), False)


def test_a_pod_beside_its_gang_says_so_and_one_of_no_gang_says_nothing() -> None:
    found = seen_again(Admission(waits(), "n1"))
    assert (found.admitted_gang, found.alone) == (None, True)
    single = replace(waits(), gang=None)
    assert "alone" not in json.loads(noted(Admission(single, "n1"))[ledger.ADMITTED])


def test_a_gang_of_many_shapes_leaves_a_note_that_can_be_read() -> None:
    pod = waits()
    members = (*((f"{number:032x}", 1) for number in range(4000)), (shape_of(pod), 2))
    found = seen_again(Admission(pod, "n1", gang=AdmittedGang(AT, 4002, None, members)))
    assert found.admitted_gang is not None
    # What most of its pods are is there; what is not comes back like any other pod.
    assert (shape_of(pod), 2) in found.admitted_gang.members
    assert len(found.admitted_gang.members) < len(members)


@pytest.mark.parametrize(
    "junk",
    [
        {"size": 0},
        {"size": True},
        {"size": "2"},
        {"size": 1 << 40},
        {"since": "yesterday"},
        {"since": 5},
        {"since": None},
    ],
)
def test_a_malformed_note_is_ignored(junk: dict[str, Any]) -> None:
    said = {"since": ledger.moment(AT), "size": 2, "shape": "s", "members": {"s": 2}} | junk
    assert (
        ledger.read_admitted({ledger.ADMITTED: json.dumps({"at": ledger.moment(AT), "node": "n", "gang": said})}).gang is None
    )  # type: ignore[union-attr]


def test_malformed_members_are_left_out() -> None:
    said = {"since": ledger.moment(AT), "size": 2, "members": {"a": 2, "b": "2", "c": True, "d": -1, "e": 1.5}, "borrowed": [1]}
    read_again = ledger.read_admitted({ledger.ADMITTED: json.dumps({"at": ledger.moment(AT), "node": "n", "gang": said})})
    assert read_again is not None
    assert read_again.gang == ledger.AdmittedGang(AT, 2, None, (("a", 2),))
