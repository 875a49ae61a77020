"""Level 2: every credential of one tenant at every server of another (D6), and headers that name another user (D8).

    plane red ─┐  each an etcd and an API server with a plane's own flags, certificates and configuration
    plane blue ┤
    the host ──┘  the API server of tests

One table lists which credential opens which server; every other pair is refused. The control: each opens its own server.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists
from bulkhead.kube.resources import SERVICE_ACCOUNTS
from controller.pki import issue, people
from controller.plane.pki import Usage, controller_credential, etcd_credential, leaves
from controller.plane.secrets import KeyMaterial
from controller.plane.spec import API_PORT, API_SERVER, ETCD_PORT
from tests.kit.planeprocess import ETCD, PlaneProcesses
from tests.kit.servers import ApiServer, Pair
from tests.kit.tenantsamples import plane_spec

pytestmark = pytest.mark.apiserver
SECONDS: Final = 20.0
# Whose certificates open which server of their own plane; tokens and people open the API server.
OPENS: Final = {"client": "api", "users": "api", "token": "api", "etcd": "etcd", "kubelet": "", "front-proxy": ""}


@dataclass(frozen=True, slots=True)
class Credential:
    """A certificate with its key, or a token."""

    owner: str
    name: str
    sort: str
    certificate: bytes = b""
    key: bytes = b""
    token: str = ""


@dataclass(frozen=True, slots=True)
class Server:
    """Where it listens, and by what it is verified: no refusal is the client's own."""

    owner: str
    sort: str
    port: int
    ca: bytes


@pytest.fixture(scope="module")
def planes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, PlaneProcesses]]:
    made = {name: PlaneProcesses(tmp_path_factory.mktemp(name), plane_spec(tenant=name)) for name in ("red", "blue")}
    try:
        for plane in made.values():
            plane.start(ETCD, API_SERVER)
        for plane in made.values():
            plane.wait()
        yield made
    finally:
        for plane in made.values():
            plane.stop()


def api_of(name: str, plane: PlaneProcesses) -> Server:
    return Server(name, "api", plane.ports[API_PORT], plane.keys.authorities["serving"].certificate)


def servers(planes: dict[str, PlaneProcesses], host: ApiServer) -> list[Server]:
    found = [Server("host", "api", host.port, host.authority.pem)]
    for name, plane in planes.items():
        found.append(api_of(name, plane))
        found.append(Server(name, "etcd", plane.ports[ETCD_PORT], plane.keys.authorities["etcd"].certificate))
    return found


def person(keys: KeyMaterial) -> tuple[bytes, bytes]:
    """An admin of a plane, as `bulkhead connect` gets a certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = people.certify(
        key.public_key(), user="alice", group="bulkhead:tenant-admins", authority=keys.authorities["users"],
        now=datetime.now(UTC), life=timedelta(hours=1),
    )  # fmt: skip
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return certificate, key.private_bytes(serialization.Encoding.PEM, *form)


async def of_plane(name: str, plane: PlaneProcesses) -> list[Credential]:
    """Every credential that there is in a plane."""
    keys = plane.keys
    found = [
        Credential(name, leaf, wanted.authority, keys.leaves[leaf].certificate, keys.leaves[leaf].key)
        for leaf, wanted in leaves(plane.spec).items()
        if wanted.usage is not Usage.SERVER
    ]
    for wanted in (controller_credential(), etcd_credential()):
        pair = issue.issue(wanted, keys.authorities[wanted.authority], datetime.now(UTC))
        found.append(Credential(name, f"controller at {wanted.authority}", wanted.authority, pair.certificate, pair.key))
    found.append(Credential(name, "alice", "users", *person(keys)))
    async with Client(plane.admin, user_agent="tests", field_manager="tests") as client:
        found.append(Credential(name, "account", "token", token=await token_of(client)))
    return found


async def token_of(client: Client) -> str:
    with contextlib.suppress(AlreadyExists):
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "someone"}}, "default")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    made = await client.create_subresource(SERVICE_ACCOUNTS, "someone", "token", body, "default")
    return str(made["status"]["token"])


async def ask(server: Server, credential: Credential | None, folder: Path, *headers: str) -> int:
    """The status that a server answers, 0 where it closes the connection."""
    context = ssl.create_default_context(cadata=server.ca.decode())
    lines = list(headers)
    if credential is not None and credential.token:
        lines.append(f"Authorization: Bearer {credential.token}")
    elif credential is not None:
        file = folder / "client.pem"
        file.write_bytes(credential.certificate + credential.key)
        context.load_cert_chain(file)
    request = "\r\n".join(["GET /api HTTP/1.1", "Host: 127.0.0.1", *lines, "", ""]).encode()
    if server.sort == "etcd":  # which speaks gRPC alone, and settles on its terms which peers it accepts
        context.set_alpn_protocols(["h2"])
        request = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0" + b"\0" * 4
    try:
        async with asyncio.timeout(SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
            try:
                writer.write(request)
                answer = await (reader.readline() if server.sort == "api" else reader.readexactly(9))
            finally:
                writer.transport.abort()
    except (OSError, ssl.SSLError, asyncio.IncompleteReadError):
        return 0
    if server.sort == "etcd":
        return 200
    return int(answer.split()[1]) if answer else 0


async def test_a_credential_opens_its_own_server_alone(
    planes: dict[str, PlaneProcesses], apiservers: Pair, tmp_path: Path
) -> None:
    credentials = [credential for name, plane in planes.items() for credential in await of_plane(name, plane)]
    async with Client(apiservers.host.admin, user_agent="tests", field_manager="tests") as client:
        credentials.append(Credential("host", "account", "token", token=await token_of(client)))
    admin = apiservers.host.admin
    assert admin.client_cert is not None
    assert admin.client_key is not None
    credentials.append(Credential("host", "admin", "client", admin.client_cert, admin.client_key))
    wrong, opened = [], 0
    for credential in credentials:
        for server in servers(planes, apiservers.host):
            status = await ask(server, credential, tmp_path)
            own = credential.owner == server.owner and OPENS[credential.sort] == server.sort
            opened += own
            if status not in ((200,) if own else (0, 401, 403)):
                wrong.append((credential.owner, credential.name, server.owner, server.sort, status))
    assert wrong == []
    assert opened >= 2 * 6 + 2, "the controls: all but certificates of the shim's and the front proxy's authority open a server"


MASTERS: Final = ("X-Remote-User: system:admin", "X-Remote-Group: system:masters")
NOBODYS: Final = {
    "no name": (),
    "an empty token": ("Authorization: Bearer ",),
    "an empty token in small letters": ("Authorization: bearer ",),
    "no scheme": ("Authorization: ",),
    "a name and a password": ("Authorization: Basic YWRtaW46YWRtaW4=",),
    "a malformed token": ("Authorization: Bearer a.b.c",),
    "two tokens": ("Authorization: Bearer a.b.c", "Authorization: Bearer d.e.f"),
    "an unsigned token": ("Authorization: Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJzeXN0ZW06bWFzdGVycyJ9.",),
    "another's name": MASTERS,
    "another's name, kept from proxies": (*MASTERS, "Connection: X-Remote-User"),
    "acting as another": ("Impersonate-User: system:admin", "Impersonate-Group: system:masters"),
    "an address of its own": ("X-Forwarded-For: 127.0.0.1", *MASTERS),
}


@pytest.mark.parametrize("name", NOBODYS)
async def test_a_header_makes_nobody_somebody(planes: dict[str, PlaneProcesses], name: str, tmp_path: Path) -> None:
    """Without a credential, and with the front proxy's certificate of another tenant, which any tenant may well have."""
    red, blue = planes["red"], planes["blue"]
    server = api_of("red", red)
    pair = blue.keys.leaves["pki-apiserver/front-proxy"]
    other = Credential("blue", "front-proxy", "front-proxy", pair.certificate, pair.key)
    assert await ask(server, None, tmp_path, *NOBODYS[name]) == 401
    assert await ask(server, other, tmp_path, *NOBODYS[name]) == 401
    own = red.keys.leaves["pki-apiserver/front-proxy"]
    if name.startswith("another's name"):
        # The control: with the certificate of the plane's own front proxy the same headers name another user.
        mine = Credential("red", "front-proxy", "front-proxy", own.certificate, own.key)
        assert await ask(server, mine, tmp_path, *NOBODYS[name]) == 200


async def test_an_account_acts_as_nobody_else(planes: dict[str, PlaneProcesses], tmp_path: Path) -> None:
    red = planes["red"]
    server = api_of("red", red)
    async with Client(red.admin, user_agent="tests", field_manager="tests") as client:
        token = await token_of(client)
    credential = Credential("red", "account", "token", token=token)
    assert await ask(server, credential, tmp_path) == 200
    assert await ask(server, credential, tmp_path, "Impersonate-User: system:admin") == 403
    # Of two tokens the first counts, and a bad one before a good one is a bad one.
    assert await ask(server, credential, tmp_path, "Authorization: Bearer a.b.c") == 401
    assert await ask(server, credential, tmp_path, *MASTERS) == 200
