"""Leader election against a real API server."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.lease import LeaderLease
from bulkhead.kube.resources import LEASES
from tests.kit.background import background
from tests.kit.servers import ApiServer

pytestmark = pytest.mark.client

Eventually = Callable[..., Awaitable[None]]


def lease(client: Client, namespace: str, identity: str, *, seconds: float = 120.0) -> LeaderLease:
    """One that is not lost by a pause of this machine; with few seconds, for tests in which it has to be."""
    return LeaderLease(client, namespace, "leader", identity, duration=seconds, renew_deadline=seconds * 0.75, retry=0.1)


async def test_one_leads_and_hands_over(host_client: Client, namespace: str, eventually: Eventually) -> None:
    first, second = lease(host_client, namespace, "first"), lease(host_client, namespace, "second")
    async with contextlib.AsyncExitStack() as stack:
        async with first.leading():
            task = await stack.enter_async_context(background(second.acquire()))
            await eventually(lambda: second.holder == "first")
            assert first.held
            assert not second.held
        await eventually(task.done)
    assert (first.held, second.held) == (False, True)
    spec = (await host_client.get(LEASES, "leader", namespace))["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("second", 1)


async def test_a_dead_leader_is_followed(host_client: Client, namespace: str, eventually: Eventually) -> None:
    dead, heir = (lease(host_client, namespace, name, seconds=2.0) for name in ("dead", "heir"))
    await dead.acquire()
    async with background(heir.acquire()) as task:
        await eventually(task.done)
    assert heir.held
    await asyncio.wait_for(dead.renew(), 60)
    assert dead.lost.is_set()
    assert not dead.held


async def test_a_leader_who_cannot_renew_steps_down(own_server: ApiServer) -> None:
    async with Client(own_server.admin, user_agent="t", field_manager="t", timeout=1.0) as client:
        claim = lease(client, "default", "cut-off", seconds=8.0)
        async with claim.leading():
            assert claim.held
            own_server.kill("kube-apiserver")
            await asyncio.wait_for(claim.lost.wait(), 60)
            assert not claim.held


async def test_a_leader_whose_machine_was_suspended_leads_no_more_when_it_wakes(host_client: Client, namespace: str) -> None:
    suspended = 0.0
    claim = LeaderLease(
        host_client, namespace, "leader", "sleeper", retry=0.1, elapsed=lambda: asyncio.get_running_loop().time() + suspended
    )
    await claim.acquire()
    assert claim.held
    suspended = 3600.0
    assert not claim.held
    await asyncio.wait_for(claim.renew(), 60)
    assert claim.lost.is_set()


async def test_many_claim_and_one_gets_it(host_config: KubeConfig, namespace: str) -> None:
    async with Client(host_config, user_agent="t", field_manager="t") as client:
        claims = [lease(client, namespace, f"c{number}") for number in range(5)]
        tasks = [asyncio.create_task(claim.acquire()) for claim in claims]
        await asyncio.wait(tasks, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        held = sum(claim.held for claim in claims)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    assert held == 1
