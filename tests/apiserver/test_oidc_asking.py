"""How the controller asks a real identity provider for its keys: what is wrong with one is told, and a proxy is used."""

import asyncio
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bulkhead.api.providers import Provider
from bulkhead.kube.proxy import splice
from controller.decide.keysets import Fault
from controller.host.issuers import over_https
from tests.kit.believing import issuer_of, keys_of, resolved
from tests.kit.dex import Dex, running
from tests.kit.pki import Authority


@pytest.fixture(scope="module")
def dex(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dex]:
    with running(tmp_path_factory.mktemp("dex")) as started:
        yield started


def provider(dex: Dex, **more: Any) -> Provider:
    (made,) = resolved("team-a", issuer_of(dex, **more))
    return made


WRONG: dict[str, tuple[Callable[[Dex], dict[str, Any]], str]] = {
    "another name": (
        lambda dex: {"url": f"{dex.url}/", "discoveryURL": f"{dex.url}/.well-known/openid-configuration"}, "its issuer is"
    ),
    "another authority": (lambda _: {"certificateAuthority": Authority("other").pem.decode()}, "certificateAuthority"),
    "no authority": (lambda _: {"certificateAuthority": None}, "certificateAuthority"),
    "a broken authority": (lambda _: {"certificateAuthority": "-----BEGIN CERTIFICATE-----"}, "can be read"),
    "nothing there": (lambda dex: {"url": dex.url.replace("/dex", "/x")}, "answers 404"),
    "no server there": (lambda _: {"url": "https://127.0.0.1:9/dex"}, "cannot be reached"),
    "no such name": (lambda _: {"url": "https://nowhere.invalid/dex"}, "name"),
    "no document": (lambda dex: {"discoveryURL": f"{dex.url}/healthz"}, "discovery document"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
async def test_an_unusable_provider_is_reported_with_its_cause(dex: Dex, name: str) -> None:
    wrong, word = WRONG[name]
    assert await keys_of(provider(dex))
    with pytest.raises(Fault, match=word):
        await keys_of(provider(dex, **wrong(dex)))


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_provider_is_asked_through_the_proxy_of_the_installation(dex: Dex, scheme: str) -> None:
    asked: list[bytes] = []

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
        far = await asyncio.open_connection("127.0.0.1", dex.port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await splice((reader, writer), far)

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(dex.folder / "tls.crt", dex.folder / "tls.key")
    server = await asyncio.start_server(connect, "127.0.0.1", 0, ssl=tls if scheme == "https" else None)
    port = server.sockets[0].getsockname()[1]
    async with server:
        assert await over_https(f"{dex.url}/keys", dex.ca, proxy=f"{scheme}://127.0.0.1:{port}")
    assert asked == [b"CONNECT 127.0.0.1:%d HTTP/1.1" % dex.port]
    with pytest.raises(Fault, match="cannot be reached"):
        await over_https(f"{dex.url}/keys", dex.ca, proxy=f"{scheme}://127.0.0.1:9")
