"""A push from behind a proxy: as docker reads HTTPS_PROXY, HTTP_PROXY and NO_PROXY."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bulkhead.proxies import proxy_of_environment
from tests.images.fakeregistry import FakeRegistry, serving
from tests.kit.pki import Authority
from workstation.images.transport import BrokenError, ProxyError, Transport, trust

REGISTRY = "registry.example.org"  # known to no DNS: only a proxy leads there


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "http_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@contextmanager
def tunnelling(answer: bytes, tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[bytes]]]:
    """A proxy for one tunnel, which is the registry at its other end: its address, and the head of what it was asked."""
    heads: list[bytes] = []
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += connection.recv(1)
            heads.append(head)
            connection.sendall(answer)
            if tls is not None:
                with tls.wrap_socket(connection, server_side=True) as wrapped:
                    wrapped.recv(65536)
                    wrapped.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}", heads
        thread.join(10)


def test_https_goes_through_a_tunnel_and_is_verified_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority("registry")
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    (tmp_path / "registry.pem").write_bytes(b"".join(authority.issue(REGISTRY, addresses=(REGISTRY,))))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "registry.pem")
    with tunnelling(b"HTTP/1.1 200 OK\r\n\r\n", tls) as (address, heads):
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:pass%20word@{address}")
        with Transport(trust(tmp_path / "ca.pem")) as transport:
            assert transport.exchange("GET", f"https://{REGISTRY}/v2/", {"Authorization": "Basic secret"}).body == b"{}"
    (head,) = heads
    assert head.startswith(b"CONNECT registry.example.org:443 HTTP/1.")
    assert b"Proxy-Authorization: Basic bWU6cGFzcyB3b3Jk\r\n" in head
    assert b"secret" not in head


def test_plain_http_asks_the_proxy_for_the_whole_url(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRegistry()
    with serving(fake), Transport(ssl.create_default_context()) as transport:
        # Without a scheme it is one of HTTP, as for docker.
        monkeypatch.setenv("HTTP_PROXY", fake.address)
        assert transport.exchange("GET", f"http://{REGISTRY}:5000/v2/", {}).status == 200
        assert fake.asked[-1][1] == f"http://{REGISTRY}:5000/v2/"
        # The machine itself is never asked for through a proxy.
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        assert transport.exchange("GET", f"http://{fake.address}/v2/", {}).status == 200
        assert fake.asked[-1][1] == "/v2/"


def test_a_proxy_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with tunnelling(b"HTTP/1.1 407 Who are you\r\n\r\n") as (address, _):
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:word@{address}")
        with Transport(ssl.create_default_context()) as transport, pytest.raises(BrokenError) as refused:
            transport.exchange("GET", f"https://{REGISTRY}/v2/", {})
    assert f"{REGISTRY}:443: the proxy {address} does not lead there: Tunnel connection failed: 407" in str(refused.value)
    assert "word" not in str(refused.value)


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "https://127.0.0.1:9", "http://[::1", "http://me:word@proxy:x"])
def test_a_proxy_that_cannot_be_used_is_refused_without_its_password(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with Transport(ssl.create_default_context()) as transport, pytest.raises(ProxyError, match="HTTPS_PROXY must") as refused:
        transport.exchange("GET", f"https://{REGISTRY}/v2/", {})
    assert "word" not in str(refused.value)


@pytest.mark.parametrize(
    ("no_proxy", "address", "goes_through"),
    [
        ("", "https://10.1.2.3:5000/v2/", True),
        ("10.0.0.0/8", "https://10.1.2.3:5000/v2/", False),
        ("10.0.0.0/8", "https://11.1.2.3:5000/v2/", True),
        ("10.0.0.0/8", "https://ten.example.org/v2/", True),
        ("example.com, .example.org", "https://registry.example.org/v2/", False),
        ("registry.example.org:5000", "https://registry.example.org:5000/v2/", False),
        ("registry.example.org:5000", "https://registry.example.org/v2/", True),
        ("fd00::/8,x/y", "https://[fd00::1]:5000/v2/", False),
        ("*", "https://registry.example.org/v2/", False),
    ],
)
def test_no_proxy_has_names_ports_and_networks(
    no_proxy: str, address: str, goes_through: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert proxy_of_environment(address) == ("http://proxy:3128" if goes_through else "")
