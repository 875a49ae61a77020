"""A request is what was asked for, whatever is in it, or it is not sent."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.kube.errors import ProtocolError
from bulkhead.kube.request import Server

_ANY = st.text(st.characters(max_codepoint=300), max_size=12)


@pytest.mark.parametrize(
    ("url", "secure", "name", "expected"),
    [
        ("https://host", True, None, Server("host", 443, "host", "", "host")),
        ("https://host:6443/", True, "plane", Server("host", 6443, "host:6443", "", "plane")),
        ("https://me:secret@[::1]:1/a/b/", True, None, Server("::1", 1, "[::1]:1", "/a/b", "::1")),
        ("http://127.0.0.1", False, "plane", Server("127.0.0.1", 80, "127.0.0.1", "", None)),
    ],
)
def test_a_server_is_read_from_its_url(url: str, secure: bool, name: str | None, expected: Server) -> None:
    assert Server.parse(url, secure=secure, tls_name=name) == expected


SERVER = Server("host", 443, "host", "/prefix", None)


@given(st.sampled_from(["GET", "POST"]), _ANY, st.lists(st.tuples(_ANY, _ANY), max_size=3), st.none() | st.binary(max_size=9))
def test_nothing_ends_its_line(method: str, path: str, headers: list[tuple[str, str]], body: bytes | None) -> None:
    values = "".join(part for pair in headers for part in pair)
    if not all("!" <= char <= "~" for char in path) or not all(" " <= char <= "~" or char == "\t" for char in values):
        with pytest.raises(ProtocolError):
            SERVER.request(method, f"/{path}", headers, body)
        return
    written = SERVER.request(method, f"/{path}", headers, body)
    head, _, rest = written.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[:2] == [f"{method} /prefix/{path} HTTP/1.1", "Host: host"]
    assert lines[2 : 2 + len(headers)] == [f"{name}: {value}" for name, value in headers]
    length = [f"Content-Length: {len(body or b'')}"] if body is not None or method != "GET" else []
    assert (lines[2 + len(headers) :], rest) == (length, body or b"")


@given(_ANY)
def test_a_quoted_path_is_always_sent(text: str) -> None:
    assert SERVER.request("GET", f"/{quote(text, safe='')}", [("Accept", "a\tb")]).startswith(b"GET /prefix/")


@pytest.mark.parametrize("method", ["", "GET\r\nX: y", "GET /other HTTP/1.1\r\n", "get", "G\u00c9T"])
def test_a_method_is_a_word(method: str) -> None:
    with pytest.raises(ProtocolError):
        SERVER.request(method, "/pods", [])
