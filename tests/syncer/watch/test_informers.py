"""What the syncer waits for before it works: what there is, and no news of it."""

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec

from bulkhead.kube.objects import Key
from syncer.watch.informers import SILENT_SECONDS, Caches
from tests.kit.syncersettings import settings_for


class Copy:
    """An informer, as far as readiness asks."""

    def __init__(self, *, synced: bool, silent: float = 0.0) -> None:
        self.has_synced = synced
        self._silent = silent

    def silence(self) -> float:
        return self._silent

    async def synced(self) -> None:
        if not self.has_synced:
            await asyncio.Event().wait()


async def test_events_hold_up_no_start_however_many_the_host_has() -> None:
    host = {"Pod": Copy(synced=True), "Event": Copy(synced=False, silent=float("inf"))}
    caches: Any = SimpleNamespace(virtual={"Pod": Copy(synced=True)}, host=host)
    async with asyncio.timeout(5):
        await Caches.synced(caches)
    assert Caches.unready(caches) == []


async def test_what_kubectl_notes_on_configmaps_fills_no_copy_of_them() -> None:
    """It is each of them once again; with bodies left out, it would be all that fills the copy, and then no start ends."""
    nothing: Any = None
    copy = Caches(settings_for("red"), nothing, nothing, nothing).virtual["ConfigMap"]
    noted = {"kubectl.kubernetes.io/last-applied-configuration": "x" * 200_000}
    meta = {"name": "big", "namespace": "team", "uid": "u", "resourceVersion": "7", "labels": {"app": "a"}}
    kept, body = copy._shrink(msgspec.json.encode({"metadata": meta | {"annotations": noted}}), None)
    assert (kept.key, kept.uid, kept.resource_version, kept.labels) == (Key("team", "big"), "u", "7", {"app": "a"})
    assert 0 < len(body) < 200


def test_what_was_not_listed_or_is_silent_is_named() -> None:
    host = {"Pod": Copy(synced=True, silent=SILENT_SECONDS + 1)}
    caches: Any = SimpleNamespace(virtual={"Service": Copy(synced=False)}, host=host)
    assert Caches.unready(caches) == ["virtual Service", "host Pod"]
