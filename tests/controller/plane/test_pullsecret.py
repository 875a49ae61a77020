"""Pull secrets of the host: what may be one, and what several come to."""

import json
from base64 import b64decode, b64encode
from typing import Any

import pytest

from controller.plane.pullsecret import TYPE, UnusableError, merged


def secret(name: str, auths: Any, **more: Any) -> dict[str, Any]:
    content = json.dumps({"auths": auths}).encode()
    data = {".dockerconfigjson": b64encode(content).decode()}
    return {"metadata": {"name": name}, "type": TYPE, "data": data} | more


def test_of_two_for_one_registry_the_first_counts() -> None:
    found = merged([secret("a", {"r": {"auth": "1"}}), secret("b", {"r": {"auth": "2"}, "s": {"auth": "3"}})])
    assert json.loads(b64decode(found)) == {"auths": {"r": {"auth": "1"}, "s": {"auth": "3"}}}


@pytest.mark.parametrize(
    "wrong",
    [
        secret("x", {}, type="kubernetes.io/service-account-token"),
        secret("x", {}, data=None),
        secret("x", {}, data={".dockerconfigjson": "%%"}),
        secret("x", {}, data={".dockerconfigjson": b64encode(b"[]").decode()}),
        secret("x", {}, data={".dockerconfigjson": b64encode(b"[" * 100_000).decode()}),
        secret("x", []),
        secret("x", {"r": {"auth": "x" * 300_000}}),
    ],
)
def test_a_malformed_secret_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(UnusableError, match="Secret x "):
        merged([wrong])


def test_many_that_are_too_much_together_are_refused() -> None:
    with pytest.raises(UnusableError, match="together"):
        merged([secret(str(number), {str(number): {"auth": "x" * 200_000}}) for number in range(2)])
