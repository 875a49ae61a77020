"""Large pods: what one change of a namespace costs the host is bounded by the size of a pod and by the budget of bytes."""

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.resources import CONFIG_MAPS, NAMESPACES, PODS, SECRETS
from syncer import metrics
from syncer.mirrors import referenced
from syncer.quota.extent import Limits
from tests.kit.syncerbed import SyncerBed, until

PODS_OF_ALL = 6
TEXT = 150_000


def gated(bed: SyncerBed, name: str, size: int) -> Obj:
    main = {"name": "main", "image": "busybox:1.36", "args": ["x" * size]}
    return bed.pod(name, containers=[main], schedulingGates=[{"name": "example.org/wait"}])


async def test_a_pod_too_large_for_the_host_says_so_and_its_size(bed: SyncerBed) -> None:
    await bed.create(gated(bed, "large", 900_000))

    async def refused() -> Obj | None:
        found = await bed.condition("large")
        return found if found and found["reason"] == "TooLarge" else None

    message = (await until(refused, "refusal"))["message"]
    assert "at most 262144 are mirrored" in message
    assert "ConfigMap" in message
    assert await bed.mirror("large") is None


async def test_every_byte_that_a_namespace_costs_the_host_is_counted(bed: SyncerBed) -> None:
    for number in range(PODS_OF_ALL):
        await bed.create(gated(bed, f"p{number}", TEXT))
    for number in range(PODS_OF_ALL):
        await bed.mirrored(f"p{number}")
    before = metrics.HOST_BYTES._value.get()
    await bed.plane.patch(NAMESPACES, bed.space, {"metadata": {"labels": {"stage": "test"}}})

    async def labelled() -> bool:
        return all(
            any(
                key.startswith("namespace.bulkhead.dev/") and value == "test"
                for key, value in each["metadata"]["labels"].items()
            )
            for each in await bed.host_pods()
        )

    await until(labelled, "label on every host pod")
    assert metrics.HOST_BYTES._value.get() - before >= PODS_OF_ALL * TEXT


async def test_configmaps_and_secrets_are_bounded_together_and_not_only_counted(
    bed: SyncerBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bed.stop()
    monkeypatch.setattr(referenced, "MOST_BYTES", 400_000)
    await bed.start()

    async def data(name: str, size: int) -> None:
        await bed.plane.patch(CONFIG_MAPS, name, {"data": {"x": "x" * size}}, bed.space)

    for name in ("large", "small"):
        await bed.plane.create(CONFIG_MAPS, {"metadata": {"name": name}, "data": {"x": "x" * 1000}}, bed.space)
    await bed.plane.create(SECRETS, {"metadata": {"name": "late"}, "stringData": {"x": "x" * 100_000}}, bed.space)
    volumes = [{"name": name, "configMap": {"name": name}} for name in ("large", "small")]
    await bed.create(bed.pod("first", volumes=volumes))
    await bed.copied(CONFIG_MAPS, "small")
    await data("large", 300_000)
    await until(lambda: _holds(bed, "large", 300_000), "what grows within the bound")
    # One that is there keeps what it had; one that is new has none. Both are told, and the pod is not held up.
    await data("small", 200_000)
    await bed.event("small", "together", reason="TooLarge")
    assert await _holds(bed, "small", 1000)
    await bed.create(bed.pod("second", volumes=[{"name": "late", "secret": {"secretName": "late"}}]))
    await bed.mirrored("second")
    await bed.event("late", "together", reason="TooLarge")
    assert await bed.copy(SECRETS, "late") is None
    # Nothing of that is another after a start.
    await bed.stop()
    await bed.start()
    await bed.idle()
    assert await bed.copy(SECRETS, "late") is None
    assert await _holds(bed, "small", 1000)
    await data("large", 1000)
    await until(lambda: _holds(bed, "large", 1000), "what shrinks")
    await bed.patrolled()
    await until(lambda: _holds(bed, "small", 200_000), "what has room now")
    # Until then the other one has none: a copy that is not as it should be counts as the largest.
    await bed.patrolled()
    await bed.copied(SECRETS, "late")
    await bed.plane.delete(PODS, "first", bed.space, grace_seconds=0)


async def _holds(bed: SyncerBed, name: str, size: int) -> bool:
    found = await bed.copy(CONFIG_MAPS, name)
    return found is not None and len(found["data"]["x"]) == size


def of_size(bed: SyncerBed, name: str, size: int = 100_000) -> Obj:
    """A pod that reads its annotation `note`, so that it is on the host as well."""
    reads = {"path": "note", "fieldRef": {"fieldPath": "metadata.annotations['note']"}}
    main = {"name": "main", "image": "busybox:1.36", "args": ["x" * size]}
    return bed.pod(name, containers=[main], volumes=[{"name": "about", "downwardAPI": {"items": [reads]}}])


async def test_pods_are_bounded_together_the_ended_ones_among_them_and_not_only_counted(bed: SyncerBed) -> None:
    assert bed.session is not None
    bed.session.extent.adopt(Limits(350_000, 1000))
    for name in ("ended", "second", "third"):
        await bed.create(of_size(bed, name))
    await bed.run(await bed.mirrored("ended"), "Succeeded")
    for name in ("second", "third"):
        await bed.mirrored(name)
    await bed.create(of_size(bed, "late"))
    # A user reads why in the pod's condition, and in an event.
    await bed.event("late", "pods may have 350000 bytes together", "those that have ended among them", reason="QuotaExceeded")
    assert ((await bed.condition("late")) or {})["reason"] == "QuotaExceeded"
    await bed.create(bed.pod("small"))
    await bed.mirrored("small")
    # A running pod that its annotations would make larger than there is room for stays as it is; a smaller one has room.
    await _note(bed, "third", "x" * 60_000)
    await bed.event("third", "The pod changes on the host when enough is free", reason="QuotaExceeded")
    assert not await _is_noted(bed, "third", "x" * 60_000)
    await _note(bed, "third", "y" * 100)
    await until(lambda: _is_noted(bed, "third", "y" * 100), "a note that has room")
    # Nothing of that is another after a start, in whatever order the keys come then.
    await bed.stop()
    session = bed.begin()
    session.extent.adopt(Limits(350_000, 1000))
    await bed.idle()
    assert await bed.mirror("late") is None
    # The pod that ended is deleted, and the one that waits starts.
    await bed.plane.delete(PODS, "ended", bed.space, grace_seconds=0)
    await bed.mirrored("late")


async def test_pods_of_an_older_platform_that_are_beyond_the_bound_stay(bed: SyncerBed) -> None:
    for name in ("a", "b"):
        await bed.create(bed.pod(name))
    hosts = [await bed.mirrored(name) for name in ("a", "b")]
    await bed.stop()
    session = bed.begin()
    session.extent.adopt(Limits(1, 1))
    await bed.idle()
    await bed.patrolled()
    assert {host["metadata"]["uid"] for host in await bed.host_pods()} == {host["metadata"]["uid"] for host in hosts}
    await bed.create(bed.pod("c"))
    await bed.event("c", "bytes together on the host", reason="QuotaExceeded")


async def _note(bed: SyncerBed, name: str, text: str) -> None:
    await bed.plane.patch(PODS, name, {"metadata": {"annotations": {"note": text}}}, bed.space)


async def _is_noted(bed: SyncerBed, name: str, text: str) -> bool:
    return text in ((await bed.mirrored(name))["metadata"].get("annotations") or {}).values()
