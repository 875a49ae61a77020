"""Planes that outlive their Tenant, on a real API server: kept, ended in time, taken up again, by no other Tenant.

A controller dies at each of its writes, and another one goes on: nothing is lost, and nothing is had twice.
"""

import base64
import contextlib
from datetime import datetime, timedelta
from typing import Any

import pytest

from bulkhead.api import labels, planerecord
from bulkhead.api.conditions import Reason, timestamp
from bulkhead.api.objects import Obj
from bulkhead.api.planerecord import PURPOSE, PlaneRecord
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.signing import Ring
from bulkhead.work.clock import SystemClock
from controller.decide.identity import runs_as
from controller.pki.signingkeys import new_files, ring_of
from controller.tenant.reconcile import ReconcileFailed
from tests.controller.test_metrics import value
from tests.kit.controllerhost import ControllerHost, FixedKeys, ask, finish_namespaces, ready, take_down
from tests.kit.tenantsamples import tenant_class

pytestmark = [pytest.mark.apiserver, pytest.mark.crashes]
OTHER = "00000000-8888-7777-6666-555555555555"
METRIC = "bulkhead_retained_until_timestamp_seconds"


class Later(SystemClock):
    """A clock that a test sets forward."""

    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


class Killed(BaseException):
    """The controller died here."""


class Mortal:
    """A client whose process dies at one of its writes: before it, or after it was carried out."""

    def __init__(self, client: Client, dies_at: int, *, after: bool) -> None:
        self._client = client
        self._left = dies_at
        self._after = after
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name not in {"create", "patch", "delete", "apply", "replace"}:
            return found

        async def write(*arguments: Any, **more: Any) -> Any:
            if self.dead:
                raise Killed
            self._left -= 1
            if self._left > 0:
                return await found(*arguments, **more)
            self.dead = True
            if self._after:
                with contextlib.suppress(KubeError):
                    await found(*arguments, **more)
            raise Killed

        return write


@pytest.fixture
async def host(client: Client) -> Client:
    """A host whose class keeps planes for two days."""
    offer = tenant_class(deletion={"policy": "Retain", "retainFor": "48h"})
    await client.apply(kinds.TENANT_CLASSES, offer | {"metadata": {"name": "standard"}})
    return client


async def refused(world: ControllerHost, tenant: str) -> tuple[str, str]:
    await world.caught_up()
    with contextlib.suppress(ReconcileFailed):
        await world.reconciler.reconcile(tenant)
    found = await world.client.get(kinds.TENANTS, tenant)
    message = next(item["message"] for item in found["status"]["conditions"] if item["type"] == "Ready")
    return ready(found)[1], message


async def keys_of(client: Client, name: str) -> dict[str, Any]:
    listed = (await client.list(kinds.SECRETS, f"bh-{name}")).items
    return {obj["metadata"]["name"]: obj.get("data") for obj in listed if obj["metadata"]["name"].startswith("pki-ca")}


async def with_volume(client: Client, name: str) -> str:
    """The claim that a kubelet's host would have made for the plane; returns its UID."""
    claim = {
        "metadata": {"name": "data-plane-0", "labels": labels.made_for(name, "plane")},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    made = await client.create(kinds.PERSISTENT_VOLUME_CLAIMS, claim, f"bh-{name}")
    # No controller takes it off here.
    await client.patch(kinds.PERSISTENT_VOLUME_CLAIMS, "data-plane-0", {"metadata": {"finalizers": None}}, f"bh-{name}")
    return str(made["metadata"]["uid"])


async def claim_of(client: Client, name: str) -> str:
    return str((await client.get(kinds.PERSISTENT_VOLUME_CLAIMS, "data-plane-0", f"bh-{name}"))["metadata"]["uid"])


async def built(world: ControllerHost, name: str, **spec: Any) -> tuple[Obj, str, dict[str, Any]]:
    await ask(world.client, name, **spec)
    tenant = await world.settle(name)
    return tenant, await with_volume(world.client, name), await keys_of(world.client, name)


async def gone(client: Client, kind: Any, name: str, namespace: str | None = None) -> bool:
    try:
        found = await client.get(kind, name, namespace)
    except NotFound:
        return True
    return bool(found["metadata"].get("deletionTimestamp"))


async def test_a_plane_is_kept_and_taken_up_again_with_its_keys_slice_and_identity(host: Client) -> None:
    async with ControllerHost(host) as world:
        before, volume, keys = await built(world, "back")
        identity = before["status"]["planeIdentity"]
        assert before["status"]["deletion"] == {"policy": "Retain", "retainFor": "48h", "confirm": False}
        await take_down(world, "back")
        kept = await host.get(kinds.NAMESPACES, "bh-back")
        assert kept["metadata"]["labels"][labels.RETAINED] == identity
        assert not kept["metadata"].get("deletionTimestamp")
        assert await gone(host, kinds.STATEFUL_SETS, "plane", "bh-back")
        assert await gone(host, kinds.DEPLOYMENTS, "syncer", "bh-back")
        assert await gone(host, kinds.CLUSTER_ROLE_BINDINGS, "bh-back-syncer-nodes")
        await world.caught_up()
        await world.reconciler.reconcile("back")
        until = datetime.fromisoformat(kept["metadata"]["annotations"][labels.RETAINED_UNTIL])
        assert value(METRIC, tenant="back") == until.timestamp()

        made = await ask(host, "back", adopt=identity)
        tenant = await world.settle("back")
        assert made["metadata"]["uid"] != before["metadata"]["uid"]
        assert tenant["status"]["planeIdentity"] == identity
        assert tenant["status"]["serviceSlice"] == before["status"]["serviceSlice"]
        assert runs_as(await host.get(kinds.STATEFUL_SETS, "plane", "bh-back")) == identity
        assert await keys_of(host, "back") == keys
        assert await claim_of(host, "back") == volume
        for namespace in ("bh-back", "bh-back-work"):
            meta = (await host.get(kinds.NAMESPACES, namespace))["metadata"]
            assert meta["annotations"][labels.TENANT_UID] == made["metadata"]["uid"]
            assert not {labels.ENDS, labels.RETAINED_UNTIL} & meta["annotations"].keys()
            assert labels.RETAINED not in meta["labels"]
        slice_ = await host.get(kinds.SERVICE_CIDRS, "bh-back")
        assert labels.RETAINED not in slice_["metadata"]["labels"]
        # It is a Tenant as any other: nothing ends it when the earlier time is over.
        assert value(METRIC, tenant="back") == 0.0
        await take_down(world, "back")
        assert not await gone(host, kinds.NAMESPACES, "bh-back")


async def test_the_name_alone_takes_up_nothing_and_the_refusal_says_what_does(host: Client) -> None:
    async with ControllerHost(host) as world:
        before, volume, keys = await built(world, "named")
        await take_down(world, "named")
        await ask(host, "named")
        reason, message = await refused(world, "named")
        assert reason == Reason.NAMESPACE_TAKEN
        assert f"spec.adopt: {before['status']['planeIdentity']}" in message
        assert await gone(host, kinds.STATEFUL_SETS, "plane", "bh-named")
        # What it says works, on the very object.
        await host.patch(kinds.TENANTS, "named", {"spec": {"adopt": before["status"]["planeIdentity"]}})
        tenant = await world.settle("named")
        assert tenant["status"]["planeIdentity"] == before["status"]["planeIdentity"]
        assert (await claim_of(host, "named"), await keys_of(host, "named")) == (volume, keys)


async def test_who_was_shut_out_of_a_plane_is_not_let_in_by_its_adoption(host: Client) -> None:
    """`bulkhead revoke` writes into the Tenant; the manifest from which it is made again does not have it."""
    shut = {"revoked": [{"name": "corp:eve"}], "revokedUsers": ["mallory"]}
    async with ControllerHost(host) as world:
        before, _, keys = await built(world, "shut")
        await host.patch(kinds.TENANTS, "shut", {"spec": {"access": shut}})
        await world.settle("shut")
        await take_down(world, "shut")
        await ask(host, "shut", adopt=before["status"]["planeIdentity"])
        _, message = await refused(world, "shut")
        assert "Add to spec.access: revoked: User corp:eve, revokedUsers: mallory" in message
        assert (await host.get(kinds.NAMESPACES, "bh-shut"))["metadata"]["labels"][labels.RETAINED]
        await host.patch(kinds.TENANTS, "shut", {"spec": {"access": shut}})
        tenant = await world.settle("shut")
        assert tenant["status"]["planeIdentity"] == before["status"]["planeIdentity"]
        assert await keys_of(host, "shut") == keys


async def test_no_other_tenant_gets_a_plane_that_is_kept_or_that_runs(host: Client) -> None:
    async with ControllerHost(host) as world:
        live, *_ = await built(world, "living")
        kept, volume, _ = await built(world, "resting")
        await take_down(world, "resting")
        for name, adopt in (("thief-a", live), ("thief-b", kept)):
            await ask(host, name, adopt=adopt["status"]["planeIdentity"])
            reason, message = await refused(world, name)
            assert reason == Reason.ADOPTION_REFUSED
            assert f"no plane is retained in bh-{name}" in message
            assert await gone(host, kinds.NAMESPACES, f"bh-{name}"), "no new plane is made instead"
        await ask(host, "resting", adopt=live["status"]["planeIdentity"])
        assert (await refused(world, "resting"))[0] == Reason.ADOPTION_REFUSED
        assert await claim_of(host, "resting") == volume
        # A Tenant with a plane cannot be given another one.
        with pytest.raises(KubeError, match="has a plane already"):
            await host.patch(kinds.TENANTS, "living", {"spec": {"adopt": kept["status"]["planeIdentity"]}})
        assert ready(await world.settle("living"))[1] not in {Reason.ADOPTION_REFUSED, Reason.NAMESPACE_TAKEN}


FOREIGN = ring_of(new_files())


@pytest.mark.parametrize("why", ["foreign", "forged", "another", "missing"])
async def test_with_a_record_that_does_not_count_nothing_is_taken_up_or_changed(host: Client, why: str) -> None:
    name = f"record-{why}"
    async with ControllerHost(host) as world:
        before, volume, keys = await built(world, name)
        identity, uid = before["status"]["planeIdentity"], before["metadata"]["uid"]
        await take_down(world, name)

        def signed(ring: Ring, of: str = identity) -> str:
            return ring.sign(PURPOSE, PlaneRecord(of, name, uid, "2026-01-01T00:00:00Z").text())

        forged = signed(FixedKeys.held, OTHER).replace(OTHER, identity)
        put = {"foreign": signed(FOREIGN), "forged": forged, "another": signed(FixedKeys.held, OTHER)}.get(why)
        if put is None:
            await host.delete(kinds.SECRETS, planerecord.SECRET, f"bh-{name}")
        else:
            data = {planerecord.FILE: base64.b64encode(put.encode()).decode()}
            await host.patch(kinds.SECRETS, planerecord.SECRET, {"data": data}, f"bh-{name}")
        await ask(host, name, adopt=identity)
        reason, message = await refused(world, name)
        assert reason == Reason.IDENTITY_IN_DOUBT
        assert "from a backup" in message or "exchanged" in message
        assert (await host.get(kinds.NAMESPACES, f"bh-{name}"))["metadata"]["labels"][labels.RETAINED] == identity
        assert (await claim_of(host, name), await keys_of(host, name)) == (volume, keys)
        assert await gone(host, kinds.STATEFUL_SETS, "plane", f"bh-{name}")


async def test_after_its_time_a_plane_ends_and_that_is_said_before(host: Client) -> None:
    clock = Later()
    async with ControllerHost(host, clock=clock) as world:
        before, _, _ = await built(world, "over")
        await take_down(world, "over")
        for hours, told in ((20, False), (30, True)):
            clock.ahead = timedelta(hours=hours)
            await world.caught_up()
            outcome = await world.reconciler.reconcile("over")
            assert outcome.again is not None
            assert outcome.again <= 600
            events = (await host.list(kinds.EVENTS, "default")).items
            assert any(event["reason"] == "RetentionEnds" and "over" in event["message"] for event in events) is told
            assert not await gone(host, kinds.NAMESPACES, "bh-over")
        clock.ahead = timedelta(hours=49)
        # Too late to take it up.
        await ask(host, "over", adopt=before["status"]["planeIdentity"])
        assert "time was over" in (await refused(world, "over"))[1]
        await host.delete(kinds.TENANTS, "over")
        for _ in range(20):
            await world.caught_up()
            await world.reconciler.reconcile("over")
            await finish_namespaces(host, "over")
        for kind, name in ((kinds.NAMESPACES, "bh-over"), (kinds.NAMESPACES, "bh-over-work"), (kinds.SERVICE_CIDRS, "bh-over")):
            assert await gone(host, kind, name), name
        assert value(METRIC, tenant="over") == 0.0
        # The name is free, and its next plane is another one.
        await ask(host, "over")
        tenant = await world.settle("over")
        assert tenant["status"]["planeIdentity"] != before["status"]["planeIdentity"]


async def test_a_mark_that_cannot_be_read_ends_nothing(host: Client) -> None:
    clock = Later()
    async with ControllerHost(host, clock=clock) as world:
        await built(world, "unread")
        await take_down(world, "unread")
        await host.patch(kinds.NAMESPACES, "bh-unread", {"metadata": {"annotations": {labels.RETAINED_UNTIL: "sometime"}}})
        clock.ahead = timedelta(days=4000)
        for _ in range(3):
            await world.caught_up()
            await world.reconciler.reconcile("unread")
        assert not await gone(host, kinds.NAMESPACES, "bh-unread")


async def test_an_admin_ends_one_at_once(host: Client) -> None:
    async with ControllerHost(host) as world:
        await built(world, "ended")
        await take_down(world, "ended")
        now = timestamp(SystemClock().now())
        await host.patch(kinds.NAMESPACES, "bh-ended", {"metadata": {"annotations": {labels.RETAINED_UNTIL: now}}})
        for _ in range(10):
            await world.caught_up()
            await world.reconciler.reconcile("ended")
            await finish_namespaces(host, "ended")
        assert await gone(host, kinds.NAMESPACES, "bh-ended")


async def test_without_retain_everything_goes_as_ever(host: Client) -> None:
    await host.apply(kinds.TENANT_CLASSES, tenant_class() | {"metadata": {"name": "standard"}})
    async with ControllerHost(host) as world:
        tenant, *_ = await built(world, "plain")
        assert "deletion" not in tenant["status"]
        await take_down(world, "plain")
        assert await gone(host, kinds.NAMESPACES, "bh-plain")


async def until_dead(host: Client, name: str, dies_at: int, *, after: bool) -> bool:
    """Let a controller reconcile until it dies at a write; returns whether it did."""
    mortal = Mortal(host, dies_at, after=after)
    async with ControllerHost(mortal) as world:  # type: ignore[arg-type]
        for _ in range(12):
            await world.caught_up()
            try:
                await world.reconciler.reconcile(name)
            except Killed:
                return True
            except ReconcileFailed:
                continue
            except BaseExceptionGroup as group:
                if group.subgroup(Killed):
                    return True
                raise
    return False


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_controller_that_dies_at_any_write_of_keeping_or_taking_up_loses_nothing(host: Client, *, after: bool) -> None:
    name = f"mortal-{'b' if after else 'a'}"
    async with ControllerHost(host) as world:
        before, volume, keys = await built(world, name)
    identity = before["status"]["planeIdentity"]
    deaths = {"keeping": 0, "taking up": 0}
    for round_ in range(1, 9):
        await host.delete(kinds.TENANTS, name)
        deaths["keeping"] += await until_dead(host, name, round_, after=after)
        async with ControllerHost(host) as world:
            await world.caught_up()
            with contextlib.suppress(NotFound):
                while True:
                    await host.get(kinds.TENANTS, name)
                    await world.reconciler.reconcile(name)
                    await world.caught_up()
        assert (await host.get(kinds.NAMESPACES, f"bh-{name}"))["metadata"]["labels"][labels.RETAINED] == identity
        assert (await claim_of(host, name), await keys_of(host, name)) == (volume, keys)

        await ask(host, name, adopt=identity)
        deaths["taking up"] += await until_dead(host, name, round_, after=after)
        if round_ % 2:
            # Its Tenant is deleted in the middle of it, and another one comes.
            await host.delete(kinds.TENANTS, name)
            async with ControllerHost(host) as world:
                await world.caught_up()
                with contextlib.suppress(NotFound):
                    while True:
                        await host.get(kinds.TENANTS, name)
                        await world.reconciler.reconcile(name)
                        await world.caught_up()
            assert (await claim_of(host, name), await keys_of(host, name)) == (volume, keys)
            await ask(host, name, adopt=identity)
        async with ControllerHost(host) as world:
            tenant = await world.settle(name)
        assert tenant["status"]["planeIdentity"] == identity
        assert tenant["status"]["serviceSlice"] == before["status"]["serviceSlice"]
        assert (await claim_of(host, name), await keys_of(host, name)) == (volume, keys)
    assert min(deaths.values()) >= 6, f"too few deaths to have tried anything: {deaths}"
