"""What is taken of an identity provider's answers, and what is refused with which cause."""

import base64
import json
from typing import Any

import pytest

from bulkhead.api.providers import Source
from controller.decide.keysets import Fault, keys_address, read_keys

SOURCE = Source("https://login.example.org/x")
RSA = {"kty": "RSA", "kid": "1", "alg": "RS256", "use": "sig", "e": "AQAB"}
LONG, SHORT = (base64.urlsafe_b64encode(b"\xff" * length).rstrip(b"=").decode() for length in (256, 128))
EC = {"kty": "EC", "kid": "2", "crv": "P-256", "x": "eA", "y": "eQ"}


def keys(*listed: Any) -> bytes:
    return json.dumps({"keys": list(listed)}).encode()


def test_the_discovery_document_says_where_the_keys_are() -> None:
    document = {"issuer": SOURCE.url, "jwks_uri": "https://keys.example.org/k", "token_endpoint": "x"}
    assert keys_address(json.dumps(document).encode(), SOURCE) == "https://keys.example.org/k"


DOCUMENTS: dict[str, tuple[Any, str]] = {
    "another issuer": ({"issuer": f"{SOURCE.url}/", "jwks_uri": "https://k"}, "its issuer is"),
    "no issuer": ({"jwks_uri": "https://k"}, "its issuer is nothing"),
    "keys in the clear": ({"issuer": SOURCE.url, "jwks_uri": "http://k"}, "https address"),
    "keys in a file": ({"issuer": SOURCE.url, "jwks_uri": "file:///etc/shadow"}, "https address"),
    "keys nowhere": ({"issuer": SOURCE.url}, "https address"),
    "keys at a broken address": ({"issuer": SOURCE.url, "jwks_uri": "https://[1:::2]/"}, "https address"),
    # It would be quoted in the status of each tenant, and no encoder takes it.
    "keys at half of a pair": ({"issuer": SOURCE.url, "jwks_uri": "https://k/\ud800"}, "https address"),
    "keys behind a line break": ({"issuer": SOURCE.url, "jwks_uri": "https://k/\nx"}, "https address"),
    "a list": ([], "not a discovery document"),
    "nothing": (None, "not a discovery document"),
    "a long name": ({"issuer": "x" * 5000}, "…"),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_that_is_not_the_providers_own_is_refused(name: str) -> None:
    document, word = DOCUMENTS[name]
    with pytest.raises(Fault, match=word) as refused:
        keys_address(json.dumps(document).encode(), SOURCE)
    assert len(str(refused.value)) < 300
    assert str(refused.value).encode()


@pytest.mark.parametrize("raw", [b"", b"<html>", b"\xff", b"[" * 100_000])
def test_malformed_json_is_refused(raw: bytes) -> None:
    with pytest.raises(Fault, match="discovery document"):
        keys_address(raw, SOURCE)


def test_an_address_that_no_api_server_would_take_is_refused() -> None:
    broken = Source("https://[1:::2]/x", discovery_url="https://login.example.org")
    with pytest.raises(Fault, match="not an https address"):
        keys_address(json.dumps({"issuer": broken.url, "jwks_uri": "https://k"}).encode(), broken)


def test_of_keys_the_public_parts_are_kept_in_one_order() -> None:
    rsa = RSA | {"n": LONG}
    private = rsa | {"d": "secret", "p": "secret", "x5c": ["MIIB"], "x5u": "https://elsewhere"}
    found = read_keys(keys(EC, private))
    assert "secret" not in found
    assert "x5" not in found
    assert found == read_keys(keys(rsa, EC))
    assert json.loads(found) == {"keys": [rsa, EC | {"use": "sig"}]}


UNFIT = {
    "one that both sides share": {"kty": "oct", "k": "c2VjcmV0"},
    "one for encryption": RSA | {"n": LONG, "use": "enc"},
    "a short one": RSA | {"n": SHORT},
    "one padded to length": RSA | {"n": base64.urlsafe_b64encode(b"\0" * 255 + b"\x01").decode()},
    "one without numbers": {"kty": "RSA", "kid": "1"},
    "one of no curve": EC | {"crv": "P-1"},
    "one with a long name": RSA | {"n": LONG, "kid": "x" * 5000},
    "a text": "key",
    "one with a number for a text": RSA | {"n": 7},
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_key_that_does_not_do_is_left_out(name: str) -> None:
    assert len(json.loads(read_keys(keys(UNFIT[name], EC)))["keys"]) == 1
    with pytest.raises(Fault, match="no key for RSA"):
        read_keys(keys(UNFIT[name]))


def test_a_flood_of_keys_is_refused() -> None:
    with pytest.raises(Fault, match="at most 32 keys, not 33"):
        read_keys(keys(*(EC | {"kid": str(number)} for number in range(33))))
