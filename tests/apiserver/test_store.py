"""A full store, on the real programs with a plane's own flags: it is reported, its tenant can delete, and it opens again."""

import os
import time
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from bulkhead.api.conditions import Reason
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, ApiError
from bulkhead.kube.resources import CONFIG_MAPS, NAMESPACES
from bulkhead.work.clock import SystemClock
from controller.inside.etcdaccess import EtcdAccess
from controller.inside.planemetrics import METRICS_ANSWER_BYTES
from controller.inside.stores import Stores
from controller.plane.contents import Contents, contents_of
from controller.plane.spec import API_SERVER, ETCD_HTTP_PORT
from controller.plane.storestate import Store, must_go
from controller.tenant.facets.store import report as words
from tests.kit.planeprocess import ETCD, POD_IP, PlaneProcesses, answering
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import plane_spec

pytestmark = [pytest.mark.apiserver, pytest.mark.stores, pytest.mark.timeout(1200)]
SPEC = plane_spec(storage={"quota_mib": 24})
QUOTA = SPEC.storage.quota_mib << 20
PODS = {"plane-0": POD_IP}
SPACE = "default"
_NO_SPACE = "database space exceeded"


class Later(SystemClock):
    """The machine's clock, whose passing seconds a test adds to."""

    added = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.added


class Look:
    """The controller's looks at one store."""

    def __init__(self, plane: PlaneProcesses) -> None:
        self.plane, self.clock = plane, Later()
        self.spec, self.last = SPEC, Store()
        self.access = EtcdAccess(self.clock, port=plane.ports[ETCD_HTTP_PORT])
        self.stores = Stores(self.clock, lambda _: None, access=self.access)

    async def again(self) -> Store:
        """Half a minute after the look before, or after the pause of a store that is filled again and again."""
        self.clock.added += 1800.0 if self.last.rests_until else 30.0
        self.last = await self.stores.look(self.spec, self.plane.keys, PODS)
        return self.last

    async def until(self, holds: Callable[[Store], bool], what: str) -> Store:
        """Looks, each half a minute after the one before, until one shows what it should."""

        async def check() -> Store | None:
            found = await self.again()
            return found if holds(found) else None

        store: Store = await until(check, what)
        return store


@pytest.fixture
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlaneProcesses]:
    with answering(tmp_path_factory.mktemp("plane"), SPEC) as processes:
        yield processes


@pytest.fixture
async def client(plane: PlaneProcesses) -> AsyncIterator[Client]:
    async with Client(plane.admin, user_agent="tenant", field_manager="tenant") as made:
        yield made


@pytest.fixture
async def look(plane: PlaneProcesses) -> AsyncIterator[Look]:
    made = Look(plane)
    yield made
    await made.stores.close()


def large(name: str) -> Obj:
    return {"metadata": {"name": name, "namespace": SPACE}, "data": {"text": os.urandom(450_000).hex()}}


# Each look compacts and defragments, which is slow beside other work.
BRIM_SECONDS = 600.0


class Filling:
    """What a tenant makes until its API refuses, and what that says."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.made: list[str] = []
        self.said = ""

    async def more(self) -> None:
        """As much as there is room for."""
        for _ in range(100):
            name = f"large-{len(self.made)}"
            try:
                await self.client.create(CONFIG_MAPS, large(name))
            except AlreadyExists:
                # etcd stores the object that exceeds its quota, and still answers that its space is exceeded.
                pass
            except ApiError as error:
                if _NO_SPACE not in str(error):
                    raise
                self.said = str(error)
                return
            self.made.append(name)
        raise AssertionError(f"a store of {SPEC.storage.quota_mib} MiB took 90 MB")

    async def to_the_brim(self, look: Look) -> Store:
        """Until nothing is left to be made of holes and old versions: two looks in a row show the same."""
        before = Store()

        async def check() -> Store | None:
            nonlocal before
            await self.more()
            # While room is being made, the earlier finding is reported again.
            found, seen = await look.again(), before
            before = found
            same = found is not seen and (found.revision, found.size, found.used) == (seen.revision, seen.size, seen.used)
            return found if found.full and must_go(found) and same else None

        store: Store = await until(check, "a store that is full, and not of holes", BRIM_SECONDS)
        return store


async def test_a_store_that_is_full_says_so_and_opens_once_its_tenant_has_deleted_enough(client: Client, look: Look) -> None:
    before = await look.again()
    assert (before.unread, before.full, 0 < before.used <= before.size < QUOTA // 2) == ("", False, True)
    assert words.verdict(SPEC, before).reason is Reason.READY
    await client.create(NAMESPACES, {"metadata": {"name": "going"}})
    filling = Filling(client)
    full = await filling.to_the_brim(look)
    made = filling.made
    assert _NO_SPACE in filling.said  # what users of the tenant read, as docs/upgrading.md has it
    verdict = words.verdict(SPEC, full)
    assert (full.full, verdict.status, verdict.reason) == (True, "False", Reason.STORE_FULL)
    assert "must be freed" in verdict.message
    assert words.FIELD in verdict.message

    async def counted() -> Contents | None:
        found = contents_of(
            await client.transport.request("GET", "/metrics", accept="text/plain", max_body=METRICS_ANSWER_BYTES)
        )
        return found if found.kinds and found.kinds[0].name == "configmaps" and found.kinds[0].count >= len(made) else None

    # The API server counts once a minute.
    found: Contents = await until(counted, "the API server has counted", 150.0)
    assert found.kinds[0].size >= len(made) * 900_000
    assert "most is in configmaps" in words.verdict(SPEC, full, found).message
    # However often it is looked at: nothing was deleted, so nothing opens.
    assert (await look.again()).full
    # What writes before it deletes waits for room.
    with pytest.raises(ApiError, match=_NO_SPACE):
        await client.delete(NAMESPACES, "going")
    for name in made[: len(made) * 2 // 3]:
        await client.delete(CONFIG_MAPS, name, SPACE)

    opened = await look.until(lambda store: bool(store.members) and not store.full, "the store opens")
    assert opened.size <= QUOTA * 0.9, "the next write would close it again"
    await client.create(CONFIG_MAPS, large("after"))
    assert {obj["metadata"]["name"] for obj in (await client.list(CONFIG_MAPS, SPACE)).items} > {"after", made[-1]}


async def test_a_file_that_is_mostly_holes_is_rewritten_before_it_is_full(client: Client, look: Look) -> None:
    for number in range(18):
        await client.create(CONFIG_MAPS, large(f"large-{number}"))
    for number in range(16):
        await client.delete(CONFIG_MAPS, f"large-{number}", SPACE)
    holes = await look.again()
    assert (holes.size > QUOTA * 0.7, holes.full) == (True, False)
    # Compaction comes by itself, from etcd or its API server, minutes later.
    await compact(look, holes.revision)
    await look.until(lambda store: bool(store.members) and store.size < QUOTA // 3, "the file is rewritten")


async def test_what_is_full_of_old_versions_opens_without_a_deletion(client: Client, look: Look) -> None:
    await client.create(CONFIG_MAPS, large("often"))

    async def rewrite() -> None:
        for _ in range(100):
            await client.replace(CONFIG_MAPS, large("often"))

    with pytest.raises(ApiError, match=_NO_SPACE):
        await rewrite()
    assert (await look.again()).full
    await look.until(lambda store: bool(store.members) and not store.full, "the store opens")
    await client.replace(CONFIG_MAPS, large("often"))


async def test_a_store_that_does_not_answer_is_unknown_and_not_empty(plane: PlaneProcesses, look: Look) -> None:
    plane.kill(ETCD)
    found = await look.again()
    assert "plane-0" in found.unread
    assert words.verdict(SPEC, found).status == "Unknown"


async def test_a_larger_quota_opens_a_full_store(plane: PlaneProcesses, client: Client, look: Look) -> None:
    await Filling(client).to_the_brim(look)
    # etcd keeps its alarm over a restart, with whatever quota.
    larger = plane_spec(storage={"quota_mib": 64})
    plane.kill()
    plane.spec = larger
    plane.start(ETCD, API_SERVER)
    plane.wait()
    look.spec = larger
    await look.until(lambda store: bool(store.members) and not store.full, "the store opens")
    await client.create(CONFIG_MAPS, large("after"))


async def compact(look: Look, revision: int) -> None:
    etcd = await look.access.etcd(look.spec.tenant, look.plane.keys, "plane-0", PODS["plane-0"])
    await etcd.compact(revision)
