"""The informer against real API servers: relists, killed servers, forgotten history."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import cast

import msgspec
import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube import informer as module
from bulkhead.kube.client import Client
from bulkhead.kube.codec import Page, compact, decode_obj
from bulkhead.kube.errors import ProtocolError, Unavailable
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.objects import Key, Meta, uid_of
from bulkhead.kube.resources import CONFIG_MAPS, POD_GROUPS
from bulkhead.kube.watch import WatchEvent
from tests.kit.background import background
from tests.kit.servers import ApiServer, ServerOptions, with_pod_groups

pytestmark = pytest.mark.client

Eventually = Callable[..., Awaitable[None]]


@contextlib.asynccontextmanager
async def running(informer: Informer) -> AsyncIterator[Informer]:
    async with background(informer.run()):
        await asyncio.wait_for(informer.synced(), 60)
        yield informer


def config_map(name: str, **labels: str) -> Obj:
    return {"metadata": {"name": name, "labels": labels}, "data": {"x": "1"}}


def summary(changes: list[Change]) -> list[tuple[str, str, bool]]:
    return [(change.kind, change.key.name, change.relist) for change in changes]


async def test_the_store_follows_the_server(host_client: Client, namespace: str, eventually: Eventually) -> None:
    changes: list[Change] = []
    made = await host_client.create(CONFIG_MAPS, config_map("a"), namespace)
    informer = Informer(host_client, CONFIG_MAPS, namespace=namespace, on_change=changes.append)
    async with running(informer):
        assert summary(changes) == [("added", "a", True)]
        await host_client.create(CONFIG_MAPS, config_map("b"), namespace)
        await host_client.patch(CONFIG_MAPS, "a", {"data": {"x": "2"}}, namespace)
        await host_client.delete(CONFIG_MAPS, "b", namespace)
        await eventually(lambda: len(changes) == 4)
    assert summary(changes[1:]) == [("added", "b", False), ("modified", "a", False), ("deleted", "b", False)]
    assert decode_obj(changes[-1].last)["data"] == {"x": "1"}, "the object as it was last, of which the store has nothing"
    stored = informer.store.get(Key(namespace, "a"))
    assert stored is not None
    assert (stored["kind"], stored["data"], uid_of(stored)) == ("ConfigMap", {"x": "2"}, uid_of(made))
    assert "managedFields" not in stored["metadata"]
    assert informer.store.keys() == [Key(namespace, "a")]


async def test_indexes_and_selectors(host_client: Client, namespace: str, eventually: Eventually) -> None:
    informer = Informer(
        host_client,
        CONFIG_MAPS,
        label_selector="team",
        indexers={"team": lambda entry: [entry.meta.label("team") or ""], "x": lambda entry: [entry.object()["data"]["x"]]},
    )
    async with running(informer):
        await host_client.create(CONFIG_MAPS, config_map("a", team=namespace), namespace)
        await host_client.create(CONFIG_MAPS, config_map("b", team=namespace), namespace)
        await host_client.create(CONFIG_MAPS, config_map("c"), namespace)
        await eventually(lambda: len(informer.store.by_index("team", namespace)) == 2)
        assert informer.store.by_index("team", namespace) == [Key(namespace, "a"), Key(namespace, "b")]
        await host_client.patch(CONFIG_MAPS, "a", {"metadata": {"labels": {"team": f"{namespace}-2"}}}, namespace)
        await eventually(lambda: informer.store.by_index("team", f"{namespace}-2"))
        assert informer.store.by_index("team", namespace) == [Key(namespace, "b")]


async def test_metadata_only_keeps_no_bodies(host_client: Client, namespace: str) -> None:
    await host_client.create(CONFIG_MAPS, config_map("a"), namespace)
    async with running(Informer(host_client, CONFIG_MAPS, namespace=namespace, metadata_only=True)) as informer:
        stored = informer.store.get(Key(namespace, "a"))
        assert stored is not None
        assert "data" not in stored


async def test_what_happened_while_the_server_was_away_is_told_as_relist(own_server: ApiServer, eventually: Eventually) -> None:
    changes: list[Change] = []
    async with Client(own_server.admin, user_agent="tests", field_manager="tests") as client:
        for name in ("stays", "goes", "returns"):
            await client.create(CONFIG_MAPS, config_map(name), "default")
        informer = Informer(client, CONFIG_MAPS, namespace="default", on_change=changes.append)
        async with running(informer), Client(own_server.admin, user_agent="t", field_manager="tests") as writer:
            changes.clear()
            # Cut off from the informer's point of view: its version is forgotten while things happen.
            own_server.kill("kube-apiserver")
            informer_version = informer.resource_version
            own_server.start()
            await asyncio.to_thread(own_server.wait)
            await writer.delete(CONFIG_MAPS, "goes", "default")
            await writer.delete(CONFIG_MAPS, "returns", "default")
            await writer.create(CONFIG_MAPS, config_map("returns"), "default")
            await eventually(lambda: len([each for each in changes if each.kind == "deleted"]) == 2, seconds=120)
            await eventually(lambda: Key("default", "returns") in informer.store, seconds=120)
            assert int(informer.resource_version) > int(informer_version)
            assert Key("default", "goes") not in informer.store
    assert {change.key.name for change in changes} == {"goes", "returns"}


async def test_compaction_leads_to_a_relist(own_server: ApiServer, eventually: Eventually) -> None:
    changes: list[Change] = []
    async with Client(own_server.admin, user_agent="tests", field_manager="tests") as client:
        for name in ("stays", "goes", "is-replaced"):
            await client.create(CONFIG_MAPS, config_map(name), "default")
        old = (await client.list(CONFIG_MAPS, "default")).resource_version
        informer = Informer(client, CONFIG_MAPS, namespace="default", on_change=changes.append)
        async with running(informer):
            pass
        relists = informer.relists
        changes.clear()
        await client.delete(CONFIG_MAPS, "goes", "default")
        await client.delete(CONFIG_MAPS, "is-replaced", "default")
        await client.create(CONFIG_MAPS, config_map("is-replaced"), "default")
        own_server.compact()
        own_server.kill("kube-apiserver")
        own_server.start()
        await asyncio.to_thread(own_server.wait)
        informer.resource_version = old
        async with background(informer.run()):
            await eventually(lambda: informer.relists > relists, seconds=120)
    assert sorted(summary(changes)) == [
        ("added", "is-replaced", True),
        ("deleted", "goes", True),
        ("deleted", "is-replaced", True),
    ]


async def test_a_restored_plane_is_listed_again(host_client: Client, namespace: str, eventually: Eventually) -> None:
    await host_client.create(CONFIG_MAPS, config_map("a"), namespace)
    informer = Informer(host_client, CONFIG_MAPS, namespace=namespace)
    # As after a restore: the version that we know lies in the server's future.
    informer.resource_version = "999999999"
    async with background(informer.run()):
        await eventually(lambda: informer.has_synced, seconds=120)
    assert informer.store.keys() == [Key(namespace, "a")]


async def test_a_failing_callback_stops_nothing(
    host_client: Client, namespace: str, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(change: Change) -> None:
        raise RuntimeError("bug")

    async with running(Informer(host_client, CONFIG_MAPS, namespace=namespace, on_change=broken)) as informer:
        await host_client.create(CONFIG_MAPS, config_map("a"), namespace)
        await host_client.create(CONFIG_MAPS, config_map("b"), namespace)
        await eventually(lambda: len(informer.store) == 2)
    assert "change not handled" in caplog.text


async def test_an_index_survives_objects_of_odd_shape(host_client: Client, namespace: str) -> None:
    await host_client.create(CONFIG_MAPS, {"metadata": {"name": "no-data"}}, namespace)
    await host_client.create(CONFIG_MAPS, config_map("with-data"), namespace)
    indexers = {"x": lambda entry: [entry.object()["data"]["x"]]}
    async with running(Informer(host_client, CONFIG_MAPS, namespace=namespace, indexers=indexers)) as informer:
        assert len(informer.store) == 2
        assert informer.store.by_index("x", "1") == [Key(namespace, "with-data")]


async def test_a_deletion_around_an_outage_is_told_once(own_server: ApiServer, eventually: Eventually) -> None:
    changes: list[Change] = []
    async with Client(own_server.admin, user_agent="tests", field_manager="tests") as client:
        await client.create(CONFIG_MAPS, config_map("goes"), "default")
        informer = Informer(client, CONFIG_MAPS, namespace="default", on_change=changes.append)
        back: list[int] = []
        informer.on_back = lambda: back.append(1)
        async with running(informer):
            changes.clear()
            own_server.kill("kube-apiserver")
            await eventually(lambda: informer.last_error is not None)
            assert not back
            own_server.start()
            await asyncio.to_thread(own_server.wait)
            await client.delete(CONFIG_MAPS, "goes", "default")
            await eventually(lambda: changes, seconds=120)
    # A server that wrote something of its own before its watch cache was filled answers our version with 410: then a list may
    # report the deletion instead, as an absence; or the watch after it does, where the list came before the deletion.
    assert [(change.kind, change.key.name) for change in changes] == [("deleted", "goes")]
    assert informer.relists > 1 or not changes[0].relist
    assert back == [1]


@pytest.mark.parametrize("wake", [Informer.try_now, Informer.list_again])
async def test_a_pause_ends_when_another_call_has_reached_the_server(
    wake: Callable[[Informer], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FIRST_RETRY_SECONDS", 3600.0)
    monkeypatch.setattr(module, "_LONGEST_RETRY_SECONDS", 3600.0)
    monkeypatch.setattr(module, "_RETRY_SPREAD_SECONDS", 0.0)
    tried = asyncio.Event()

    class Away:
        async def pages(self, *_: object, **__: object) -> AsyncIterator[object]:
            tried.set()
            raise Unavailable(503, "ServiceUnavailable", "not now")
            yield

    informer = Informer(cast("Client", Away()), CONFIG_MAPS)
    async with background(informer.run()):
        for _ in range(3):
            async with asyncio.timeout(5):
                await tried.wait()
            tried.clear()
            await asyncio.sleep(0)
            wake(informer)


async def test_events_of_the_past_bring_nothing_back(eventually: Eventually) -> None:
    """Found by a storm of the simulation: a replayed event put an object back that one of the same name had replaced."""

    def event(version: str, uid: str) -> WatchEvent:
        meta = {"name": "a", "namespace": "n", "uid": uid, "resourceVersion": version}
        raw = msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        return WatchEvent("ADDED", compact(raw)[0], raw)

    class Repeating:
        lists = 0

        async def pages(self, *_: object, **__: object) -> AsyncIterator[Page]:
            self.lists += 1
            first = self.lists == 1
            yield Page([] if first else [msgspec.Raw(event("9", "new").raw)], "5" if first else "9", "")

        async def watch(self, *_: object, **__: object) -> AsyncIterator[WatchEvent]:
            if self.lists == 1:
                for version, uid in (("7", "old"), ("9", "new"), ("7", "old")):
                    yield event(version, uid)
            await asyncio.Event().wait()

    changes: list[Change] = []
    repeating = Repeating()
    informer = Informer(cast("Client", repeating), CONFIG_MAPS, on_change=changes.append)
    async with running(informer):
        await eventually(lambda: repeating.lists > 1 and informer.resource_version == "9")
        (meta,) = informer.store.metas()
    assert meta.uid == "new"
    assert [(change.kind, change.meta.uid) for change in changes] == [("added", "old"), ("deleted", "old"), ("added", "new")]


@pytest.mark.parametrize("odd", ["", "²", "9" * 5000])
async def test_versions_that_are_no_numbers_bring_nothing_and_end_nothing(odd: str, eventually: Eventually) -> None:
    class Odd:
        lists = watches = 0

        async def pages(self, *_: object, **__: object) -> AsyncIterator[Page]:
            self.lists += 1
            yield Page([], "5" if self.lists < 3 else odd, "")

        async def watch(self, *_: object, **__: object) -> AsyncIterator[WatchEvent]:
            self.watches += 1
            meta = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": odd}
            raw = msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
            yield WatchEvent("ADDED", compact(raw)[0], raw)

    server = Odd()
    informer = Informer(cast("Client", server), CONFIG_MAPS)
    async with running(informer):
        await eventually(lambda: server.watches > 1 and isinstance(informer.last_error, ProtocolError))
        assert list(informer.store.metas()) == []


async def test_a_kind_that_is_not_served_counts_as_read_and_its_going_tells_of_no_deletion(
    own_server: ApiServer, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RETRY_UNSERVED_SECONDS", 0.1)
    monkeypatch.setattr(module, "_FIRST_RETRY_SECONDS", 0.1)
    monkeypatch.setattr(module, "_LONGEST_RETRY_SECONDS", 0.2)
    changes: list[Change] = []
    plain, serving = own_server.options, with_pod_groups(own_server.options.service_range)

    async def restart(options: ServerOptions) -> None:
        own_server.kill()
        own_server.options = options
        own_server.start_apiserver()
        await asyncio.to_thread(own_server.wait)

    async with Client(own_server.admin, user_agent="tests", field_manager="tests") as client:
        informer = Informer(client, POD_GROUPS, optional=True, on_change=changes.append)
        async with running(informer):
            assert (informer.served, informer.has_synced, informer.relists) == (False, True, 0)
            await restart(serving)
            await eventually(lambda: informer.served)
            spec = {"schedulingPolicy": {"basic": {}}}
            await client.create(POD_GROUPS, {"metadata": {"name": "gang"}, "spec": spec}, "default")
            await eventually(lambda: summary(changes) == [("added", "gang", False)])
            await restart(plain)
            await eventually(lambda: not informer.served)
            assert informer.silence() < 60
            await restart(serving)
            await eventually(lambda: informer.served)
            assert summary(changes) == [("added", "gang", False)]
            assert informer.store.keys() == [Key("default", "gang")]


async def test_what_is_shrunk_to_nothing_is_not_stored(host_client: Client, namespace: str, eventually: Eventually) -> None:
    changes: list[Change] = []

    def shrink(raw: bytes | msgspec.Raw, meta: Meta | None) -> tuple[Meta, bytes]:
        meta, body = compact(raw, meta)
        return msgspec.structs.replace(meta, labels=None), b"{}" if b'"keep"' in body else b""

    await host_client.create(CONFIG_MAPS, config_map("a", keep="yes"), namespace)
    await host_client.create(CONFIG_MAPS, config_map("b"), namespace)
    informer = Informer(host_client, CONFIG_MAPS, namespace=namespace, on_change=changes.append, shrink=shrink)
    async with running(informer):
        assert summary(changes) == [("added", "a", True)]
        await host_client.patch(CONFIG_MAPS, "b", {"metadata": {"labels": {"keep": "yes"}}}, namespace)
        await host_client.patch(CONFIG_MAPS, "a", {"metadata": {"labels": None}}, namespace)
        await host_client.delete(CONFIG_MAPS, "a", namespace)
        await eventually(lambda: len(changes) == 3)
        assert summary(changes[1:]) == [("added", "b", False), ("deleted", "a", False)]
        assert informer.store.bodies() == [b"{}"]
        assert changes[1].meta.labels is None
