"""Objects in a real S3 endpoint and in a directory: whole or not at all, and every fault with words that say what to do."""

import os
import ssl
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import certifi
import pytest

from bulkhead.snapshots.place import Place
from bulkhead.snapshots.target import AbsentError, PresentError, Target, TargetError, TooLargeError
from tests.kit.bucket import KEY, Bucket, bucket


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with bucket(tmp_path_factory.mktemp("s3")) as made:
        yield made


@pytest.fixture(params=["s3", "file"])
def target(request: pytest.FixtureRequest, endpoint: Bucket, tmp_path: Path) -> Target:
    return endpoint.target(prefix="some/prefix") if request.param == "s3" else Target(Place("file", str(tmp_path)))


async def stream(pieces: int, fails: bool = False) -> AsyncGenerator[bytes, None]:
    for number in range(pieces):
        yield bytes([number % 256]) * 300_000
    if fails:
        raise RuntimeError("the source died")


async def test_streams_of_any_size_come_back(target: Target) -> None:
    for pieces in (0, 1, 100):
        await target.put("a/b", stream(pieces))
        back = b"".join([chunk async for chunk in target.chunks("a/b")])
        assert len(back) == pieces * 300_000 == await target.size("a/b")
    assert back[:1] + back[-1:] == b"\x00c"
    await target.put_small("a/b", b"small")
    assert await target.small("a/b") == b"small"
    await target.delete("a/b")
    await target.delete("a/b")
    assert await target.size("a/b") is None
    with pytest.raises(AbsentError, match="a/b"):
        await target.small("a/b")


@pytest.mark.parametrize("pieces", [0, 3, 100])
async def test_an_upload_that_breaks_off_leaves_nothing(target: Target, pieces: int) -> None:
    with pytest.raises(RuntimeError, match="the source died"):
        await target.put("torn", stream(pieces, fails=True))
    assert await target.size("torn") is None


async def test_what_is_new_replaces_nothing(tmp_path: Path) -> None:
    target = Target(Place("file", str(tmp_path)))
    await target.put_small("a/b", b"first", new=True)
    with pytest.raises(PresentError, match="cannot store a/b"):
        await target.put_small("a/b", b"second", new=True)
    assert await target.small("a/b") == b"first"
    await target.put_small("a/b", b"third")
    assert await target.small("a/b") == b"third"


async def test_what_is_too_large_to_be_small_is_not_read_whole(target: Target) -> None:
    await target.put("large", stream(10))
    with pytest.raises(TooLargeError, match="larger than 1000"):
        await target.small("large", 1000)


async def test_a_bucket_that_refuses_says_so_without_the_key(endpoint: Bucket) -> None:
    stranger = Target(endpoint.place(), KEY | {"access_key_id": "somebodyelse"})
    for refused in (stranger, endpoint.target(root="no-such-bucket")):
        with pytest.raises(TargetError, match="cannot store x at s3://") as told:
            await refused.put("x", stream(40))
        assert "\n" not in str(told.value)
        assert KEY["secret_access_key"] not in str(told.value)


def test_a_directory_that_is_not_there_is_said() -> None:
    with pytest.raises(TargetError, match="mounted"):
        Target(Place("file", "/no/such/directory"))


async def test_credentials_come_from_the_environment(endpoint: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY["secret_access_key"])
    made = Target(endpoint.place())
    await made.put_small("by-environment", b"x")
    assert await made.small("by-environment") == b"x"


AUTHORITIES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
S3 = Place("s3", "backups", endpoint="https://s3.example.org")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A system without certificates of authorities, as the controller's image is."""
    for name in AUTHORITIES:
        monkeypatch.setenv(name, "")  # so that what a test sets does not stay
        monkeypatch.delenv(name)
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: ssl.DefaultVerifyPaths(None, None, "", "", "", ""))
    return monkeypatch


@pytest.mark.usefixtures("bare")
def test_where_the_system_has_no_authorities_those_of_certifi_are_trusted() -> None:
    assert Target(S3, KEY).place == S3
    assert os.environ["SSL_CERT_FILE"] == certifi.where()


def test_an_empty_directory_of_authorities_is_none(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setattr(ssl, "get_default_verify_paths", lambda: ssl.DefaultVerifyPaths(None, str(tmp_path), "", "", "", ""))
    Target(S3, KEY)
    assert os.environ["SSL_CERT_FILE"] == certifi.where()


def test_authorities_that_the_environment_names_are_kept_and_none_is_an_error_that_says_so(bare: pytest.MonkeyPatch) -> None:
    for name in AUTHORITIES:
        bare.setenv(name, "/nonexistent")
    with pytest.raises(TargetError, match=r"cannot open s3://backups.*No CA certificates"):
        Target(S3, KEY)
    assert os.environ["SSL_CERT_FILE"] == "/nonexistent"


def test_authorities_of_the_system_are_kept(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "authority.pem").touch()
    bare.setattr(ssl, "get_default_verify_paths", lambda: ssl.DefaultVerifyPaths(None, str(tmp_path), "", "", "", ""))
    Target(S3, KEY)
    assert "SSL_CERT_FILE" not in os.environ
