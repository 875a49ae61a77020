"""Events of an audit trail: chosen, bounded, shown; whatever a tenant has written into them."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.auditevents import LONGEST_LINE, MOST_BYTES, Choice, Newest, read, row

# Eight of them make an event.
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda some: st.lists(some) | st.dictionaries(st.text(), some),
    max_leaves=10,
)
FIELDS = ("user", "impersonatedUser", "verb", "objectRef", "responseStatus", "sourceIPs", "requestURI", "stageTimestamp")


def line(number: int = 0, **more: Any) -> bytes:
    event: dict[str, Any] = {"kind": "Event", "apiVersion": "audit.k8s.io/v1", "auditID": str(number)}
    event |= {"stageTimestamp": f"2026-01-01T00:00:{number % 60:02}.000000Z", "verb": "get", "user": {"username": "ada"}}
    return json.dumps(event | more, separators=(",", ":")).encode() + b"\n"


def chosen(*lines: bytes, **choice: Any) -> list[str]:
    newest = Newest(Choice(**choice))
    newest.add(lines)
    return [json.loads(each)["auditID"] for each in newest.lines]


def test_events_are_chosen_by_user_verb_and_time() -> None:
    lines = [
        line(1),
        line(2, verb="delete"),
        line(3, user={"username": "eve"}),
        line(4, user={"username": "eve"}, impersonatedUser={"username": "ada"}),
        b"I0101 12:00:00.000000 1 server.go:1] hello\n",
    ]
    assert chosen(*lines) == ["1", "2", "3", "4"]
    assert chosen(*lines, user="ada") == ["1", "2", "4"]
    assert chosen(*lines, user="eve", verb="get") == ["3", "4"]
    assert chosen(*lines, since="2026-01-01T00:00:03") == ["3", "4"]


def test_the_newest_are_kept_and_the_others_counted() -> None:
    newest = Newest(Choice(most=3))
    newest.add(line(number) for number in range(10))
    assert [json.loads(each)["auditID"] for each in newest.lines] == ["7", "8", "9"]
    assert newest.left_out == 7
    heavy = Newest(Choice(most=10_000))
    heavy.add(line(number, requestObject="x" * (LONGEST_LINE // 2)) for number in range(200))
    assert sum(map(len, heavy.lines)) <= MOST_BYTES
    assert len(heavy.lines) + heavy.left_out == 200


def test_what_cannot_be_read_is_counted() -> None:
    newest = Newest(Choice())
    deep = line()[:-2] + b',"requestObject":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    number = line()[:-2] + b',"requestObject":' + b"9" * 5000 + b"}\n"
    newest.add([line(x="x" * LONGEST_LINE), line()[:-9], deep, number, line(5)])
    assert newest.large == 4
    assert len(newest.lines) == 1


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, JSON)))
def test_a_row_can_be_made_of_anything(event: dict[str, Any]) -> None:
    Choice("2026", "ada", "get").takes(event)
    assert len(row(event)) == 6
    assert all(len(each) <= 400 for each in row(event))


def test_a_row_says_who_did_what() -> None:
    target = {"resource": "pods", "subresource": "exec", "namespace": "a", "name": "b", "apiGroup": ""}
    event = read(
        line(1, objectRef=target, impersonatedUser={"username": "eve"}, responseStatus={"code": 403}, sourceIPs=["192.0.2.1"])
    )
    assert event is not None
    assert row(event) == ("2026-01-01T00:00:01", "ada as eve", "get", "pods/exec a/b", "403", "192.0.2.1")
    deployments = {"resource": "deployments", "apiGroup": "apps", "namespace": "a"}
    assert row({"objectRef": deployments})[3] == "deployments.apps a"
    assert row({"requestURI": "/metrics"})[3] == "/metrics"
