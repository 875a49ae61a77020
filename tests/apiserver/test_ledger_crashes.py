"""A controller that dies at any of its writes, right before it counts and right after, and two that lead for a moment.

The next leader knows only what the host has. An observer of its own sees every event: no GPU has two owners at any moment, and
no quota is exceeded. Each death is one run of the same small story, until one run is long enough to have no death.
"""

import asyncio
import threading

import pytest

from bulkhead.api import names
from bulkhead.kube.resources import COHORTS
from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import Decisions, Snapshot
from controller.dispatch.loop import Ledger
from tests.kit.leading import leading
from tests.kit.ledgerhost import LedgerHost, Mortal, Watched, gated, leads, lived, verdict
from tests.kit.syncerbed import until

_WRITES = 60  # more than any of the stories takes


@pytest.mark.crashes
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_controller_dies_at_each_step_of_an_admission(ledger_host: LedgerHost, *, after: bool) -> None:
    host = ledger_host
    rooms = {await host.node(f"n{number}", 4): 4 for number in range(2)}
    team = await host.tenant("team", 8, ceiling=12)
    space = names.work_namespace(team)

    async def done() -> bool:
        pods = await host.pods(team)
        running = [pod for pod in pods if pod.get("status", {}).get("phase") == "Running"]
        return len(running) == 5 and all(verdict(pod) for pod in pods if gated(pod))

    for dies_at in range(1, _WRITES):
        watched = Watched(host.client, most={space: 8}, room=rooms)
        async with watched.watching():
            # Under other names each time: kwok deletes by name, even if another pod has the name by then.
            for number in range(3):
                await host.run(team, f"train-{dies_at}-{number}", 2, gang=("train", 3), own_priority=7)
            for number in range(4):
                await host.run(team, f"one-{dies_at}-{number}", 1)
            died = await lived(host, dies_at, done, after=after)
            if died:
                assert not await lived(host, 0, done, after=after)
        await host.clear(team)
        if not died:
            assert dies_at > 6, "it died at none of seven writes"
            return
    pytest.fail("a story without end")


@pytest.mark.crashes
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_controller_dies_at_each_step_of_a_reclaim(ledger_host: LedgerHost, *, after: bool) -> None:
    host = ledger_host
    rooms = {await host.node(f"n{number}", 4): 4 for number in range(2)}
    cohort = await host.cohort("lending", reclaim={"minRuntime": "0s", "within": "10s"})
    owner, borrower = [await host.tenant(name, 4, cohort, ceiling=8) for name in ("owner", "borrower")]
    spaces = tuple(map(names.work_namespace, (owner, borrower)))

    async def lent() -> bool:
        pods = await host.pods(borrower)
        return len(pods) == 4 and all(pod.get("status", {}).get("phase") == "Running" for pod in pods)

    async def back() -> bool:
        mine, theirs = await host.pods(owner), await host.pods(borrower)
        return [pod.get("status", {}).get("phase") for pod in mine] == ["Running"] and len(theirs) == 2

    for dies_at in range(1, _WRITES):
        watched = Watched(host.client, together={spaces: 8}, room=rooms)
        async with watched.watching():
            for number in range(4):
                await host.run(borrower, f"train-{dies_at}-{number}", 2, gang=(f"gang-{number // 2}", 2))
            assert not await lived(host, 0, lent, after=after)
            await host.run(owner, f"mine-{dies_at}", 4)
            died = await lived(host, dies_at, back, after=after)
            if died:
                assert not await lived(host, 0, back, after=after)
            left = {pod["metadata"]["annotations"]["bulkhead.dev/gang"] for pod in await host.pods(borrower)}
            assert len(left) == 1, "half a gang is left"
        await host.clear(owner, borrower)
        if not died:
            assert dies_at > 6, "it died at none of seven writes"
            return
    pytest.fail("a story without end")


async def test_one_that_dies_at_every_write_gets_there_too(ledger_host: LedgerHost) -> None:
    host = ledger_host
    room = {await host.node("n0", 8): 8}
    team = await host.tenant("team", 8)

    async def done() -> bool:
        return all(pod.get("status", {}).get("phase") == "Running" for pod in await host.pods(team))

    async with Watched(host.client, most={names.work_namespace(team): 8}, room=room).watching():
        for number in range(4):
            await host.run(team, f"train-{number}", 2, gang=("train", 4))
        deaths = 0
        while await lived(host, 1, done, after=True):
            deaths += 1
            assert deaths < _WRITES
        assert deaths >= 4


@pytest.mark.crashes
async def test_two_leaders_for_a_moment_pass_no_ceiling_and_no_node(ledger_host: LedgerHost) -> None:
    """More than the lease ever allows: both decide and write all the time, each of what it has seen itself."""
    host = ledger_host
    rooms = {await host.node(f"n{number}", 4): 4 for number in range(2)}
    cohort = await host.cohort("quick")
    team = await host.tenant("team", 5, cohort, ceiling=7)
    space = names.work_namespace(team)
    for story in range(10):
        async with Watched(host.client, most={space: 7}, room=rooms, pinned=False).watching():
            # Whatever the scheduler takes: nothing is taken back before it was seen here.
            await host.client.patch(COHORTS, cohort, {"spec": {"gangs": {"bindWithin": "10m"}}})
            async with leading(Ledger(host.client, leads)), leading(Ledger(host.client, leads)):
                await asyncio.gather(*(host.run(team, f"p{story}-{number}") for number in range(7)))
                await until(lambda: _given(host, team, 5), "five are admitted")
            await host.client.patch(COHORTS, cohort, {"spec": {"gangs": {"bindWithin": "5s"}}})
            async with leading(Ledger(host.client, leads)):
                # What both had pinned to the same room was taken back.
                await until(lambda: _settled(host, team), "all run or know why not")
        await host.clear(team)


async def _given(host: LedgerHost, team: str, least: int) -> bool:
    return sum(not gated(pod) for pod in await host.pods(team)) >= least


async def _settled(host: LedgerHost, team: str) -> bool:
    return all(verdict(pod) if gated(pod) else pod["status"]["phase"] == "Running" for pod in await host.pods(team))


async def test_one_that_was_stopped_and_wakes_up_without_the_lease_writes_nothing(ledger_host: LedgerHost) -> None:
    host = ledger_host
    room = {await host.node("n0", 8): 8}
    team = await host.tenant("team", 5, ceiling=8)
    stopped, awake, mine = threading.Event(), threading.Event(), [True]

    def slowly(snapshot: Snapshot, now: float) -> Decisions:
        found = decide(snapshot, now)
        if found.admit:
            stopped.set()
            assert awake.wait(300)
        return found

    async with Mortal(host.client.config, user_agent="stopped", field_manager="stopped") as client:
        first = asyncio.create_task(Ledger(client, lambda: mine[0], decide=slowly).run())
        async with Watched(host.client, most={names.work_namespace(team): 5}, room=room).watching():
            for number in range(3):
                await host.run(team, f"early-{number}", 1)
            assert await asyncio.to_thread(stopped.wait, 60)
            written, mine[0] = client.writes, False
            for number in range(5):
                # The next leader would rather have these.
                await host.run(team, f"late-{number}", 1, own_priority=7)
            async with leading(Ledger(host.client, leads)):
                assert {pod["metadata"]["name"][:4] for pod in await host.admitted(team, 5)} == {"late"}
                awake.set()
                await asyncio.wait({first})
                assert first.exception() is not None
                assert client.writes == written
