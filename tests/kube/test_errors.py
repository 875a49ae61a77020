"""What an error says when the answer holds no Status object."""

import pytest

from bulkhead.kube.errors import from_response

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
