"""The tunnel of `bulkhead connect`: when it is taken, and that a connection that ends costs no other."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bulkhead.api.kubeconfig import Credential, kubeconfig
from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.websocket import BINARY, PING, Messages, frame
from tests.kit.proxying import Plane, certificate, plane
from tests.kit.syncerbed import until
from tests.kube.test_websocket import unmasked
from workstation.cli import arguments, connection, tunnel
from workstation.cli.failures import CliError
from workstation.cli.tunnel import Tunnel


@dataclass
class Host:
    """An API server that lists one pod, and forwards to a port that echoes."""

    port: int = 0
    ready: bool = True
    status: int = 101
    error: bytes = b""
    asked: list[str] = field(default_factory=list)
    members: int = 1
    # Members whose kubelet does not answer.
    dead: tuple[str, ...] = ()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                line = head.split(b"\r\n")[0].decode()
                self.asked.append(line)
                if any(f"/{name}/portforward" in line for name in self.dead):
                    await reader.read()
                elif "/portforward" in line:
                    await self._forward(reader, writer)
                    break
                body = json.dumps(self._pods()).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
                writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        writer.close()

    def _pods(self) -> dict[str, object]:
        status = {"conditions": [{"type": "Ready", "status": str(self.ready)}]}
        meta = {"namespace": "bh-team-a", "labels": {"bulkhead.dev/component": "plane"}}
        pods = [{"metadata": meta | {"name": f"plane-{number}"}, "status": status} for number in range(self.members)]
        return {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": pods}

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.status != 101:
            writer.write(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % self.status)
            return
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        for channel in (0, 1):
            writer.write(unmasked(frame(BINARY, bytes([channel]) + (6443).to_bytes(2, "little"))))
        if self.error:
            writer.write(unmasked(frame(BINARY, b"\x01" + self.error)))
        writer.write(unmasked(frame(PING, b"there?")))
        while data := await reader.read(1 << 16):
            for opcode, content in Messages().feed(unmasked(data)):
                if opcode == BINARY:
                    writer.write(unmasked(frame(BINARY, content)))


@pytest.fixture
async def host(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    made = Host()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]

    def client(_: arguments.Host) -> Client:
        config = KubeConfig(server=f"http://127.0.0.1:{made.port}")
        return Client(config, user_agent="tests", field_manager="tests", timeout=60.0)

    monkeypatch.setattr(connection, "host_client", client)
    yield made
    server.close()


async def echo(port: int, text: bytes) -> bytes:
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(text)
        answer = await reader.read(1 << 16)
        writer.close()
        return answer


async def test_bytes_go_through_and_a_connection_that_ends_costs_no_other(host: Host) -> None:
    made = Tunnel(arguments.Host(), "team-a")
    port = await made.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert [await echo(port, b"first"), await echo(port, b"second")] == [b"first", b"second"]
        writer.write(b"still here")
        assert await reader.read(100) == b"still here"
        writer.close()
    finally:
        await made.stop()
    assert any("/api/v1/namespaces/bh-team-a/pods/plane-0/portforward?ports=6443" in line for line in host.asked)


async def test_a_plane_that_is_away_for_a_while_is_waited_for(host: Host) -> None:
    made = Tunnel(arguments.Host(), "team-a")
    port = await made.start()
    try:
        host.ready = False
        waiting = asyncio.create_task(echo(port, b"x"))
        seen = len(host.asked)

        async def asked_twice() -> bool:
            return len(host.asked) >= seen + 2

        await until(asked_twice, "it to look again")
        assert not waiting.done()
        host.ready = True
        assert await waiting == b"x"
    finally:
        await made.stop()


async def test_a_member_on_a_node_that_has_just_died_is_passed_by(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnel, "_POD_SECONDS", 0.2)
    host.members, host.dead = 3, ("plane-0", "plane-1")
    made = Tunnel(arguments.Host(), "team-a")
    port = await made.start()
    try:
        assert await echo(port, b"x") == b"x"
    finally:
        await made.stop()


async def test_a_host_that_hangs_is_one_error(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnel, "_START_SECONDS", 0.5)
    host.dead = ("plane-0",)

    def run() -> None:
        with tunnel._running(arguments.Host(), "team-a"):
            pass

    with pytest.raises(CliError, match=r"no connection through the host's API: no answer within 0.5 s"):
        await asyncio.to_thread(run)


@pytest.mark.parametrize(("status", "ready"), [(403, True), (101, False)])
async def test_without_the_right_or_a_pod_it_says_so_at_once(host: Host, status: int, ready: bool) -> None:
    host.status, host.ready = status, ready
    made = Tunnel(arguments.Host(), "team-a")
    with pytest.raises(CliError, match="no connection through the host's API"):
        await made.start()
    await made.stop()


async def test_what_the_kubelet_says_of_the_port_ends_the_connection_and_is_told(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Tunnel(arguments.Host(), "team-a")
    port = await made.start()
    host.error = b"connection refused"
    said: list[str] = []
    try:
        assert await echo(port, b"x") in {b"", b"x"}

        async def told() -> bool:
            said.append(capsys.readouterr().err)
            return "connection refused" in "".join(said)

        await until(told, "the reason")
        assert "tenant team-a: tunnel" in "".join(said)
    finally:
        await made.stop()


def of(made: Plane, port: int, name: str | None = None) -> bytes:
    made_of = kubeconfig(
        name="team-a",
        server=f"https://127.0.0.1:{port}",
        tls_server_name=name or made.host,
        ca=made.ca.encode(),
        user="x",
        credential=Credential(b"x", b"x"),
    )
    return made_of.encode()


async def test_a_server_that_answers_under_its_name_needs_no_tunnel(tmp_path: Path) -> None:
    async with plane("team-a", tmp_path) as a, plane("team-b", tmp_path) as b:
        assert await asyncio.to_thread(tunnel.answers, of(a, a.port))
        # Another machine has the address in this network.
        assert not await asyncio.to_thread(tunnel.answers, of(a, b.port))
        assert not await asyncio.to_thread(tunnel.answers, of(a, a.port, "other.example.org"))
        assert not await asyncio.to_thread(tunnel.answers, of(a, 1))


def test_the_server_keeps_its_name_in_the_tunnel(tmp_path: Path) -> None:
    made = Plane("team-a", "team-a.k8s.example.org", 443, certificate(tmp_path, "team-a", "team-a.k8s.example.org"))
    cluster = json.loads(tunnel.through(of(made, 30443), 5555))["clusters"][0]["cluster"]
    assert (cluster["server"], cluster["tls-server-name"]) == ("https://127.0.0.1:5555", "team-a.k8s.example.org")


@pytest.mark.parametrize("broken", [b"[]", b"{}", b'{"clusters": []}', b'{"clusters": [{"cluster": {"server": "x"}}]}'])
def test_a_kubeconfig_without_a_cluster_is_refused(broken: bytes) -> None:
    with pytest.raises(CliError, match="kubeconfig"):
        tunnel.answers(broken)
