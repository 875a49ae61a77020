"""A real HAProxy as a process, with the configuration of its pod, and planes that are TLS servers in this process."""

import asyncio
import contextlib
import re
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from frontdoor.haproxy import Limits, configuration, hosts_map
from frontdoor.routes import Route
from frontdoor.runtime import Runtime, UnreachableError
from tests.kit import machine
from tests.kit.ports import free_port
from tests.kit.syncerbed import until
from workstation.hostcluster import binaries
from workstation.hostcluster.images import proxy_root, slurm_root

FEW = Limits(connections=1000, threads=1)  # few open files
HELLO = b"hello from "


@cache
def program() -> tuple[str, ...]:
    """HAProxy from the image's own packages.

    It is missing only on a machine that cannot unpack any; other failures fail the test.
    """
    machine.programs("HAProxy, unpacked from Debian's packages,", "mmdebstrap")
    tree = slurm_root.debian_tree(binaries.cache_dir() / "images", proxy_root.PROXY_TREE)
    return tuple(proxy_root.program(tree))


@dataclass
class Plane:
    """A TLS server with a certificate for its own name, which sends its tenant's name and echoes what it receives."""

    tenant: str
    host: str
    port: int
    ca: str
    connections: int = 0

    @property
    def route(self) -> Route:
        return Route(self.tenant, "127.0.0.1", (self.host,), self.port)


@contextlib.asynccontextmanager
async def plane(tenant: str, folder: Path, host: str = "") -> AsyncIterator[Plane]:
    host = host or f"{tenant}.k8s.example.org"
    ca = certificate(folder, tenant, host)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{tenant}.pem")
    made = Plane(tenant, host, 0, ca)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.connections += 1
        with contextlib.suppress(OSError, ssl.SSLError):
            writer.write(HELLO + f"{tenant}\n".encode())
            while line := await reader.readline():
                writer.write(line)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context, backlog=1000)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


def certificate(folder: Path, tenant: str, host: str) -> str:
    """A self-signed certificate in `<tenant>.pem`. Returned without its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, tenant)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
        .not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    own = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    public = made.public_bytes(serialization.Encoding.PEM)
    (folder / f"{tenant}.pem").write_bytes(own + public)
    return public.decode()


@dataclass
class Proxy:
    """A running HAProxy."""

    folder: Path
    port: int
    process: "subprocess.Popen[bytes]"
    runtime: Runtime = field(init=False)

    def __post_init__(self) -> None:
        self.runtime = Runtime(self.folder)

    async def open(self, to: Plane, *, name: str | None = None) -> "Session":
        """A client of a plane that trusts only this plane, and requests it by its name or another."""
        context = ssl.create_default_context(cadata=to.ca)
        if name is not None:
            context.check_hostname = False
        async with asyncio.timeout(60):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", self.port, ssl=context, server_hostname=to.host if name is None else name
            )
            return Session(reader, writer, (await reader.readline()).removeprefix(HELLO).decode().strip())

    async def probed(self) -> bytes:
        """The answer to the kubelet's probe."""
        found = re.findall(r"bind 127\.0\.0\.1:(\d+)", (self.folder / "haproxy.cfg").read_text())
        (port,) = (int(item) for item in found if int(item) != self.port)
        async with asyncio.timeout(30):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
            return await reader.readline()

    async def raw(self, data: bytes) -> bytes:
        """The answer to bytes that are not a TLS client's."""
        async with asyncio.timeout(120):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(data)
            with contextlib.suppress(ConnectionError):
                return await reader.read()
            return b""


@dataclass
class Session:
    """A connection that a plane has answered."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    tenant: str

    async def echoes(self, text: str = "x") -> bool:
        """Whether the plane still answers on it."""
        try:
            async with asyncio.timeout(60):
                self.writer.write(f"{text}\n".encode())
                return await self.reader.readline() == f"{text}\n".encode()
        except (OSError, ssl.SSLError):
            return False

    def close(self) -> None:
        self.writer.close()


def write(folder: Path, routes: list[Route], limits: Limits, port: int) -> None:
    (folder / "hosts.map").write_text(hosts_map(routes))
    text = configuration(routes, limits, str(folder), listen="127.0.0.1", port=port, metrics_port=free_port())
    (folder / "haproxy.cfg").write_text(text)


def start(folder: Path, port: int) -> Proxy:
    log = (folder / "log").open("ab")
    return Proxy(folder, port, subprocess.Popen([*program(), "-db", "-f", str(folder / "haproxy.cfg")], stdout=log, stderr=log))


@contextlib.contextmanager
def stopped_at_the_end(proxy: Proxy) -> Iterator[Proxy]:
    try:
        yield proxy
    finally:
        proxy.process.kill()
        proxy.process.wait(10)


@contextlib.asynccontextmanager
async def proxy(folder: Path, routes: list[Route], limits: Limits | None = None) -> AsyncIterator[Proxy]:
    """HAProxy with these routes from its start."""
    port = free_port()
    write(folder, routes, limits or FEW, port)
    with stopped_at_the_end(start(folder, port)) as made:
        await answering(made)
        yield made


async def answering(made: Proxy) -> None:
    async def answers() -> bool:
        assert made.process.poll() is None, (made.folder / "log").read_text()
        try:
            await made.runtime.say("show info")
        except UnreachableError:
            return False
        return True

    await until(answers, "HAProxy to answer")
