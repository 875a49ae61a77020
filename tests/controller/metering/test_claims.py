"""Claims for devices metered on a real API server: beside pods, over restarts, and only where a tenant may have any."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, KubeError, NotServed
from bulkhead.metering import usagebook
from bulkhead.metering.meter import Lines
from bulkhead.metering.usagebook import Sums
from controller.metering import claims, metrics
from controller.metering.usage import Usage
from tests.controller.metering.bed import GPU, Dying, MeteredHost, whole
from tests.kit.background import background
from tests.kit.fakeclock import FakeClock
from tests.kit.syncerbed import until

pytestmark = pytest.mark.apiserver
CLASS, OWN = "gpu.example.com", "imex.example.com"


class Devices(MeteredHost):
    """The same, whose clock is ahead: stamps of a host that says nothing of an allocation are those of real time."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.clock = FakeClock(datetime.now(UTC).replace(microsecond=0) + timedelta(days=1))
        self.counted = {CLASS: ("", GPU), OWN: ("", OWN)}

    def lines(self) -> Lines:
        return {self.tenant: self.counted} if self.counted else {}

    def usage(self, client: Client | None = None, **more: Any) -> Usage:
        return super().usage(client, lines=self.lines, **more)

    async def ask(self, name: str, *, mirrored: bool = True, **classes: int) -> None:
        """A claim as a syncer makes it, or as the host's scheduler does."""
        noted = {labels.VIRTUAL_NAMESPACE: "ml", labels.VIRTUAL_NAME: name}
        meta: Obj = {"name": name, "annotations": noted, "labels": {labels.SYNCED: "syncer"} if mirrored else {}}
        asked = {"gpu": CLASS, "imex": OWN}
        requests = [
            {"name": device_class, "exactly": {"deviceClassName": asked[device_class], "count": classes[device_class]}}
            for device_class in classes
        ]
        await self.client.create(
            kinds.RESOURCE_CLAIMS, {"metadata": meta, "spec": {"devices": {"requests": requests}}}, self.work
        )

    async def give(self, claim: str, *pods: str) -> None:
        """What the host's scheduler does: it gives a claim what it asks for and reserves it for pods; or takes all away."""
        found = await self.client.get(kinds.RESOURCE_CLAIMS, claim, self.work)
        had = (found.get("status") or {}).get("allocation") or {"allocationTimestamp": whole(self.moment())}
        had["devices"] = {
            "results": [
                {"request": request["name"], "driver": "d", "pool": "n1", "device": f"{claim}-{request['name']}-{number}"}
                for request in found["spec"]["devices"]["requests"]
                for number in range(request["exactly"]["count"])
            ]
        }
        uids = {pod: (await self.client.get(kinds.PODS, pod, self.work))["metadata"]["uid"] for pod in pods}
        reserved = [{"resource": "pods", "name": pod, "uid": uid} for pod, uid in uids.items()]
        # Merged by a patch, what is reserved would only grow.
        for status in ({"reservedFor": None}, {"allocation": had if pods else None, "reservedFor": reserved or None}):
            patch = {"status": status}
            await self.client.patch(kinds.RESOURCE_CLAIMS, claim, patch, self.work, subresource="status")

    async def run_with(self, name: str, claim: str) -> None:
        """A pod that asks for devices by a claim alone, and is given them with its node."""
        await self.run(name, 0, resourceClaims=[{"name": "x", "resourceClaimName": claim}])
        await self.give(claim, name)

    async def drop(self, claim: str) -> None:
        await self.client.delete(kinds.RESOURCE_CLAIMS, claim, self.work)

    async def has(self, usage: Usage, count: int) -> None:
        async def so() -> bool:
            return (
                usage._meter is not None
                and sum(known.claimed.tenant == self.tenant for known in usage._meter._claims.values()) == count
            )

        await until(so, f"{count} claims to be seen")

    async def watched(self, usage: Usage) -> None:
        async def so() -> bool:
            return usage._hears_claims and self.clock.sleepers > 0

        await until(so, "claims to be watched")

    async def table(self) -> dict[tuple[str, str], Sums]:
        """Of this tenant, by owner and resource, in whole seconds."""
        rows = [row for page in await self.pages() for row in page.rows()]
        found = usagebook.summed((row for row in rows if row[1].tenant == self.tenant), 0, lambda account: account)
        return {(key.owner, key.resource): Sums(*(round(one / 1000) for one in sums)) for key, sums in found.items()}

    async def table_is(self, wanted: dict[tuple[str, str], tuple[int, int]]) -> None:
        async def so() -> bool:
            return await self.table() == {key: Sums(*both, 0) for key, both in wanted.items()}

        try:
            await until(so, "sums")
        except AssertionError:
            assert await self.table() == {key: Sums(*both, 0) for key, both in wanted.items()}


@pytest.fixture
async def host(host_client: Client) -> AsyncIterator[Devices]:
    made = Devices(host_client)
    await made.begin()
    yield made
    for claim in (await host_client.list(kinds.RESOURCE_CLAIMS, made.work)).items:
        await made.give(claim["metadata"]["name"])
        await made.drop(claim["metadata"]["name"])
    await made.clear()


async def test_what_claims_hold_is_stored_beside_pods_with_their_owners_and_goes_on_over_a_restart(host: Devices) -> None:
    usage = host.usage()
    async with background(usage.run()):
        await host.watched(usage)
        await host.ask("mine", gpu=2, imex=1)
        await host.run("a")
        await host.run_with("b", "mine")
        await host.has(usage, 1)
        await host.pass_time(60)
        # Ten seconds are not counted yet, and for ten nothing ran.
        await host.table_is({("Pod/a", GPU): (40, 10), ("Pod/b", GPU): (80, 20), ("Pod/b", OWN): (40, 10)})
    await host.pass_time(1200, counted=False)
    usage = host.usage()
    async with background(usage.run()):
        await host.has(usage, 1)
        await host.pass_time(60)
        await host.end("b")
        await host.give("mine")
        await host.has(usage, 0)
        await host.pass_time(120)
        used = 60 + 1200 + 60 - 10
        await host.table_is({("Pod/a", GPU): (used + 110, 10), ("Pod/b", GPU): (2 * used, 20), ("Pod/b", OWN): (used, 10)})
    assert metrics.seconds.labels(host.tenant, OWN, "", "used")._value.get() == used


async def test_what_the_scheduler_claims_for_a_pods_resource_is_counted_with_the_pod_alone(host: Devices) -> None:
    usage = host.usage()
    async with background(usage.run()):
        await host.watched(usage)
        await host.run("a", 2)
        await host.ask("schedulers", mirrored=False, gpu=2)
        await host.give("schedulers", "a")
        # The events of a watch come in order: after this one the other was seen, or never will be.
        await host.ask("last", gpu=1)
        await host.give("last", "a")
        await host.has(usage, 1)
        await host.give("last")
        await host.has(usage, 0)
        await host.pass_time(60)
        await host.table_is({("Pod/a", GPU): (80, 20)})
        # The positive control: with the mark of a syncer it would be counted.
        mark = {"metadata": {"labels": {labels.SYNCED: "syncer"}}}
        await host.client.patch(kinds.RESOURCE_CLAIMS, "schedulers", mark, host.work)
        await host.has(usage, 1)
        await host.pass_time(60)
        found = await host.table()
        assert found["Pod/a", GPU].used > 80 + 120


async def test_one_that_is_made_again_under_its_name_and_one_that_vanished_unseen_count_their_own_time(host: Devices) -> None:
    usage = host.usage()
    async with background(usage.run()):
        await host.watched(usage)
        await host.ask("same", gpu=1)
        await host.run_with("a", "same")
        await host.has(usage, 1)
        await host.pass_time(30)
        await host.give("same")
        await host.drop("same")
        await host.ask("same", gpu=4)
        await host.has(usage, 0)
        await host.pass_time(40)
        await host.give("same", "a")
        await host.has(usage, 1)
        await host.pass_time(60)
        await host.table_is({("Pod/a", GPU): (20 + 4 * 50, 10)})
    await host.give("same")
    await host.drop("same")
    await host.pass_time(600, counted=False)
    usage = host.usage()
    async with background(usage.run()):
        await host.watched(usage)
        await host.pass_time(60)
        await host.table_is({("Pod/a", GPU): (20 + 4 * 50, 10)})


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("fatal", range(2, 6))
async def test_a_controller_that_is_killed_at_any_write_counts_no_claim_twice_and_loses_none(
    host: Devices, fatal: int, *, after: bool
) -> None:
    deadly = Dying(host.client, fatal, after=after)
    usage = host.usage(deadly)  # type: ignore[arg-type]
    async with background(usage.run()):
        await host.watched(usage)
        await host.ask("mine", gpu=3)
        await host.run_with("a", "mine")
        await host.has(usage, 1)
        await host.caught_up()
        for _ in range(6):
            if deadly.died.is_set():
                break
            host.clock.advance(60)

            async def counted_or_dead() -> bool:
                return deadly.died.is_set() or host.clock.sleepers > 0

            await until(counted_or_dead, "the write or the end")
    assert deadly.died.is_set()
    passed = host.moment() - host.since["a"]
    usage = host.usage()
    async with background(usage.run()):
        await host.has(usage, 1)
        await host.pass_time(180)
        await host.table_is({("Pod/a", GPU): (round(3 * (passed + 180 - 20)), 30)})


async def test_a_host_without_allowed_claims_has_no_watch_of_them(host: Devices, monkeypatch: pytest.MonkeyPatch) -> None:
    # Claims of other tests on this server are not this host's.
    monkeypatch.setattr(claims, "SELECTOR", f"{claims.SELECTOR},tests={host.tenant}")
    host.counted = {}
    usage = host.usage()
    async with background(usage.run()):
        await host.seen(usage, 0)
        await host.run("a")
        await host.seen(usage, 1)
        await host.pass_time(60)
        await host.table_is({("Pod/a", GPU): (40, 10)})
        assert not usage._claims.watched
        host.counted = {CLASS: ("", GPU)}
        await host.pass_time(60)
        await host.watched(usage)
        await host.ask("mine", gpu=1)
        await host.client.patch(kinds.RESOURCE_CLAIMS, "mine", {"metadata": {"labels": {"tests": host.tenant}}}, host.work)
        await host.give("mine", "a")
        await host.has(usage, 1)
        # While there is one, it is watched, even if no tenant may have another.
        host.counted = {}
        await host.pass_time(60)
        assert usage._claims.watched
    usage = host.usage()
    async with background(usage.run()):
        # So too by a controller that began after that.
        await host.has(usage, 1)
        await host.give("mine")
        await host.has(usage, 0)
        await host.pass_time(60)
        assert not usage._claims.watched


class Without:
    """A client of a host that has no claims, or does not let them be listed."""

    def __init__(self, client: Client, error: KubeError) -> None:
        self._client = client
        self._error = error
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def pages(self, r: Any, *arguments: Any, **more: Any) -> AsyncIterator[Any]:
        if r is kinds.RESOURCE_CLAIMS:
            self.asked += 1
            raise self._error
        async for page in self._client.pages(r, *arguments, **more):
            yield page


@pytest.mark.parametrize(
    "error",
    [NotServed(404, "NotFound", "no such kind"), Forbidden(403, "Forbidden", "not yours")],
    ids=["not served", "forbidden"],
)
async def test_where_claims_cannot_be_read_pods_are_metered_as_ever(
    host: Devices, error: KubeError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "_FIRST_LIST_WITHIN_SECONDS", 0.1)
    client = Without(host.client, error)
    usage = host.usage(client)  # type: ignore[arg-type]
    async with background(usage.run()):
        await host.seen(usage, 0)
        await host.run("a")
        await host.seen(usage, 1)
        await host.pass_time(60)
        await host.table_is({("Pod/a", GPU): (40, 10)})
    assert client.asked
    assert not usage._hears_claims


async def test_while_the_watch_of_claims_is_silent_they_are_not_counted_and_later_they_are(
    host: Devices, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = host.usage()
    async with background(usage.run()):
        await host.watched(usage)
        await host.ask("mine", gpu=1)
        await host.run_with("a", "mine")
        await host.has(usage, 1)
        await host.pass_time(60)
        await host.table_is({("Pod/a", GPU): (40, 10)})
        monkeypatch.setattr(usage._claims, "_silence", -1.0)
        await host.pass_time(300)
        await host.has(usage, 0)
        # What it gets meanwhile is not heard either.
        await host.give("mine", "a")
        monkeypatch.setattr(usage._claims, "_silence", 180.0)
        await host.pass_time(60)
        await host.has(usage, 1)
        await host.pass_time(60)
        found = await host.table()
        assert found["Pod/a", GPU].used < 60 + 60 + 60
        assert found["Pod/a", GPU].used > 60
