"""What an error says when the answer holds no Status object, and what a 404 proves."""

from typing import Any

import msgspec
import pytest

from bulkhead.kube.errors import NotFound, NotServed, from_response

CHECKS = b"[+]ping ok\n[-]etcd failed: reason withheld\n[-]poststarthook/rbac/bootstrap-roles failed\nreadyz check failed\n"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (CHECKS, "HTTP 500: not ready: etcd, poststarthook/rbac/bootstrap-roles"),
        (b"404 page not found\n", "HTTP 500: 404 page not found"),
        (b"", "HTTP 500 without a message"),
        (b"\x1b[31mred\x00\n", "HTTP 500: [31mred"),
        (b"\xff" * 100_000, "HTTP 500: " + "�" * 200),
        (b'{"kind": "Pod"}', 'HTTP 500: {"kind": "Pod"}'),
    ],
    ids=["health checks", "text", "nothing", "control characters", "endless", "another object"],
)
def test_an_answer_without_a_status_is_told_in_its_own_words(body: bytes, message: str) -> None:
    assert from_response(500, body).message == message


@pytest.mark.parametrize(
    ("details", "kind"),
    [
        ({"name": "web", "kind": "pods"}, NotFound),
        ({}, NotServed),
        (None, NotServed),
        ({"name": ""}, NotServed),
        ([], NotServed),
    ],
)
def test_only_an_answer_that_names_what_is_missing_says_that_it_is(details: Any, kind: type[NotFound]) -> None:
    body = msgspec.json.encode({"kind": "Status", "code": 404, "reason": "NotFound", "message": "", "details": details})
    assert type(from_response(404, body)) is kind
    assert type(from_response(404, b"404 page not found")) is NotServed
