"""What the host shares, between a real host and a real plane: it appears, follows, is put back, and goes."""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, NotFound
from bulkhead.work.clock import SystemClock
from controller.inside.calls import Plane
from controller.shares import loop as module
from controller.shares.content import PULLS
from controller.shares.decide import Decision, decide
from controller.shares.loop import ShareLoops
from controller.shares.sources import Sources
from controller.shares.spec import Item, Share, Where
from controller.shares.status import Found
from tests.kit.background import background
from tests.kit.presence import is_gone, is_there
from tests.kit.syncerbed import until

pytestmark = pytest.mark.apiserver
SHARED = "bulkhead-shared"
TENANT = "team-a"
REGISTRY, BUNDLE = Item("Secret", "registry"), Item("ConfigMap", "ca-bundle")
EVERYWHERE = Share(REGISTRY, pulls=True)
ENCODED = {"one": "eyJhdXRocyI6eyJvbmUiOnt9fX0=", "two": "eyJhdXRocyI6eyJ0d28iOnt9fX0="}


def registry(which: str, **more: object) -> Obj:
    return {"metadata": {"name": "registry"}, "type": PULLS, "data": {".dockerconfigjson": ENCODED[which]}} | more


@dataclass
class Sharing:
    """The loops of one controller, with a host and planes."""

    host: Client
    plane: Client
    planes: dict[str, Client]
    loops: ShareLoops
    reported: list[str] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)  # one of each look at everything

    def order(self, *shares: Share, tenant: str = TENANT) -> None:
        self.loops.order(tenant, shares)

    async def space(self, name: str, **marks: str) -> None:
        """A namespace with its ServiceAccount, which a controller makes elsewhere."""
        for r, obj in (
            (kinds.NAMESPACES, {"metadata": {"name": name, "labels": marks}}),
            (kinds.SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": name}}),
        ):
            with contextlib.suppress(AlreadyExists):
                await self.plane.create(r, obj)

    async def source(self, obj: Obj) -> None:
        await self.host.apply(kinds.SECRETS, obj | {"metadata": obj["metadata"] | {"namespace": SHARED}})

    async def copy(self, namespace: str) -> Obj | None:
        try:
            return await self.plane.get(kinds.SECRETS, "registry", namespace)
        except NotFound:
            return None

    async def holds(self, namespace: str, which: str | None) -> Obj:
        """Wait until the copy there is of this source; None: until there is none."""

        async def right() -> bool:
            found = await self.copy(namespace)
            held = (found or {}).get("data", {})
            return found is None if which is None else held == {".dockerconfigjson": ENCODED[which]}

        await until(right, f"{namespace}: {which}")
        return await self.copy(namespace) or {}

    async def finds(self, wanted: Callable[[Found], object]) -> Found:
        async def seen() -> bool:
            found = self.loops.found(TENANT)
            return found is not None and bool(wanted(found))

        await until(seen, "found")
        found = self.loops.found(TENANT)
        assert found is not None
        return found

    async def looked(self) -> None:
        """Wait until two looks at everything have begun after this moment, and ended."""
        # One may be under way; each begins after the one before it has ended.
        wanted = len(self.decisions) + 4

        async def decided() -> bool:
            return len(self.decisions) >= wanted

        await until(decided, "two looks at everything")

    async def settled(self) -> None:
        """Wait for a look at everything that finds nothing to do: of the accounts of many namespaces too."""
        seen = len(self.decisions) + 1

        async def idle() -> bool:
            # `waits` says nothing here: namespaces that other tests left on this plane never get an account.
            return any(not each.steps for each in self.decisions[seen:])

        await until(idle, "nothing to do")

    async def pulls(self, namespace: str) -> list[str]:
        account = await self.plane.get(kinds.SERVICE_ACCOUNTS, "default", namespace)
        return [each["name"] for each in account.get("imagePullSecrets") or []]


async def emptied(client: Client, *namespaces: str) -> None:
    for namespace in namespaces:
        for r in (kinds.SECRETS, kinds.CONFIG_MAPS, kinds.SERVICE_ACCOUNTS):
            for obj in (await client.list(r, namespace)).items:
                await client.delete(r, obj["metadata"]["name"], namespace)


@pytest.fixture
async def sharing(host_client: Client, plane_client: Client, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sharing]:
    for name, seconds in (
        ("LOOK_PERIOD_SECONDS", 0.1),
        ("_WHOLE_LOOK_PERIOD_SECONDS", 0.2),
        ("_CONFLICT_RETRY_SECONDS", 0.5),
        ("_LONGEST_BACKOFF_SECONDS", 0.5),
    ):
        monkeypatch.setattr(module, name, seconds)
    with contextlib.suppress(AlreadyExists):
        await host_client.create(kinds.NAMESPACES, {"metadata": {"name": SHARED}})
    await emptied(host_client, SHARED)
    planes = {TENANT: plane_client}
    reported: list[str] = []
    changed: list[Callable[[Item], None]] = []
    sources = Sources(host_client, SHARED, lambda item: [each(item) for each in changed])
    loops = ShareLoops(SystemClock(), lambda turn: Plane(planes[turn.tenant], turn), sources.of, reported.append)
    changed.append(loops.changed)
    made = Sharing(host_client, plane_client, planes, loops, reported)

    def noted(*asked: Any) -> Decision:
        made.decisions.append(decide(*asked))
        return made.decisions[-1]

    monkeypatch.setattr(module, "decide", noted)
    for namespace in ("default", "red", "blue"):
        await made.space(namespace)
        await emptied(plane_client, namespace)
        await made.space(namespace)
    async with background(sources.run()):
        yield made
        await loops.close()
    await emptied(plane_client, "default", "red", "blue")


async def test_a_shared_secret_appears_and_follows_its_source(sharing: Sharing) -> None:
    await sharing.source(registry("one"))
    sharing.order(EVERYWHERE)
    made = await sharing.holds("red", "one")
    assert made["type"] == PULLS
    assert made["metadata"]["labels"] == {labels.SHARED: "true"}
    assert await sharing.copy("kube-system") is None

    await sharing.source(registry("two"))
    for namespace in ("default", "red", "blue"):
        await sharing.holds(namespace, "two")
    later = f"later-{made['metadata']['uid'][:8]}"
    await sharing.space(later)
    await sharing.holds(later, "two")
    found = await sharing.finds(lambda found: found.copies == found.namespaces)
    assert (found.troubles, found.conflicts, found.refused, found.unread) == ((), (), "", "")
    assert sharing.reported


async def test_what_is_as_it_should_be_is_not_written(sharing: Sharing) -> None:
    await sharing.source(registry("one"))
    sharing.order(EVERYWHERE)
    await sharing.holds("red", "one")
    await sharing.finds(lambda found: found.copies == found.namespaces and not found.troubles)

    writes: list[str] = []
    request = sharing.plane.transport.request

    async def counted(method: str, path: str, **more: object) -> bytes:
        writes.append(method) if method != "GET" else None
        return await request(method, path, **more)  # type: ignore[arg-type]

    await sharing.settled()
    sharing.plane.transport.request = counted  # type: ignore[method-assign]
    await sharing.looked()
    sharing.plane.transport.request = request  # type: ignore[method-assign]
    assert writes == []


async def test_what_a_tenant_changes_is_put_back(sharing: Sharing) -> None:
    await sharing.source(registry("one"))
    sharing.order(EVERYWHERE)
    await sharing.holds("red", "one")
    await sharing.plane.delete(kinds.SECRETS, "registry", "red")
    await sharing.holds("red", "one")
    await sharing.plane.patch(kinds.SECRETS, "registry", {"data": {".dockerconfigjson": ENCODED["two"], "more": "eA=="}}, "red")
    await sharing.holds("red", "one")
    # The API server refuses all changes to it after that, so it must be replaced.
    before = await sharing.plane.patch(kinds.SECRETS, "registry", {"immutable": True, "data": {"more": "eA=="}}, "red")
    made = await sharing.holds("red", "one")
    assert made["metadata"]["uid"] != before["metadata"]["uid"]
    assert not made.get("immutable")


async def test_a_source_of_another_type_takes_the_place_of_the_old_one(sharing: Sharing) -> None:
    await sharing.source(registry("one"))
    sharing.order(Share(REGISTRY))
    await sharing.holds("red", "one")
    await sharing.host.delete(kinds.SECRETS, "registry", SHARED)
    await sharing.source(registry("two", type="Opaque"))
    assert (await sharing.holds("red", "two"))["type"] == "Opaque"


async def test_an_object_of_the_tenants_own_is_left_alone_and_named(sharing: Sharing) -> None:
    own = {"metadata": {"name": "registry", "namespace": "red"}, "data": {"own": "eA=="}}
    before = await sharing.plane.create(kinds.SECRETS, own)
    await sharing.source(registry("one"))
    sharing.order(EVERYWHERE)
    await sharing.holds("blue", "one")
    found = await sharing.finds(lambda found: found.conflicts)
    assert found.conflicts == ("Secret red/registry",)
    await sharing.looked()
    assert (await sharing.copy("red"), await sharing.pulls("red")) == (before, [])
    # It also stays when nothing is shared any longer.
    sharing.order()
    await sharing.holds("blue", None)
    assert await sharing.copy("red") == before
    sharing.order(EVERYWHERE)
    await sharing.plane.delete(kinds.SECRETS, "registry", "red")
    await sharing.holds("red", "one")
    await sharing.finds(lambda found: not found.conflicts)


async def test_what_is_withdrawn_goes_and_takes_nothing_else(sharing: Sharing) -> None:
    await sharing.source(registry("one"))
    await sharing.host.apply(
        kinds.CONFIG_MAPS, {"metadata": {"name": "ca-bundle", "namespace": SHARED}, "data": {"ca.crt": "pem"}}
    )
    await sharing.plane.create(kinds.SECRETS, {"metadata": {"name": "own", "namespace": "red"}})
    sharing.order(EVERYWHERE, Share(BUNDLE, Where(names=("red",))))
    await sharing.holds("red", "one")
    await until(lambda: is_there(sharing.plane, kinds.CONFIG_MAPS, "ca-bundle", "red"), "the bundle")
    sharing.order(Share(BUNDLE, Where(names=("blue",))))
    await sharing.holds("red", None)
    await until(lambda: is_there(sharing.plane, kinds.CONFIG_MAPS, "ca-bundle", "blue"), "the bundle in blue")
    await until(lambda: is_gone(sharing.plane, kinds.CONFIG_MAPS, "ca-bundle", "red"), "no bundle in red")

    async def unnamed() -> bool:
        return await sharing.pulls("red") == []

    await until(unnamed, "an account that pulls with nothing")
    # Withdrawn on the host.
    await sharing.host.delete(kinds.CONFIG_MAPS, "ca-bundle", SHARED)
    await until(lambda: is_gone(sharing.plane, kinds.CONFIG_MAPS, "ca-bundle", "blue"), "no bundle in blue")
    found = await sharing.finds(lambda found: found.troubles)
    assert found.troubles == ("ConfigMap ca-bundle: the host has no object of this name",)
    assert await is_there(sharing.plane, kinds.SECRETS, "own", "red")


async def test_default_accounts_pull_with_it_beside_the_tenants_own(sharing: Sharing) -> None:
    await sharing.plane.patch(kinds.SERVICE_ACCOUNTS, "default", {"imagePullSecrets": [{"name": "mine"}]}, "red")
    await sharing.source(registry("one"))
    sharing.order(EVERYWHERE)

    async def pulls(red: list[str], blue: list[str]) -> None:
        async def right() -> bool:
            return [await sharing.pulls("red"), await sharing.pulls("blue")] == [red, blue]

        await until(right, f"{red}, {blue}")

    await pulls(["mine", "registry"], ["registry"])
    await sharing.plane.patch(kinds.SERVICE_ACCOUNTS, "default", {"imagePullSecrets": None}, "red")
    await pulls(["registry"], ["registry"])
    sharing.order(Share(REGISTRY))
    await pulls([], [])


async def test_what_may_not_be_shared_is_named_and_what_was_there_stays(sharing: Sharing) -> None:
    await sharing.source(registry("one"))
    sharing.order(Share(REGISTRY))
    await sharing.holds("red", "one")
    await sharing.host.delete(kinds.SECRETS, "registry", SHARED)
    await sharing.source(
        {"metadata": {"name": "registry"}, "type": "bootstrap.kubernetes.io/token", "data": {"token-id": "eA=="}}
    )
    found = await sharing.finds(lambda found: "one of Opaque" in "".join(found.troubles))
    assert "bootstrap.kubernetes.io/token" in found.troubles[0]
    later = await sharing.copy("red")
    assert later is None or later["type"] == PULLS


async def test_a_plane_full_of_our_label_is_left_alone_and_delays_no_other(
    sharing: Sharing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.inside, "MOST_COPIES", 5)
    await sharing.source(registry("one"))
    for number in range(11):
        forged = {"name": f"forged-{number}", "namespace": "red", "labels": {labels.SHARED: "true"}}
        await sharing.plane.create(kinds.SECRETS, {"metadata": forged})
    sharing.order(EVERYWHERE)
    found = await sharing.finds(lambda found: found.unread)
    assert found.unreadable
    assert "more than 10 objects" in found.unread
    # The host has a namespace `default` too, and here plays the plane of another tenant.
    sharing.planes["team-b"] = sharing.host
    sharing.order(Share(REGISTRY, Where(names=("default",))), tenant="team-b")
    await until(lambda: is_there(sharing.host, kinds.SECRETS, "registry", "default"), "the other tenant's copy")
    await sharing.host.delete(kinds.SECRETS, "registry", "default")
