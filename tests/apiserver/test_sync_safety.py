"""What must not happen: host pods deleted for a plane that lost its mind, and a hostile plane that harms more than itself."""

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.resources import CONFIG_MAPS, EVENTS, PODS, VALIDATING_WEBHOOKS
from syncer.write import identity
from tests.kit.syncerbed import SyncerBed, until


async def record(bed: SyncerBed) -> dict[str, str]:
    found = await bed.host.get(CONFIG_MAPS, identity.NAME, bed.settings.plane_namespace)
    return dict(found["data"])


async def rewrite(bed: SyncerBed, **data: str) -> None:
    await bed.host.patch(CONFIG_MAPS, identity.NAME, {"data": data}, bed.settings.plane_namespace)


async def test_the_plane_is_remembered_on_the_host(bed: SyncerBed) -> None:
    remembered = await record(bed)
    assert remembered[identity.UID_KEY]
    assert int(remembered[identity.REVISION_KEY]) > 0


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (identity.UID_KEY, "another-cluster", "changed identity"),
        (identity.REVISION_KEY, "999999999999", "went back in time"),
    ],
)
async def test_a_plane_that_is_not_the_one_deletes_nothing(bed: SyncerBed, key: str, value: str, text: str) -> None:
    await bed.running("web")
    await bed.stop()
    await rewrite(bed, **{key: value})
    await bed.plane.delete(PODS, "web", bed.space, grace_seconds=0)
    session = await bed.start()
    assert text in session.identity.quarantine
    assert text in (await record(bed))[identity.QUARANTINE_KEY]

    async def reasons() -> list[str]:
        return [each["reason"] for each in (await bed.host.list(EVENTS, bed.settings.plane_namespace)).items]

    assert await until(reasons, "an event that says so") == ["PlaneQuarantined"]

    await bed.idle()
    assert "deletionTimestamp" not in (await bed.mirrored("web"))["metadata"]

    # New pods still run, and the quarantine outlives a restart.
    await bed.create(bed.pod("new"))
    await bed.mirrored("new")
    await bed.stop()
    session = await bed.start()
    assert session.identity.quarantine

    # An operator's all-clear.
    await bed.host.delete(CONFIG_MAPS, identity.NAME, bed.settings.plane_namespace)

    async def cleared() -> bool:
        return not session.identity.quarantine

    await until(cleared, "quarantine ended")
    session.patrol.round()

    async def deleted() -> bool:
        found = await bed.mirror("web")
        return found is None or "deletionTimestamp" in found["metadata"]

    await until(deleted, "host pod deleted after the all-clear")


async def test_the_mass_delete_breaker_stops(host_client: Client, plane_client: Client) -> None:
    async with SyncerBed.open(host_client, plane_client, massDeleteLimit=3) as bed:
        for number in range(8):
            await bed.create(bed.pod(f"p{number}"))
        for number in range(8):
            await bed.mirrored(f"p{number}")
        await bed.stop()
        for number in range(8):
            await bed.plane.delete(PODS, f"p{number}", bed.space, grace_seconds=0)
        session = await bed.start()

        async def open_breaker() -> bool:
            return session.breaker.open and session.queue.idle

        await until(open_breaker, "breaker open")
        left = [each for each in await bed.host_pods() if "deletionTimestamp" not in each["metadata"]]
        assert len(left) == 5
        # Another process has observed no deletion either: it would delete three more.
        await bed.stop()
        session = await bed.start()
        await until(open_breaker, "breaker open in the next process")
        left = [pod for pod in await bed.host_pods() if "deletionTimestamp" not in pod["metadata"]]
        assert len(left) == 5


async def test_observed_deletions_do_not_count_as_mass_deletion(host_client: Client, plane_client: Client) -> None:
    async with SyncerBed.open(host_client, plane_client, massDeleteLimit=3) as bed:
        for number in range(8):
            await bed.create(bed.pod(f"p{number}"))
        for number in range(8):
            await bed.mirrored(f"p{number}")
        for number in range(8):
            await bed.plane.delete(PODS, f"p{number}", bed.space, grace_seconds=0)

        async def empty() -> bool:
            return not await bed.host_pods()

        await until(empty, "all host pods gone")
        assert bed.session is not None
        assert not bed.session.breaker.open


async def test_a_webhook_that_fails_closed_hurts_only_its_own_plane(bed: SyncerBed) -> None:
    host = await bed.running("web")
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"], "scope": "*"}
    hook = {
        "name": "closed.example.com",
        "clientConfig": {"url": "https://127.0.0.1:9/nobody"},
        "rules": [rule],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": bed.space}},
    }
    await bed.plane.create(VALIDATING_WEBHOOKS, {"metadata": {"name": f"closed-{bed.tenant}"}, "webhooks": [hook]})
    try:
        await bed.run(host, phase="Succeeded")
        assert bed.session is not None
        session = bed.session

        async def refused() -> bool:
            return any(session.backoff.failures(item) > 1 for item in list(session.backoff._rows))

        await until(refused, "writes refused in the plane")
        assert (await bed.mirrored("web"))["metadata"]["uid"] == host["metadata"]["uid"]
        assert not session._unready()
    finally:
        await bed.plane.delete(VALIDATING_WEBHOOKS, f"closed-{bed.tenant}")

    async def caught_up() -> bool:
        return ((await bed.virtual("web")) or {})["status"]["phase"] == "Succeeded"

    await until(caught_up, "status after the webhook went")
