"""The identity provider of the tests issues tokens in each of its flows, and has other keys after a restart."""

import base64
import json
import urllib.error
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.dex import CONFIDENTIAL, PUBLIC, SECRET, Dex, running

pytestmark = pytest.mark.apiserver


@pytest.fixture(scope="module")
def dex(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dex]:
    with running(tmp_path_factory.mktemp("dex")) as started:
        yield started


def _claims(token: str) -> dict[str, Any]:
    body = token.split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))))


def test_a_password_gives_a_token(dex: Dex) -> None:
    claims = _claims(dex.password("ada"))
    assert (claims["iss"], claims["aud"], claims["email"], claims["email_verified"]) == (
        dex.url, PUBLIC, "ada@example.org", True,
    )  # fmt: skip
    assert _claims(dex.password("ada", CONFIDENTIAL, SECRET))["aud"] == CONFIDENTIAL


def test_an_unknown_user_gets_no_token(dex: Dex) -> None:
    with pytest.raises(urllib.error.HTTPError):
        dex.password("eve")


def test_a_browser_gives_a_token_with_groups(dex: Dex) -> None:
    claims = _claims(dex.browser("linus", ["research", "gpu"]))
    assert (claims["name"], claims["groups"]) == ("linus", ["research", "gpu"])


def test_the_device_flow_is_offered(dex: Dex) -> None:
    known = dex.get("/.well-known/openid-configuration")
    assert known["device_authorization_endpoint"] == f"{dex.url}/device/code"


def test_after_a_restart_its_keys_are_others(dex: Dex) -> None:
    before = {each["kid"] for each in dex.get("/keys")["keys"]}
    dex.kill()
    dex.start()
    assert before.isdisjoint(each["kid"] for each in dex.get("/keys")["keys"])
