"""What an API server would not start with is never rendered for one."""

from base64 import b64encode
from typing import Any

import pytest

from controller.pki.receivers import TYPE, ReceiverUnusableError, check_authorities, credential_of
from controller.shares import content
from controller.shares.spec import Item
from tests.kit.pki import Authority

AUTHORITY = Authority("receiver-ca")
CERT, KEY = AUTHORITY.issue("plane")
_, OTHER = AUTHORITY.issue("other")


def secret(type_: str = TYPE, **files: bytes) -> dict[str, Any]:
    named = {name.replace("_", "."): b64encode(value).decode() for name, value in files.items()}
    return {"type": type_, "metadata": {"name": "receiver"}, "data": named}


@pytest.mark.parametrize("files", [{"token": b"abc"}, {"token": b"abc\n"}, {"tls_crt": CERT, "tls_key": KEY}])
def test_credentials_that_are_taken(files: dict[str, bytes]) -> None:
    assert dict(credential_of(secret(**files))) == secret(**files)["data"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (secret("Opaque", token=b"abc"), "could be shared with tenants"),
        (secret(), "must have token, or tls.crt and tls.key, not nothing"),
        ({"type": TYPE, "data": "x"}, "must have token, or tls.crt and tls.key, not nothing"),
        (secret(token=b"abc", tls_crt=CERT, tls_key=KEY), "must have token, or"),
        (secret(tls_crt=CERT), "must have token, or"),
        (secret(token=b" \n"), "is empty"),
        (secret(token=b"a\nX-Header: b"), "no header can have"),
        (secret(token="t\u00f6".encode()), "no header can have"),
        (secret(token=b"a" * 20_000), "at most 16384"),
        ({"type": TYPE, "data": {"token": "!"}}, "must be base64"),
        (secret(tls_crt=CERT, tls_key=OTHER), "is not the key of"),
        (secret(tls_crt=b"x", tls_key=KEY), "cannot be read"),
        (secret(tls_crt=CERT, tls_key=b"-----BEGIN PRIVATE KEY-----"), "cannot be read"),
    ],
)
def test_credentials_that_are_not(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ReceiverUnusableError, match=why):
        credential_of(given)


@pytest.mark.parametrize("text", ["", "x", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----", "\u00e9"])
def test_authorities_that_are_none(text: str) -> None:
    check_authorities(AUTHORITY.pem.decode() * 2)
    with pytest.raises(ReceiverUnusableError, match="can be read"):
        check_authorities(text)


def test_what_is_a_receivers_is_never_shared_with_a_tenant() -> None:
    item = Item("Secret", "receiver")
    assert isinstance(content.content_of(item, secret(token=b"abc")), content.Unusable)
    # The positive control: of another type the same is.
    assert isinstance(content.content_of(item, secret("Opaque", token=b"abc")), content.Content)
