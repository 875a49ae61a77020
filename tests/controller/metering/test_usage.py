"""Metering on a real API server: what is stored by controllers that die at any write, that overlap, that come back late."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bulkhead.api import labels, ledger, names
from bulkhead.api.objects import Obj
from bulkhead.api.quotalines import ReservedRoom
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Timeout
from bulkhead.metering import usagebook
from bulkhead.metering.load import Load, LoadMeter
from bulkhead.metering.meter import HOUR, UsageKey
from bulkhead.metering.usagebook import Page, Sums
from controller.metering import metrics
from controller.metering.reservations import Reservations
from controller.metering.store import OvertakenError, UsageStore
from controller.metering.usage import Usage
from controller.metering.utilisation import Utilisation
from controller.settings import Settings
from tests.kit import lag
from tests.kit.background import background
from tests.kit.fakeclock import FakeClock
from tests.kit.syncerbed import until

pytestmark = pytest.mark.apiserver
GPU = "nvidia.com/gpu"
START = datetime(2026, 11, 1, 12, 0, 0, tzinfo=UTC)


class Host:
    """Namespaces of one tenant and of a system on a real API server, and a clock that the test moves."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.tenant = f"t{secrets.token_hex(4)}"
        self.work = names.work_namespace(self.tenant)
        self.system = f"system-{self.tenant}"
        self.clock = FakeClock(START)
        self.since: dict[str, float] = {}

    def moment(self) -> float:
        return self.clock.now().timestamp()

    async def run(self, name: str, gpus: int = 1, **more: Any) -> None:
        """Bind a pod now, by the test's clock, which the stamps in its status go by; its container starts 10 s later."""
        noted = {labels.VIRTUAL_NAMESPACE: "ml", labels.VIRTUAL_NAME: name, labels.VIRTUAL_UID: f"{name}-virtual"}
        meta = {"name": name, "labels": {labels.SYNCED: "syncer"}, "annotations": noted}
        container = {"name": "c", "image": "x", "resources": {"limits": {GPU: gpus} if gpus else {}}}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0} | more
        await self.client.create(kinds.PODS, {"metadata": meta, "spec": spec}, self.work)
        self.since[name] = self.moment()
        await self.say(name, "Running", {"running": {"startedAt": whole(self.since[name] + 10)}})
        target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await self.client.create_subresource(kinds.PODS, name, "binding", binding, self.work)

    async def say(self, name: str, phase: str, state: Obj) -> None:
        bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": whole(self.since[name])}
        containers = [{"name": "c", "image": "x", "imageID": "", "ready": True, "restartCount": 0, "state": state}]
        status = {"phase": phase, "conditions": [bound], "containerStatuses": containers}
        await self.client.patch(kinds.PODS, name, {"status": status}, self.work, subresource="status")

    async def end(self, name: str) -> None:
        began = whole(self.since[name] + 10)
        await self.say(
            name, "Succeeded", {"terminated": {"exitCode": 0, "startedAt": began, "finishedAt": whole(self.moment())}}
        )

    async def delete(self, name: str) -> None:
        await self.client.delete(kinds.PODS, name, self.work, grace_seconds=0)

    def usage(self, client: Client | None = None, **more: Any) -> Usage:
        self.metered = Usage(client or self.client, self.system, clock=self.clock, **more)
        return self.metered

    async def caught_up(self) -> None:
        """Wait until the last one that was made has seen what there is: what it sees later it counts from then on."""
        usage = self.metered

        async def so() -> bool:
            copies = [usage._pods, *([usage._claims._informer] if usage._claims.watched else [])]
            return all([await lag.caught_up(copy) for copy in copies])

        await until(so, "what there is to be seen")

    async def pages(self) -> list[Page]:
        listed = await self.client.list(kinds.CONFIG_MAPS, self.system, label_selector=labels.USAGE)
        return usagebook.newest(usagebook.page_of(config_map) for config_map in listed.items)

    async def sums(self) -> dict[str, Sums]:
        """By owner, in whole seconds."""
        rows = [row for page in await self.pages() for row in page.rows()]
        found = usagebook.summed(rows, 0, lambda account: account)
        assert {account.tenant for account in found} <= {self.tenant}
        return {account.owner: Sums(*(round(amount / 1000) for amount in sums)) for account, sums in found.items()}

    async def sums_are(self, **owners: tuple[int, int]) -> None:
        wanted = {f"Pod/{name}": Sums(*both, 0) for name, both in owners.items()}

        async def so() -> bool:
            return await self.sums() == wanted

        try:
            await until(so, "sums")
        except AssertionError:
            assert await self.sums() == wanted

    async def pass_time(self, seconds: float, *, counted: bool = True) -> None:
        """Let time pass in steps at each of which the sleeping controller wakes."""
        while seconds > 0:
            step = min(seconds, 60.0)
            if counted:
                await until(self._sleeps, "the controller to sleep")
                await self.caught_up()
            self.clock.advance(step)
            seconds -= step
        if counted:
            await until(self._sleeps, "the controller to sleep")

    async def _sleeps(self) -> bool:
        return self.clock.sleepers > 0

    async def seen(self, usage: Usage, count: int) -> None:
        async def so() -> bool:
            return usage._meter is not None and len(usage._meter._known) == count

        await until(so, f"{count} pods to be seen")


def whole(at: float) -> str:
    return ledger.moment(at)[:19] + "Z"


@pytest.fixture
async def host(host_client: Client) -> AsyncIterator[Host]:
    made = Host(host_client)
    for name in (made.work, made.system):
        await host_client.create(kinds.NAMESPACES, {"metadata": {"name": name}})
    yield made
    for pod in (await host_client.list(kinds.PODS, made.work)).items:
        await made.delete(pod["metadata"]["name"])
    for config_map in (await host_client.list(kinds.CONFIG_MAPS, made.system, label_selector=labels.USAGE)).items:
        await host_client.delete(kinds.CONFIG_MAPS, config_map["metadata"]["name"], made.system)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pods of other tests on the same server are other tenants', and none of ours."""
    metrics._series.clear()
    return None


async def test_what_pods_hold_is_stored_by_owner_and_goes_on_over_a_restart(host: Host) -> None:
    usage = host.usage()
    async with background(usage.run()):
        await host.seen(usage, 0)
        await host.run("a", 2)
        await host.run("b")
        await host.seen(usage, 2)
        await host.pass_time(60)
        await host.sums_are(a=(80, 20), b=(40, 10))
    await host.pass_time(600, counted=False)
    await host.end("b")
    await host.pass_time(600, counted=False)
    usage = host.usage()
    async with background(usage.run()):
        await host.seen(usage, 2)
        await host.pass_time(60)
        await host.sums_are(a=(2 * (60 + 1200 + 60 - 20), 20), b=(650, 10))
        await host.delete("b")
        await host.delete("a")
        await until(lambda: _gone(usage), "both ends to be seen")
        await host.pass_time(60)
        await host.sums_are(a=(2 * (60 + 1200 + 60 - 10), 20), b=(650, 10))
    value = metrics.seconds.labels(host.tenant, GPU, "", "used")._value.get()
    assert value == 2 * (60 + 1200 + 60 - 10) + 650


async def test_a_process_whose_clock_is_behind_the_last_ones_counts_nothing_twice(host: Host) -> None:
    usage = host.usage()
    async with background(usage.run()):
        await host.seen(usage, 0)
        await host.run("a")
        await host.seen(usage, 1)
        await host.pass_time(60)
        await host.sums_are(a=(40, 10))
    # Another machine leads, and five minutes pass by its clock until it is where the first one was.
    host.clock = FakeClock(START - timedelta(seconds=240))
    usage = host.usage()
    async with background(usage.run()):
        await host.seen(usage, 1)
        await host.pass_time(360)
        await host.sums_are(a=(100, 10))


async def test_what_is_reserved_is_stored_and_is_not_counted_again_after_a_restart(host: Host) -> None:
    room = ReservedRoom(host.tenant, "ml", "Job/waits", {("h100", GPU): 3})
    reservations = Reservations(host.clock)
    usage = host.usage(reserved=reservations.count)
    async with background(usage.run()):
        await host.seen(usage, 0)
        reservations.show([room])
        await host.pass_time(60)
        # Known up to the last decision alone.
        assert await host.sums() == {}
        reservations.show([room])
        await host.pass_time(60)
        assert await host.sums() == {"Job/waits": Sums(reserved=180)}
        reservations.show([])
        await host.pass_time(60)
        assert await host.sums() == {"Job/waits": Sums(reserved=360)}
    reservations.show([room])
    # The process is gone; the next one is told of the room later, and that it is released.
    await host.pass_time(600, counted=False)
    reservations = Reservations(host.clock)
    usage = host.usage(reserved=reservations.count)
    async with background(usage.run()):
        await host.seen(usage, 0)
        reservations.show([room])
        await host.pass_time(60)
        reservations.show([])
        await host.pass_time(60)
        assert await host.sums() == {"Job/waits": Sums(reserved=540)}
    assert metrics.reserved_seconds.labels(host.tenant, GPU, "h100")._value.get() == 540
    assert metrics.seconds.labels(host.tenant, GPU, "h100", "idle")._value.get() == 0


async def test_what_is_reserved_is_not_counted_by_a_process_that_was_overtaken(host: Host) -> None:
    room = ReservedRoom(host.tenant, "ml", "Job/waits", {("", GPU): 1})
    reservations = Reservations(host.clock)
    usage = host.usage(reserved=reservations.count)
    async with background(usage.run()):
        await host.seen(usage, 0)
        reservations.show([room])
        await host.pass_time(60)
        other = UsageStore(host.client, host.system, "other")
        page = await other.open(round(host.moment() * 1000))
        await other.save(page)
        reservations.show([room])
        await host.pass_time(60)
        reservations.show([])
        await host.pass_time(60)
        # The first minute was on the page that another process had written meanwhile.
        assert await host.sums() == {"Job/waits": Sums(reserved=60)}


async def test_a_pod_that_vanished_unseen_ends_when_it_was_last_counted(host: Host) -> None:
    usage = host.usage()
    async with background(usage.run()):
        await host.seen(usage, 0)
        await host.run("a")
        await host.seen(usage, 1)
        await host.pass_time(120)
        await host.sums_are(a=(100, 10))
    await host.delete("a")
    await host.pass_time(600, counted=False)
    usage = host.usage()
    async with background(usage.run()):
        await host.seen(usage, 0)
        await host.pass_time(60)
        await host.sums_are(a=(100, 10))


class Dying:
    """A client whose controller is killed right before or right after the host did its Nth write."""

    def __init__(self, client: Client, fatal: int, *, after: bool) -> None:
        self._client = client
        self._fatal = fatal
        self._after = after
        self.writes = 0
        self.died = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        return self._deadly(found) if name in {"create", "patch", "delete"} else found

    def _deadly(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def write(*arguments: Any, **more: Any) -> Any:
            self.writes += 1
            if self.died.is_set() or (self.writes == self._fatal and not self._after):
                self.died.set()
                await asyncio.Event().wait()
            answer = await call(*arguments, **more)
            if self.writes == self._fatal:
                self.died.set()
                await asyncio.Event().wait()
            return answer

        return write


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("fatal", range(2, 8))
async def test_a_controller_that_is_killed_at_any_write_counts_nothing_twice_and_loses_nothing(
    host: Host, fatal: int, *, after: bool
) -> None:
    """Over midnight, so that a page is closed and the next one begun among the writes; the first one says that it begins."""
    host.clock.advance(12 * 3600 - 90)
    deadly = Dying(host.client, fatal, after=after)
    usage = host.usage(deadly)  # type: ignore[arg-type]
    async with background(usage.run()):
        await host.seen(usage, 0)
        await host.run("a", 3)
        await host.seen(usage, 1)
        for _ in range(5):
            if deadly.died.is_set():
                break
            host.clock.advance(60)
            await until(lambda: _either(deadly, host), "the write or the end")
    assert deadly.died.is_set() == (deadly.writes >= fatal)
    passed = host.moment() - host.since["a"]
    usage = host.usage()
    async with background(usage.run()):
        await host.seen(usage, 1)
        await host.pass_time(180)
        await host.sums_are(a=(round(3 * (passed + 180 - 20)), 30))


async def _either(deadly: Dying, host: Host) -> bool:
    return deadly.died.is_set() or host.clock.sleepers > 0


async def test_of_two_writers_one_starts_again(host: Host) -> None:
    one, other = (UsageStore(host.client, host.system, name) for name in ("one", "other"))
    page = await one.open(5 * HOUR)
    await one.save(page)
    theirs = await other.open(6 * HOUR)
    assert (theirs.number, theirs.until) == (1, 5 * HOUR)
    theirs.until = 6 * HOUR
    await other.save(theirs)
    with pytest.raises(OvertakenError):
        await one.save(page)
    assert (await one.open(7 * HOUR)).until == 6 * HOUR


async def test_a_page_that_is_there_already_is_written_over_only_by_more(host: Host) -> None:
    """A controller that was stopped before it closed, and did not know that another had gone on."""
    late, leader = (UsageStore(host.client, host.system, name) for name in ("late", "leader"))
    page = await late.open(HOUR)
    stored = await late.save(page)
    theirs = await leader.open(HOUR)
    theirs.until = 2 * HOUR
    await leader.close(theirs, await leader.save(theirs))
    with pytest.raises(OvertakenError):
        await late.close(page, stored)
    assert [(page.number, page.until) for page in await host.pages()] == [(1, 2 * HOUR), (2, 2 * HOUR)]


async def test_old_pages_go_by_age_and_what_cannot_be_read_stops_nothing(host: Host) -> None:
    store = UsageStore(host.client, host.system, "w")
    page = await store.open(HOUR)
    page = await store.close(page, await store.save(page))
    page.until = 390 * 24 * HOUR
    page = await store.close(page, await store.save(page))
    await store.tidy(420 * 24 * HOUR)
    assert [page.number for page in await host.pages()] == [2, 3]
    await host.client.patch(kinds.CONFIG_MAPS, names.USAGE_OPEN, {"binaryData": {"page": "AAAA"}}, host.system)
    assert (await store.open(401 * 24 * HOUR)).number == 3
    await host.client.delete(kinds.CONFIG_MAPS, names.USAGE_OPEN, host.system)
    again = await store.open(395 * 24 * HOUR)
    assert (again.number, again.until) == (3, 390 * 24 * HOUR)


class Silent:
    """A client to whose Nth patch no answer comes, although the host did it."""

    def __init__(self, client: Client, lost: int) -> None:
        self._client = client
        self._lost = lost

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def patch(self, *arguments: Any, **more: Any) -> Any:
        answer = await self._client.patch(*arguments, **more)
        self._lost -= 1
        if self._lost == 0:
            raise Timeout("no answer")
        return answer


async def test_a_write_to_which_no_answer_came_is_known_again(host: Host) -> None:
    usage = host.usage(Silent(host.client, 2))  # type: ignore[arg-type]
    async with background(usage.run()):
        await host.seen(usage, 0)
        await host.run("a")
        await host.seen(usage, 1)
        await host.pass_time(240)
        await host.sums_are(a=(220, 10))
        await host.delete("a")
        await until(lambda: _gone(usage), "the end to be seen")
        await host.pass_time(120)
        await host.sums_are(a=(230, 10))


async def _gone(usage: Usage) -> bool:
    assert usage._meter is not None
    return all(known.gone for known in usage._meter._known.values())


async def test_a_worker_without_a_job_is_idle(host: Host) -> None:
    usage = host.usage(resting=lambda: {(host.tenant, "a-virtual")})
    async with background(usage.run()):
        await host.seen(usage, 0)
        await host.run("a")
        await host.seen(usage, 1)
        await host.pass_time(60)
        await host.sums_are(a=(0, 50))


async def test_a_tenant_that_takes_a_former_ones_name_is_counted_on_pages_of_its_own(host: Host) -> None:
    holders = {host.tenant: "first"}

    async def seconds() -> list[tuple[str, int]]:
        rows = [(page.holders.get(host.tenant, ""), sums) for page in await host.pages() for _, _, sums in page.rows()]
        return [(uid, round((sums.used + sums.idle) / 1000)) for uid, sums in rows]

    usage = host.usage(holders=lambda: holders)
    async with background(usage.run()):
        await host.seen(usage, 0)
        await host.run("a")
        await host.seen(usage, 1)
        await host.pass_time(60)
        await host.delete("a")
        await until(lambda: _gone(usage), "the end to be seen")
        # The last ten seconds of the first one are not counted yet.
        holders[host.tenant] = "second"
        await host.pass_time(60)
        await host.run("a")
        await host.seen(usage, 1)
        await host.pass_time(60)
        assert await seconds() == [("first", 60), ("second", 50)]
    # One that begins later finds it so, too.
    holders[host.tenant] = "third"
    usage = host.usage(holders=lambda: holders)
    async with background(usage.run()):
        await host.seen(usage, 1)
        await host.pass_time(60)
        assert await seconds() == [("first", 60), ("second", 50), ("third", 60)]


async def test_the_measured_load_of_pods_is_stored_with_what_they_held(host: Host) -> None:
    await host.run("a", gpus=2)
    uid = (await host.client.get(kinds.PODS, "a", host.work))["metadata"]["uid"]
    load = LoadMeter()
    usage = host.usage(load=load.count)
    async with background(usage.run()):
        await host.seen(usage, 1)
        load.see({uid: Load(2, 0.5), "of no tenant": Load(8, 8.0)}, round(host.moment() * 1000))
        await host.pass_time(60)
        load.see({}, round(host.moment() * 1000))
        await host.pass_time(60)
        sums = await host.sums()
    assert (sums["Pod/a"].measured, sums["Pod/a"].busy) == (120, 30)
    assert set(sums) == {"Pod/a"}
    series = (host.tenant, GPU, "")
    assert metrics.measured_seconds.labels(*series)._value.get() == 120
    assert metrics.busy_seconds.labels(*series)._value.get() == 30


async def test_a_source_that_does_not_answer_or_answers_nonsense_measures_nothing(host: Host) -> None:
    good = b'{"pods": {"a": [2, 1.0]}}'
    answers: list[bytes | Exception] = [good, b"not json", b'{"pods": {"a": ["x", 1]}}', Timeout("away"), good]

    class Source:
        async def get_raw(self, _: str) -> bytes:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    utilisation = Utilisation(Settings(gpu_metrics=1), host.clock)
    account = UsageKey(host.tenant, "ml", "Pod/a", GPU, "")
    for _ in range(4):
        await utilisation.look(Source())  # type: ignore[arg-type]
        host.clock.advance(60)
        assert not utilisation.count(lambda _: account)
    # What was between the two good answers, more than two minutes apart, is not known.
    await utilisation.look(Source())  # type: ignore[arg-type]
    assert not utilisation.count(lambda _: account)
