"""The controller's certificate for a plane is renewed while calls go on, and also while no reconcile reaches the plane."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from controller.inside import access
from controller.inside.access import PlaneAccess
from controller.inside.budget import Budget
from controller.pki.material import assemble
from controller.plane.secrets import KeyMaterial
from tests.kit.fakeclock import FakeClock
from tests.kit.tenantsamples import plane_spec

SPEC = plane_spec()
HALF_LIFE_SECONDS = 30 * 60.0


class World:
    """A plane's API server that records which certificate each call shows, and the controller's access to it."""

    def __init__(self, keys: KeyMaterial) -> None:
        self.keys = keys
        # The server judges by the real time: the first certificate and the second must both be valid now.
        self.clock = FakeClock(datetime.now(UTC) - timedelta(minutes=40))
        self.budget = Budget()
        self.access = PlaneAccess(self.clock, lambda _: None, self.budget)
        self.shown: list[tuple[str, int]] = []
        self.arrived, self.answers = asyncio.Event(), asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        serial = x509.load_der_x509_certificate(certificate).serial_number
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ")[1].decode()
                self.shown.append((path, serial))
                if path == "/slow":
                    self.arrived.set()
                    await self.answers.wait()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                await writer.drain()
        writer.transport.abort()

    async def ready(self) -> bool:
        """A reconcile that reaches the plane."""
        return (await self.access.health(SPEC, self.keys, ["127.0.0.1"])).ready

    async def ask(self, path: str, method: str = "GET") -> int:
        """What a loop does, whatever reconciles do; returns the status."""
        async with self.budget.turn(SPEC.tenant, 30) as turn:
            plane: Any = self.access.plane(turn)
            return int((await plane.exchange(method, path)).status)

    def serials(self, *paths: str) -> set[int]:
        return {serial for path, serial in self.shown if path in paths}


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    made = World(assemble(SPEC, {}, datetime.now(UTC)).keys)
    pair = made.keys.leaves["pki-apiserver/server"]
    pem = tmp_path / "server.pem"
    pem.write_bytes(pair.certificate + pair.key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem)
    tls.load_verify_locations(cadata=made.keys.authorities["client"].certificate.decode())
    tls.verify_mode = ssl.CERT_REQUIRED
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=tls)
    monkeypatch.setattr(access, "API_PORT", server.sockets[0].getsockname()[1])
    async with server:
        yield made
        made.answers.set()
        await made.access.close()


async def test_a_loop_renews_the_certificate_although_no_reconcile_reaches_the_plane(world: World) -> None:
    assert await world.ready()
    assert await world.ask("/before") == 200
    world.clock.advance(HALF_LIFE_SECONDS - 1)
    assert await world.ask("/still") == 200
    assert world.serials("/before") == world.serials("/still")
    world.clock.advance(2)
    for path in ("/after", "/later"):
        assert await world.ask(path) == 200
    assert len(world.serials("/after", "/later")) == 1, "once, not with every call"
    assert world.serials("/after") != world.serials("/before")


@pytest.mark.parametrize("by", ["a reconcile", "a loop"])
async def test_a_call_that_is_under_way_outlasts_the_renewal(world: World, by: str) -> None:
    assert await world.ready()
    # A GET whose connection ends would be repeated on another one.
    slow = asyncio.create_task(world.ask("/slow", "POST"))
    await world.arrived.wait()
    world.clock.advance(HALF_LIFE_SECONDS + 1)
    if by == "a reconcile":
        assert await world.ready()
    assert await world.ask("/after") == 200
    assert world.serials("/after") != world.serials("/slow")
    world.answers.set()
    assert await slow == 200


async def test_another_ca_is_another_connection(world: World) -> None:
    assert await world.ready()
    held = world.access._connections[SPEC.tenant].client
    world.keys = assemble(SPEC, {}, datetime.now(UTC)).keys
    assert not await world.ready(), "the server does not know it"
    assert world.access._connections[SPEC.tenant].client is not held
