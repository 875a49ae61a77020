"""How the command line reaches a real identity provider: which proxy it takes, and what it says if it cannot."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import pytest

from bulkhead.kube.proxy import splice
from tests.kit.dex import PUBLIC, Dex, running
from workstation.cli import arrival
from workstation.cli.credentials.provider import Issuer, discover
from workstation.cli.failures import CliError


@pytest.fixture(scope="module")
def dex(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dex]:
    with running(tmp_path_factory.mktemp("dex")) as started:
        yield started


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "http_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@contextlib.asynccontextmanager
async def proxy(dex: Dex) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A real proxy that leads to Dex: its URL, and what it was asked for."""
    asked: list[bytes] = []

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
        far = await asyncio.open_connection("127.0.0.1", dex.port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await splice((reader, writer), far)

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


def issuer(dex: Dex) -> Issuer:
    return Issuer(dex.url, PUBLIC, certificate_authority=dex.ca)


async def test_the_proxy_of_the_environment_leads_to_the_provider(dex: Dex, monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxy(dex) as (address, asked):
        monkeypatch.setenv("HTTPS_PROXY", address)
        assert (await discover(issuer(dex))).token == f"{dex.url}/token"
        assert asked == [b"CONNECT 127.0.0.1:%d HTTP/1.1" % dex.port]
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        await discover(issuer(dex))
        assert len(asked) == 1


async def test_a_proxy_for_other_programs_is_passed_by(dex: Dex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5h://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert (await discover(issuer(dex))).device


@pytest.mark.parametrize(
    ("variable", "direct", "goes_through"),
    [
        ("HTTPS_PROXY", "", True),
        ("HTTPS_PROXY", ".example.org", False),
        ("HTTPS_PROXY", "login.example.com", True),
        ("ALL_PROXY", "", False),  # kubectl passes it by
    ],
)
def test_a_tenant_is_tried_beforehand_where_kubectl_goes_to_it_directly(
    variable: str, direct: str, goes_through: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "http://proxy.example.org:3128")
    monkeypatch.setenv("NO_PROXY", direct)
    tenant = {"status": {"endpoint": "https://team-a.example.org:6443", "certificateAuthority": "PEM"}}
    assert arrival.proxied(tenant) is goes_through


@pytest.mark.parametrize("address", ["socks5://127.0.0.1:9", "gopher://127.0.0.1:9", "http://127.0.0.1:9", "http://[::1"])
async def test_a_proxy_that_cannot_be_used_is_one_error(dex: Dex, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", address)
    with pytest.raises(CliError, match="cannot be reached") as refused:
        await discover(issuer(dex))
    assert "network or proxy" in str(refused.value.next_step)


@pytest.mark.parametrize(
    ("authority", "word"),
    [
        ("", "not trusted: (self-signed|unable)"),
        ("no certificate", "not trusted"),
        ("-----BEGIN CERTIFICATE-----", "not trusted"),
    ],
)
async def test_a_provider_is_verified_and_the_error_says_what_fails(dex: Dex, authority: str, word: str) -> None:
    with pytest.raises(CliError, match=word):
        await discover(Issuer(dex.url, PUBLIC, certificate_authority=authority))


@pytest.mark.parametrize("url", ["https://nowhere.invalid/dex", "https://localhost:{port}/dex"])
async def test_a_provider_that_is_not_there_is_one_error(url: str) -> None:
    with socket.socket() as unused:  # bound, and never listening
        unused.bind(("127.0.0.1", 0))
        address = url.format(port=unused.getsockname()[1])
        with pytest.raises(CliError, match=r"cannot be reached: (.*refused|.*Connect call failed|.*[Nn]ame)"):
            await discover(Issuer(address, PUBLIC))
