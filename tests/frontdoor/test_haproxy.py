"""A real HAProxy with our configuration: where it leads connections, which it refuses, and what a change costs open ones."""

import asyncio
import ssl
from pathlib import Path

import pytest

from frontdoor import haproxy
from frontdoor.haproxy import Limits
from frontdoor.routes import Route
from tests.kit.proxying import Plane, Proxy, Session, plane, proxy
from tests.kit.syncerbed import until

A, B = "team-a", "team-b"
TIGHT = Limits(connections=300, tenant_connections=20, tenant_rate=0, source_connections=0, source_rate=0, threads=1)


async def say(made: Proxy, wanted: list[Route]) -> list[str]:
    """Bring HAProxy to these routes; what it refused."""
    commands = haproxy.commands(wanted, await made.runtime.running(), str(made.folder))
    return [each for each in commands if not haproxy.went_well(each, await made.runtime.say(each))]


async def test_a_name_leads_to_its_tenant_alone(tmp_path: Path) -> None:
    async with plane(A, tmp_path) as a, plane(B, tmp_path) as b, proxy(tmp_path, [a.route, b.route]) as made:
        assert (await made.open(a)).tenant == A
        assert (await made.open(b)).tenant == B
        assert (await made.open(a, name=a.host.upper())).tenant == A
        # The name of another: its plane answers, whose certificate a client of the first does not take.
        with pytest.raises(ssl.SSLCertVerificationError):
            await made.open(a, name=b.host)
        assert a.connections == 2


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("team-c.k8s.example.org", "unknown-name"),
        ("x.team-a.k8s.example.org", "unknown-name"),
        ("team-a", "unknown-name"),
        ("planes", "unknown-name"),
        ("", "no-name"),
    ],
)
async def test_an_unknown_name_is_refused_and_counted(tmp_path: Path, name: str, reason: str) -> None:
    async with plane(A, tmp_path) as a, proxy(tmp_path, [a.route]) as made:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with pytest.raises(OSError):  # noqa: PT011 -- reset or closed, as the kernel has it
            await asyncio.open_connection("127.0.0.1", made.port, ssl=context, server_hostname=name)
        assert a.connections == 0
        assert (await made.runtime.refused())[1] == {reason: 1}


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\nHost: team-a.k8s.example.org\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\0" * 4096]
)
async def test_a_malformed_hello_is_refused_and_counted(tmp_path: Path, data: bytes) -> None:
    async with plane(A, tmp_path) as a, proxy(tmp_path, [a.route]) as made:
        assert await made.raw(data) == b""
        assert a.connections == 0
        assert (await made.runtime.refused())[1] == {"no-hello": 1}


async def test_silence_is_ended(tmp_path: Path) -> None:
    async with plane(A, tmp_path) as a, proxy(tmp_path, [a.route]) as made:
        assert await made.raw(b"") == b""
        assert (await made.runtime.refused())[1] == {"no-hello": 1}


async def test_tenants_come_and_go_without_others_noticing(tmp_path: Path) -> None:
    async with plane(A, tmp_path) as a, plane(B, tmp_path) as b, proxy(tmp_path, [a.route]) as made:
        kept = await made.open(a)
        assert await say(made, [a.route, b.route]) == []
        other = await made.open(b)
        assert other.tenant == B
        # A second name of one that is there.
        more = Route(A, a.route.target, (a.host, "api.team-a.k8s.example.org"), a.port)
        assert await say(made, [more, b.route]) == []
        assert (await made.open(a, name="api.team-a.k8s.example.org")).tenant == A

        async def gone() -> bool:
            return await say(made, [a.route]) == []

        await until(gone, "the other to be gone")
        assert not await other.echoes()
        with pytest.raises(OSError):  # noqa: PT011
            await made.open(b)
        assert await kept.echoes()
        assert made.process.poll() is None
        assert set((await made.runtime.running()).servers) == {A}


async def test_a_plane_that_has_moved_is_followed(tmp_path: Path) -> None:
    async with plane(A, tmp_path) as a, plane(B, tmp_path, a.host) as b, proxy(tmp_path, [a.route]) as made:
        kept = await made.open(a)
        assert await say(made, [Route(A, "127.0.0.1", (a.host,), b.port)]) == []
        assert (await made.open(b, name=a.host)).tenant == B
        assert await kept.echoes()


async def test_a_name_without_its_server_is_refused(tmp_path: Path) -> None:
    """By balancing it would be led to another tenant, whose certificate this client would take."""
    async with plane(A, tmp_path) as a, plane(B, tmp_path) as b, proxy(tmp_path, [b.route]) as made:
        await made.runtime.say(f"add map {tmp_path}/hosts.map {a.host} {A}")
        with pytest.raises(OSError):  # noqa: PT011
            await made.open(b, name=a.host)
        # Nor to one that has come while HAProxy ran.
        others = Route("team-c", "127.0.0.1", ("c.example.org",), b.port)
        assert await say(made, [others, Route(A, "127.0.0.1", (a.host,), a.port)]) == []
        await made.runtime.say(f"disable server {haproxy.BACKEND}/{A}")
        with pytest.raises(OSError):  # noqa: PT011
            await made.open(b, name=a.host)


async def flooded(made: Proxy, by: Plane, other: Plane, *, number: int) -> tuple[int, bool]:
    """How many connections one tenant's flood holds, and whether another tenant is served meanwhile."""
    tries = await asyncio.gather(*(made.open(by) for _ in range(number)), return_exceptions=True)
    held = [each for each in tries if isinstance(each, Session)]
    try:
        async with asyncio.timeout(3):
            served = await (await made.open(other)).echoes()
    except OSError:
        served = False
    for each in held:
        each.close()
    return len(held), served


async def test_a_flood_of_one_tenant_costs_the_others_nothing(tmp_path: Path) -> None:
    async with plane(A, tmp_path) as a, plane(B, tmp_path) as b, proxy(tmp_path, [a.route, b.route], TIGHT) as made:
        held, served = await flooded(made, a, b, number=400)
        assert held <= TIGHT.tenant_connections
        assert served
        refused, nobody = await made.runtime.refused()
        assert refused[A] == 400 - held
        assert refused.get(B, 0) == 0
        assert nobody == {}


async def test_without_a_limit_the_flood_takes_all(tmp_path: Path) -> None:
    """The positive control of the test above."""
    unlimited = Limits(connections=300, tenant_connections=0, tenant_rate=0, source_connections=0, source_rate=0, threads=1)
    async with plane(A, tmp_path) as a, plane(B, tmp_path) as b, proxy(tmp_path, [a.route, b.route], unlimited) as made:
        flood = [asyncio.create_task(made.open(a)) for _ in range(400)]

        async def full() -> bool:
            return a.connections >= 300

        await until(full, "every place taken")
        with pytest.raises(OSError):  # noqa: PT011 -- a TimeoutError is one
            async with asyncio.timeout(3):
                await made.open(b)
        # The kubelet would kill a proxy whose probes wait, and with it every connection.
        assert b" 200 " in await made.probed()
        for each in flood:
            each.cancel()
        await asyncio.gather(*flood, return_exceptions=True)


async def test_new_connections_in_a_second_are_limited_by_tenant(tmp_path: Path) -> None:
    slow = Limits(connections=1000, tenant_connections=0, tenant_rate=2, source_connections=0, source_rate=0, threads=1)
    async with plane(A, tmp_path) as a, plane(B, tmp_path) as b, proxy(tmp_path, [a.route, b.route], slow) as made:
        held, served = await flooded(made, a, b, number=60)
        assert held == 20
        assert served


async def test_one_source_is_limited_whatever_it_asks_for(tmp_path: Path) -> None:
    few = Limits(connections=1000, tenant_connections=0, tenant_rate=0, source_connections=5, source_rate=0, threads=1)
    async with plane(A, tmp_path) as a, proxy(tmp_path, [a.route], few) as made:
        held, _ = await flooded(made, a, a, number=20)
        assert held <= 5
