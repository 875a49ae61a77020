"""Level 2: every credential of a tenant at every endpoint of others and of the host (D6), and headers that name others (D8).

`identities.yaml` says which credential opens which endpoint; each pair is tried, and every other one is refused: 401, 403 or no
connection. The controls: each credential opens what the data say, and each endpoint is opened by one.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from bulkhead.kube.client import Client
from controller.plane.spec import API_SERVER
from tests.adversarial import identities, rows
from tests.adversarial.identities import DATA, SPECS, Credential, Endpoint, api_of, ask, opens, token_of
from tests.kit.planeprocess import ETCD, PlaneProcesses
from tests.kit.proxying import proxy
from tests.kit.servers import ApiServer, running
from tests.kit.syncerbed import until

pytestmark = pytest.mark.apiserver
REFUSED: Final = (0, 401, 403)
AT_ONCE: Final = 6


@pytest.fixture(scope="module")
def planes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, PlaneProcesses]]:
    made = {name: PlaneProcesses(tmp_path_factory.mktemp(name), spec) for name, spec in SPECS.items()}
    try:
        for plane in made.values():
            plane.start(ETCD, API_SERVER)
        for plane in made.values():
            plane.wait()
        yield made
    finally:
        for plane in made.values():
            plane.stop()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running("identities", tmp_path_factory.mktemp("identities")) as server:
        asyncio.run(identities.prepare(server))
        yield server


@pytest.fixture(scope="module")
def credentials(planes: dict[str, PlaneProcesses], host: ApiServer) -> dict[tuple[str, str], Credential]:
    async def made() -> list[Credential]:
        of_planes = [found for name, plane in planes.items() for found in await identities.of_plane(name, plane)]
        return [*of_planes, *await identities.of_host(host)]

    return {(credential.owner, credential.name): credential for credential in asyncio.run(made())}


@pytest.fixture
async def endpoints(planes: dict[str, PlaneProcesses], host: ApiServer, tmp_path: Path) -> AsyncIterator[list[Endpoint]]:
    async with (
        identities.gpu_source(host) as source,
        identities.shim(planes["red"], host, tmp_path / "red", source) as red,
        identities.shim(planes["blue"], host, tmp_path / "blue", source) as blue,
        proxy(tmp_path, identities.routes(planes)) as door,
    ):
        yield identities.endpoints(planes, host, {"red": red, "blue": blue}, door=door.port, source=source)


PAIRS: Final = [(owner, name) for owner in (*SPECS, "host") for name in identities.names_of(owner)]


async def judged(credential: Credential, endpoint: Endpoint, folder: Path) -> str:
    """What is wrong with an endpoint's answer to a credential; empty if it is as the data say."""
    pair = f"{credential.name} of {credential.owner} at {endpoint.name} of {endpoint.owner}"
    if not opens(credential, endpoint):
        status = await ask(endpoint, credential, folder)
        return "" if status in REFUSED else f"{pair}: {status}"

    async def opened() -> bool:
        return await ask(endpoint, credential, folder) == 200

    # An API server learns of new rights a moment later.
    await until(opened, pair)
    return ""


@pytest.mark.parametrize("owner", [*SPECS, "host"])
async def test_a_credential_opens_its_own_endpoints_alone(
    credentials: dict[tuple[str, str], Credential], endpoints: list[Endpoint], tmp_path: Path, owner: str
) -> None:
    slots = asyncio.Semaphore(AT_ONCE)

    async def tried(credential: Credential) -> list[str]:
        async with slots:
            return [await judged(credential, endpoint, tmp_path) for endpoint in endpoints]

    mine = [credential for credential in credentials.values() if credential.owner == owner]
    answers = [text for found in await asyncio.gather(*map(tried, mine)) for text in found]
    assert len(answers) == len(identities.names_of(owner)) * len(endpoints)
    assert [text for text in answers if text] == []


async def test_without_a_credential_no_endpoint_opens(endpoints: list[Endpoint], tmp_path: Path) -> None:
    answers = {(endpoint.owner, endpoint.name): await ask(endpoint, None, tmp_path) for endpoint in endpoints}
    assert {place: status for place, status in answers.items() if status not in REFUSED} == {}


async def test_the_data_have_every_credential_and_every_endpoint_is_opened_by_one(
    credentials: dict[tuple[str, str], Credential], endpoints: list[Endpoint]
) -> None:
    assert sorted(credentials) == sorted(PAIRS)
    for endpoint in endpoints:
        assert any(opens(credential, endpoint) for credential in credentials.values()), endpoint.name
    for kind in ("tenant", "host"):
        for name, entry in DATA[kind].items():
            named = {*entry.get("own", ()), *entry.get("all", ())}
            assert named <= DATA["endpoints"].keys(), name
            assert named or rows.exists(entry["elsewhere"]), f"{name} opens nothing, and no test shows what it opens"
    # Nothing of a tenant opens anything of another, or anything of the host but what every account may see there.
    assert {name for entry in DATA["tenant"].values() for name in entry.get("all", ())} == {
        "host-api",
        "host-nodes",
        "gpu-source",  # where each gets its own samples alone
        "pod-figures",  # the same
    }


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
    other = Credential("blue", "front-proxy", pair.certificate, pair.key)
    assert await ask(server, None, tmp_path, *NOBODYS[name]) == 401
    assert await ask(server, other, tmp_path, *NOBODYS[name]) == 401
    own = red.keys.leaves["pki-apiserver/front-proxy"]
    if name.startswith("another's name"):
        # The control: with the certificate of the plane's own front proxy the same headers name another user.
        mine = Credential("red", "front-proxy", own.certificate, own.key)
        assert await ask(server, mine, tmp_path, *NOBODYS[name]) == 200


async def test_an_account_acts_as_nobody_else(planes: dict[str, PlaneProcesses], tmp_path: Path) -> None:
    red = planes["red"]
    server = api_of("red", red)
    async with Client(red.admin, user_agent="tests", field_manager="tests") as client:
        token = await token_of(client)
    credential = Credential("red", "account", token=token)
    assert await ask(server, credential, tmp_path) == 200
    assert await ask(server, credential, tmp_path, "Impersonate-User: system:admin") == 403
    # Of two tokens the first counts, and a bad one before a good one is a bad one.
    assert await ask(server, credential, tmp_path, "Authorization: Bearer a.b.c") == 401
    assert await ask(server, credential, tmp_path, *MASTERS) == 200
