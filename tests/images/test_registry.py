"""Registries that answer what no registry should: bounded, named, and never given a password that is not theirs."""

import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from workstation.cli import images
from workstation.cli.failures import CliError
from workstation.cli.main import build_parser
from workstation.images import credentials, place, valuesfile
from workstation.images.credentials import Credentials, CredentialsError
from workstation.images.place import PlaceError
from workstation.images.registry import Registry, RegistryRefusedError
from workstation.images.transport import MOST_DOCUMENT, Answer, BrokenError, RegistryError, Transport, TrustError, trust
from workstation.images.uploads import alone

WHO = Credentials("me", "word")
HOST = "registry.example.org"


@dataclass
class Scripted:
    """A transport with answers by the beginning of a URL; the last of a list is given again and again."""

    answers: dict[str, list[Answer]]
    sent: list[tuple[str, str, str]] = field(default_factory=list)

    def exchange(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"", **_: Any) -> Answer:
        self.sent.append((method, url, headers.get("Authorization", "")))
        found = next(given for start, given in self.answers.items() if url.startswith(start))
        return found.pop(0) if len(found) > 1 else found[0]


def answer(status: int, body: bytes = b"", **headers: str) -> Answer:
    return Answer(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


def registry(script: Scripted, who: Credentials | None = WHO) -> Registry:
    return Registry(place.parse(f"{HOST}/base"), script, who, pause=lambda _: None)  # type: ignore[arg-type]


def test_a_token_is_asked_for_once_and_only_the_issuer_sees_the_password() -> None:
    challenge = 'Bearer realm="https://auth.example.org/token",service="it"'
    script = Scripted(
        {
            "https://auth.example.org/": [answer(200, b'{"token":"t0"}')],
            f"https://{HOST}/": [answer(401, www_authenticate=challenge), answer(200)],
        }
    )
    found = registry(script)
    found.call("HEAD", "/v2/base/etcd/manifests/x", "base/etcd")
    found.call("HEAD", "/v2/base/etcd/manifests/y", "base/etcd")
    (asked,) = [url for _, url, _ in script.sent if "auth" in url]
    assert "scope=repository%3Abase%2Fetcd%3Apull%2Cpush" in asked
    assert [sent for _, url, sent in script.sent if HOST in url] == ["", "Bearer t0", "Bearer t0"]


@pytest.mark.parametrize(
    "challenge",
    ["", "Basic", "Negotiate x", 'Bearer realm="https://auth.example.org/",service="it"', 'Bearer realm="nowhere"'],
)
def test_a_401_without_end_ends(challenge: str) -> None:
    script = Scripted(
        {
            "https://auth.example.org/": [answer(200, b'{"token":"t"}')],
            f"https://{HOST}/": [answer(401, www_authenticate=challenge)],
        }
    )
    with pytest.raises(RegistryError):
        registry(script).call("GET", "/v2/")
    assert len(script.sent) <= 3


@pytest.mark.parametrize(
    "realm", ["http://auth.example.org/token", "ftp://auth.example.org/", "https://u:p@auth.example.org/", "file:///etc/passwd"]
)
def test_no_password_goes_to_an_issuer_without_tls(realm: str) -> None:
    script = Scripted({f"https://{HOST}/": [answer(401, www_authenticate=f'Bearer realm="{realm}"')]})
    with pytest.raises(RegistryError):
        registry(script).check()
    assert [url for _, url, _ in script.sent] == [f"https://{HOST}/v2/"]


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"token":1}', b'{"token":"a\\r\\nX: y"}', b'{"token":"' + b"x" * 40_000 + b'"}']
)
def test_a_malformed_token_is_not_sent(body: bytes) -> None:
    challenge = 'Bearer realm="https://auth.example.org/"'
    script = Scripted(
        {"https://auth.example.org/": [answer(200, body)], f"https://{HOST}/": [answer(401, www_authenticate=challenge)]}
    )
    with pytest.raises(RegistryError, match="issued no token"):
        registry(script).check()


def test_a_redirect_to_another_host_takes_no_credentials_along() -> None:
    script = Scripted(
        {
            "https://store.example.org/": [answer(200)],
            f"https://{HOST}/": [
                answer(401, www_authenticate="Basic realm=x"),
                answer(307, location="https://store.example.org/b"),
            ],
        }
    )
    assert registry(script).call("HEAD", "/v2/base/etcd/blobs/x", "base/etcd").status == 200
    assert script.sent[-1] == ("HEAD", "https://store.example.org/b", "")


def test_redirects_end_and_never_leave_tls() -> None:
    round_about = Scripted({f"https://{HOST}/": [answer(302, location="/v2/")]})
    with pytest.raises(RegistryError, match="redirects more than"):
        registry(round_about).check()
    for place_of in ("http://store.example.org/", f"http://{HOST}/"):
        plain = Scripted({f"https://{HOST}/": [answer(302, location=place_of)]})
        with pytest.raises(RegistryError, match="without TLS"):
            registry(plain).check()
        assert len(plain.sent) == 1


def test_overload_is_waited_for_as_long_as_is_sensible() -> None:
    waited: list[float] = []
    script = Scripted({f"https://{HOST}/": [answer(429, retry_after="7"), answer(503, retry_after="99999"), answer(200)]})
    Registry(place.parse(HOST), script, None, pause=waited.append).check()  # type: ignore[arg-type]
    assert waited == [7.0, 30.0]
    busy = Scripted({f"https://{HOST}/": [answer(503)]})
    with pytest.raises(BrokenError, match="503"):
        registry(busy).check()


def test_what_a_registry_says_reaches_the_terminal_as_one_short_line() -> None:
    said = json.dumps({"errors": [{"code": "DENIED", "message": "\x1b[2J\n" + "x" * 5000}]}).encode()
    script = Scripted({f"https://{HOST}/": [answer(403, said)]})
    with pytest.raises(RegistryRefusedError) as refused:
        registry(script).check()
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400


@contextmanager
def raw(*chunks: bytes, endless: bytes = b"") -> Iterator[str]:
    """A server that answers a request with these bytes, and then with others for ever."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        try:
            while True:
                client, _ = listening.accept()
                with client:
                    client.recv(65536)
                    for chunk in chunks:
                        client.sendall(chunk)
                    while endless:
                        client.sendall(endless)
        except OSError:
            return

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v2/"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def get(url: str, seconds: float = 20) -> Answer:
    with Transport(ssl.create_default_context(), seconds=seconds) as transport:
        return transport.exchange("GET", url, {})


def test_a_body_without_end_is_read_to_a_limit() -> None:
    with (
        raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", endless=b"10000\r\n" + b"x" * 0x10000 + b"\r\n") as url,
        pytest.raises(BrokenError, match=f"more than {MOST_DOCUMENT}"),
    ):
        get(url)


def test_an_error_without_end_is_read_to_a_smaller_one() -> None:
    with (
        raw(b"HTTP/1.1 500 No\r\nConnection: close\r\n\r\n", endless=b"x" * 4096) as url,
        pytest.raises(BrokenError, match="65536"),
    ):
        get(url)


def test_headers_without_end_are_cut() -> None:
    with raw(b"HTTP/1.1 200 OK\r\n", endless=b"X: y\r\n") as url, pytest.raises(BrokenError):
        get(url)


def test_an_answer_that_does_not_come_is_waited_for_no_longer_than_its_time() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    try:
        with pytest.raises(BrokenError):
            get(f"http://127.0.0.1:{listening.getsockname()[1]}/", seconds=0.2)
    finally:
        listening.close()


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-x\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"",
    ],
)
def test_incomplete_http_is_a_broken_exchange(said: bytes) -> None:
    with raw(said) as url:
        if b"-1" in said:
            get(url)  # reads to the end of the connection, which is there
            return
        with pytest.raises(BrokenError):
            get(url)


def test_a_file_that_is_not_an_authority_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("none")
    for path in (tmp_path / "ca.crt", tmp_path / "missing"):
        with pytest.raises(TrustError, match=path.name):
            trust(path)


@pytest.mark.parametrize(
    "text",
    [
        "", "https://registry.example.org", "registry.example.org/", "a b", "host/UPPER", "host:0", "host:99999", "host/../x",
        "user@host", "host?x", "host/a//b", "-host", "host/a\nb", "h" * 300,
    ],
)  # fmt: skip
def test_what_names_no_registry_is_refused(text: str) -> None:
    with pytest.raises(PlaceError, match="the registry must be HOST"):
        place.parse(text)


def test_a_place_is_what_the_chart_takes() -> None:
    found = place.parse("10.0.0.1:5000/a/b-c")
    assert (found.origin, found.repository("etcd"), found.text) == (
        "https://10.0.0.1:5000",
        "a/b-c/etcd",
        "10.0.0.1:5000/a/b-c",
    )
    assert place.parse("docker.io/me").origin == "https://registry-1.docker.io"
    assert place.parse("host", plain=True).origin == "http://host"


def test_credentials_come_from_where_docker_keeps_them(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    assert credentials.from_file(path, HOST) is None
    path.write_text(
        json.dumps({"auths": {HOST: {"auth": "bWU6d29yZDp4"}, f"https://{HOST}:5000/v1/": {"username": "a", "password": "b"}}})
    )
    assert credentials.from_file(path, HOST) == Credentials("me", "word:x")
    assert credentials.from_file(path, f"{HOST}:5000") == Credentials("a", "b")
    assert credentials.from_file(path, "elsewhere") is None
    assert "word" not in repr(credentials.from_file(path, HOST))


@pytest.mark.parametrize(
    "content",
    [
        "no json", "[]", '{"auths":[]}', json.dumps({"auths": {HOST: {"auth": "%%%"}}}),
        json.dumps({"auths": {HOST: {"auth": "eA=="}}}),
        json.dumps({"credsStore": "desktop"}), json.dumps({"credHelpers": {HOST: "gcr"}}), " " * (2 << 20),
    ],
)  # fmt: skip
def test_credentials_that_cannot_be_read_are_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(CredentialsError, match=r"config\.json"):
        credentials.from_file(path, HOST)


def test_the_values_file_keeps_what_another_push_wrote_for_the_same_registry(tmp_path: Path) -> None:
    path, digest = tmp_path / "values.yaml", "sha256:" + "a" * 64
    assert valuesfile.digests_in(path, "r/b") == {}
    path.write_text(valuesfile.values("r/b", {"etcd:v1": digest}, ["pulls"]))
    assert valuesfile.digests_in(path, "r/b") == {"etcd:v1": digest}
    assert valuesfile.digests_in(path, "r/other") == {}
    for broken in (
        "images: 1",
        "- x",
        "images: {registry: r/b, digests: [1]}",
        "images: {registry: r/b, digests: {a: b, 1: 2}}",
        "\t",
    ):
        path.write_text(broken)
        assert valuesfile.digests_in(path, "r/b") == {}


OWN = valuesfile.values("r/b", {"etcd:v1": "sha256:" + "a" * 64}, ["pulls"])


@pytest.mark.parametrize(
    ("content", "others"),
    [
        ("", ()),
        ("# nothing yet\n", ()),
        (OWN, ()),
        (OWN + "storageClass: fast\n", ("storageClass",)),
        ("planes: {nodeSelector: {a: b}}\nimages: {registry: r/b, pullPolicy: Always}\n", ("planes", "images.pullPolicy")),
        ("- x\n", ("text without values",)),
        ("a: {", ("text that is not YAML",)),
    ],
)
def test_a_push_does_not_overwrite_other_values(content: str, others: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    assert valuesfile.others_in(path) == ()
    path.write_text(content)
    assert valuesfile.others_in(path) == others
    if not others:
        images._refuse_other_values(path)
        return
    with pytest.raises(CliError, match="nothing was pushed") as refused:
        images._refuse_other_values(path)
    assert all(name in str(refused.value) for name in others)


def test_the_values_file_is_looked_at_before_anything_is_pushed(tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    path.write_text("storageClass: fast\n")
    words = ["images", "push", "registry.invalid/b", "--no-build", "--values", str(path)]
    options = build_parser(words).parse_args(words)
    with pytest.raises(CliError, match="nothing was pushed"):
        images.push_images(options.handler.request(options))
    assert path.read_text() == "storageClass: fast\n"


def test_a_values_file_that_cannot_be_written_is_refused_before_anything_is_pushed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, reason in ((tmp_path, "it is a folder"), (tmp_path / "file" / "values.yaml", "is not a folder")):
        words = ["images", "push", "registry.invalid/b", "--no-build", "--values", str(path)]
        options = build_parser(words).parse_args(words)
        with pytest.raises(CliError, match=reason):
            images.push_images(options.handler.request(options))
    assert valuesfile.unwritable(tmp_path / "new" / "values.yaml") == ""
    assert valuesfile.unwritable(Path("/dev/stdout")) == ""


def test_two_pushes_of_one_user_are_made_one_after_the_other(tmp_path: Path) -> None:
    told: list[str] = []
    order: list[str] = []
    waits, begun = threading.Event(), threading.Event()

    def tell(text: str) -> None:
        told.append(text)
        waits.set()

    def second() -> None:
        begun.wait(10)
        with alone(tmp_path / "cache" / "push.lock", tell):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with alone(tmp_path / "cache" / "push.lock", told.append):
        begun.set()
        assert waits.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]
    assert told == ["waiting for the end of another push of yours; Ctrl-C ends this one\n"]
