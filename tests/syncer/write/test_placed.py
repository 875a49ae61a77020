"""Which pods the host placed: noted together, kept through anything but the plane's own word, and never without bound."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Conflict, NotFound, Timeout, Unavailable
from syncer.write import placed
from syncer.write.budget import WriteBudget
from syncer.write.identity import PlaneIdentity
from syncer.write.placed import KEY, MOST_RECENT, OLDER, RECENT, PlacedPods
from tests.kit.fakeclock import FakeClock


class Servers:
    """A host that keeps ConfigMaps, a plane that lists pods, and whether the plane is trusted."""

    def __init__(self) -> None:
        self.kept: dict[str, Obj] = {}
        self.pods: set[str] = set()
        self.cached: set[str] = set()
        self.writes: list[str] = []
        self.lists = 0
        self.is_trusted = True
        self.failing: Exception | None = None
        self.unanswered = False
        self._version = 0

    def syncer(self) -> PlacedPods:
        client = cast("Client", self)
        budget, identity = WriteBudget(FakeClock(), burst=1e6), cast("PlaneIdentity", self)
        return PlacedPods(client, client, "bh-red", budget=budget, identity=identity, cached=lambda: self.cached)

    async def started(self) -> PlacedPods:
        made = self.syncer()
        await made.load()
        return made

    def noted(self, name: str) -> set[str]:
        return set(self.kept[name]["data"][KEY].split())

    # -- as the host

    async def get(self, _r: Any, name: str, namespace: str) -> Obj:
        assert namespace == "bh-red"
        if name not in self.kept:
            raise NotFound(404, "host", "not found")
        return self.kept[name]

    async def create(self, _r: Any, body: Obj, namespace: str) -> Obj:
        assert namespace == "bh-red"
        if body["metadata"]["name"] in self.kept:
            raise AlreadyExists(409, "host", "exists")
        return await self._keep(body["metadata"]["name"], body)

    async def patch(self, _r: Any, name: str, body: Obj, namespace: str) -> Obj:
        assert namespace == "bh-red"
        if name not in self.kept:
            raise NotFound(404, "host", "not found")
        if body["metadata"]["resourceVersion"] != self.kept[name]["metadata"]["resourceVersion"]:
            raise Conflict(409, "host", "changed")
        return await self._keep(name, body)

    async def _keep(self, name: str, body: Obj) -> Obj:
        await asyncio.sleep(0)
        if self.failing is not None:
            raise self.failing
        self._version += 1
        self.writes.append(name)
        self.kept[name] = {"metadata": {"name": name, "resourceVersion": str(self._version)}, "data": body["data"]}
        if self.unanswered:
            self.unanswered = False
            raise Timeout("no answer")
        return self.kept[name]

    # -- as the plane

    async def list_metadata(self, _r: Any) -> Any:
        self.lists += 1
        if self.failing is not None:
            raise self.failing
        return SimpleNamespace(items=[{"metadata": {"uid": uid}} for uid in self.pods])

    async def trusted(self) -> bool:
        return self.is_trusted


@pytest.fixture
def servers() -> Servers:
    return Servers()


async def many(record: PlacedPods, *uids: str) -> None:
    for uid in uids:
        await record.note(uid)


async def test_what_was_noted_is_known_to_the_next_syncer(servers: Servers) -> None:
    first = await servers.started()
    assert "v1" not in first
    await first.note("v1")
    assert "v1" in first
    assert "v1" in await servers.started()
    assert "v2" not in await servers.started()


async def test_those_that_wait_together_are_one_write(servers: Servers) -> None:
    record = await servers.started()
    await asyncio.gather(*(record.note(f"v{number}") for number in range(16)))
    # The first is under way when the others come.
    assert servers.writes == [RECENT, RECENT]
    await record.note("v3")
    assert len(servers.writes) == 2, "noted already"


async def test_it_is_not_known_before_it_is_on_the_host(servers: Servers) -> None:
    record = await servers.started()
    servers.failing = Unavailable(503, "host", "etcd")
    with pytest.raises(Unavailable):
        await record.note("v1")
    assert "v1" not in record
    servers.failing = None
    await record.note("v2")
    assert servers.noted(RECENT) == {"v1", "v2"}, "it was placed all the same"


async def test_an_answer_that_was_lost_and_an_outside_hand_lose_nothing(servers: Servers) -> None:
    record = await servers.started()
    await record.note("v1")
    servers.unanswered = True
    with pytest.raises(Timeout):
        await record.note("v2")
    await record.note("v3")
    assert servers.noted(RECENT) == {"v1", "v2", "v3"}
    del servers.kept[RECENT]
    await record.note("v4")
    assert servers.noted(RECENT) == {"v1", "v2", "v3", "v4"}, "what this process knows is written again"


async def test_two_syncers_that_overlap_keep_what_either_noted(servers: Servers) -> None:
    one, other = await servers.started(), await servers.started()
    await one.note("v1")
    await other.note("v2")
    await one.note("v3")
    assert servers.noted(RECENT) == {"v1", "v2", "v3"}


async def test_the_recent_are_few_and_the_others_are_kept_too(servers: Servers) -> None:
    record = await servers.started()
    uids = [f"v{number}" for number in range(3 * MOST_RECENT + 5)]
    servers.cached = servers.pods = set(uids)
    await many(record, *uids)
    assert len(servers.noted(RECENT)) <= MOST_RECENT
    assert servers.writes.count(OLDER) == 3
    assert servers.lists == 0, "the cache shows them all"
    later = await servers.started()
    assert all(uid in later for uid in uids)


@pytest.mark.parametrize("unanswered", [RECENT, OLDER])
async def test_a_fold_that_breaks_off_loses_nothing(servers: Servers, unanswered: str) -> None:
    record = await servers.started()
    uids = [f"v{number}" for number in range(MOST_RECENT + 1)]
    servers.cached = set(uids)
    await many(record, *uids[:-1])
    keep = servers._keep

    async def dies(name: str, body: Obj) -> Obj:
        if name == unanswered:
            raise Timeout("the process is killed here")
        return await keep(name, body)

    servers._keep = dies  # type: ignore[method-assign]
    with pytest.raises(Timeout):
        await record.note(uids[-1])
    later = await servers.started()
    assert all(uid in later for uid in uids[:-1])


async def test_what_the_plane_itself_has_no_more_is_left_out(servers: Servers) -> None:
    record = await servers.started()
    servers.pods = {"stays", "unseen"}
    servers.cached = {"stays"}
    await many(record, "stays", "unseen", *(f"gone-{number}" for number in range(5 * MOST_RECENT)))
    kept = servers.noted(RECENT) | servers.noted(OLDER)
    assert {"stays", "unseen"} <= kept, "a cache that is behind proves nothing"
    assert len(kept) <= 2 * MOST_RECENT + 2
    assert 0 < servers.lists <= 5


async def test_a_plane_that_is_not_trusted_or_silent_takes_nothing_away(servers: Servers) -> None:
    uids = [f"gone-{number}" for number in range(2 * MOST_RECENT)]
    record = await servers.started()
    servers.is_trusted = False
    await many(record, *uids)
    assert servers.noted(RECENT) | servers.noted(OLDER) == set(uids)
    servers.is_trusted = True

    async def silent(_r: Any) -> Any:
        raise Timeout("no answer")

    servers.list_metadata = silent  # type: ignore[method-assign]
    await many(record, *(f"more-{number}" for number in range(2 * MOST_RECENT)))
    assert len(servers.noted(RECENT) | servers.noted(OLDER)) == 4 * MOST_RECENT


async def test_it_stays_within_its_bound_and_goes_on(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placed, "MOST_BYTES", 4000)
    record = await servers.started()
    uids = [f"v{number:04}" for number in range(8 * MOST_RECENT)]
    servers.cached = servers.pods = set(uids)
    await many(record, *uids)
    assert all(len(each["data"][KEY]) <= 4000 for each in servers.kept.values())
    assert all(uid in record for uid in uids), "what has no room is known while the process lives"
    servers.cached = servers.pods = set(uids[-10:])
    await many(record, *(f"w{number:04}" for number in range(2 * MOST_RECENT)))
    assert set(uids[-10:]) <= servers.noted(OLDER), "there is room again"
