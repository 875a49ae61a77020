"""Identity providers are asked once for all tenants, now and then, and what they answered last stays."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest

from bulkhead.api.providers import Source
from controller.decide.keysets import Answer, Fault
from controller.host.issuers import Issuers
from tests.controller.decide.test_keysets import EC
from tests.kit.fakeclock import FakeClock

CORP, OTHER = Source("https://corp.example.org"), Source("https://other.example.org")


class World:
    """Providers that answer as a test wants."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.changed: list[str] = []
        self.asked: list[str] = []
        self.kid = "1"
        self.silent: set[str] = set()
        self.issuers = Issuers(self.clock, self.changed.append, self.fetch)

    async def fetch(self, address: str, authorities: str) -> bytes:
        del authorities
        self.asked.append(address)
        if any(address.startswith(url) for url in self.silent):
            raise Fault("it is silent")
        if address.endswith("/keys"):
            return json.dumps({"keys": [EC | {"kid": self.kid}]}).encode()
        url = address.removesuffix("/.well-known/openid-configuration")
        return json.dumps({"issuer": url, "jwks_uri": f"{url}/keys"}).encode()

    async def round(self, *, wait: bool = True) -> None:
        """Let it come to its pause; with `wait` let half a minute pass before."""
        if wait:
            self.clock.advance(30)
        for _ in range(50):
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def leading(world: World) -> AsyncIterator[None]:
    """One term as the leader."""
    running = asyncio.create_task(world.issuers.run())
    await world.round(wait=False)
    yield
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    async with leading(made):
        yield made


async def test_a_new_source_is_asked_at_once_and_once_for_all_tenants(world: World) -> None:
    assert world.issuers.look("a", [CORP]) == {}
    assert world.issuers.look("b", [CORP, OTHER]) == {}
    await world.round(wait=False)
    assert len(world.asked) == 4
    assert sorted(set(world.changed)) == ["a", "b"]
    known = world.issuers.look("a", [CORP])[CORP]
    assert '"kid": "1"' in known.keys
    assert known.trouble == ""


async def test_other_keys_and_trouble_enqueue_its_tenants_and_no_others(world: World) -> None:
    world.issuers.look("a", [CORP])
    world.issuers.look("b", [OTHER])
    await world.round(wait=False)
    world.changed.clear()
    await world.round()
    assert world.changed == []
    world.silent.add(CORP.url)
    await world.round()
    assert world.changed == ["a"]
    known = world.issuers.look("a", [CORP])[CORP]
    assert (known.trouble, '"kid": "1"' in known.keys) == ("it is silent", True)
    world.silent.clear()
    world.kid = "2"
    await world.round()
    assert sorted(world.changed) == ["a", "a", "b"]
    assert '"kid": "2"' in world.issuers.look("a", [CORP])[CORP].keys


async def test_a_provider_that_breaks_the_asking_keeps_no_other_from_it(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = world.fetch

    async def breaks(address: str, authorities: str) -> bytes:
        if address.startswith(CORP.url):
            raise RuntimeError("a fault of our own")
        await asyncio.sleep(0)
        return await answers(address, authorities)

    monkeypatch.setattr(world.issuers, "_fetch", breaks)
    world.issuers.look("a", [CORP])
    world.issuers.look("b", [OTHER])
    await world.round(wait=False)
    await world.round()
    assert '"kid": "1"' in world.issuers.look("b", [OTHER])[OTHER].keys
    assert world.issuers.look("a", [CORP]) == {}
    assert {getattr(record, "issuer", None) for record in caplog.records if record.exc_info} == {CORP.url}


async def test_an_unused_provider_is_not_asked(world: World) -> None:
    world.issuers.look("a", [CORP])
    world.issuers.look("b", [OTHER])
    await world.round(wait=False)
    world.issuers.forget("a")
    world.issuers.look("b", [])
    world.asked.clear()
    await world.round()
    assert world.asked == []
    # And is asked afresh when it is looked at again: keys that went meanwhile are not believed.
    assert world.issuers.look("a", [CORP]) == {}


async def test_keys_of_an_earlier_term_do_not_count_when_the_process_leads_again() -> None:
    world = World()
    async with leading(world):
        world.issuers.look("a", [CORP])
        await world.round(wait=False)
        assert world.issuers.look("a", [CORP])[CORP].keys
    # Another process leads. The provider withdraws a key, and is silent afterwards.
    world.silent.add(CORP.url)
    async with leading(world):
        # Without keys the tenant keeps those in its ConfigMap, which the other process has written.
        assert world.issuers.look("a", [CORP]) == {CORP: Answer("", "it is silent")}
        world.silent.clear()
        world.kid = "2"
        await world.round()
        assert '"kid": "2"' in world.issuers.look("a", [CORP])[CORP].keys
