"""Reconciles of tenants on a real API server: what is made, what is repaired, what happens when the controller dies on the way.

There is no kubelet, so no plane ever answers; a small stand-in for the host's namespace controller finishes namespaces.
"""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from bulkhead.api import names
from bulkhead.api.conditions import Reason
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Unprocessable
from bulkhead.kube.kubeconfig import KubeConfig
from controller.decide.dedicated import Finding
from controller.host.dedication import Dedication
from controller.host.owned import OWNED
from controller.refusal import Refusal
from controller.settings import Settings
from controller.tenant.reconcile import ReconcileFailed
from tests.kit.controllerhost import ControllerHost, ask, fingerprint, kinds_of, nameless, ready, take_down
from tests.kit.tenantsamples import tenant_class

pytestmark = pytest.mark.apiserver
ROOT = Path(__file__).resolve().parents[3]
LEFT_TO_OTHERS = {kinds.PODS, kinds.PERSISTENT_VOLUME_CLAIMS}


class Died(BaseException):
    """The controller was killed."""


class Mortal(Client):
    """A client under which the controller dies at its nth write, before or after the write took place."""

    def __init__(self, *args: Any, dies_at: int, committed: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.writes = 0
        self._dies_at = dies_at
        self._committed = committed

    async def _count(self, write: Any) -> Any:
        self.writes += 1
        if self.writes < self._dies_at:
            return await write
        if self.writes == self._dies_at and self._committed:
            await write
        else:
            write.close()
        raise Died

    async def apply(self, *args: Any, **kwargs: Any) -> Obj:
        return await self._count(super().apply(*args, **kwargs))  # type: ignore[no-any-return]

    async def create(self, *args: Any, **kwargs: Any) -> Obj:
        return await self._count(super().create(*args, **kwargs))  # type: ignore[no-any-return]

    async def delete(self, *args: Any, **kwargs: Any) -> Obj | None:
        return await self._count(super().delete(*args, **kwargs))  # type: ignore[no-any-return]

    async def patch(self, *args: Any, **kwargs: Any) -> Obj:
        return await self._count(super().patch(*args, **kwargs))  # type: ignore[no-any-return]


@pytest.mark.reconcile
async def test_a_tenant_is_built_repaired_and_taken_down_without_a_trace(client: Client) -> None:
    await ask(client, "whole")
    async with ControllerHost(client) as world:
        tenant = await world.settle("whole")
        assert names.TEARDOWN_FINALIZER in tenant["metadata"]["finalizers"]
        assert tenant["status"]["serviceSlice"].endswith("/22")
        before = await fingerprint(client, "whole")
        made = {entry[:3] for entry in before}
        assert ("StatefulSet", "bh-whole", "plane") in made
        assert ("ResourceQuota", "bh-whole-work", "tenant-quota") in made
        for kind, namespace, name, _ in before:
            resource = next(each for each in (*OWNED, kinds.SECRETS) if each.kind == kind)
            if resource in LEFT_TO_OTHERS or resource in {kinds.NAMESPACES, kinds.SERVICE_CIDRS}:
                continue
            await client.delete(resource, name, namespace or None, propagation="Background")
        await world.settle("whole")
        assert await kinds_of(client, "whole") == made
        await take_down(world, "whole")
        assert await kinds_of(client, "whole") == set()


async def test_a_change_by_hand_is_changed_back(client: Client) -> None:
    await ask(client, "drifted")
    async with ControllerHost(client) as world:
        await world.settle("drifted")
        await client.patch(kinds.NETWORK_POLICIES, "default-deny", {"spec": {"ingress": [{}]}}, "bh-drifted")
        await client.patch(
            kinds.NAMESPACES, "bh-drifted-work", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
        )
        await world.settle("drifted")
        work = await client.get(kinds.NAMESPACES, "bh-drifted-work")
        assert work["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "baseline"
        await take_down(world, "drifted")


async def test_a_tenant_at_rest_costs_no_write(client: Client) -> None:
    await ask(client, "resting")
    async with ControllerHost(client) as world:
        await world.settle("resting")
        before, tenant = await fingerprint(client, "resting"), await client.get(kinds.TENANTS, "resting")
        applied = world.applier.applied
        for _ in range(3):
            await world.reconciler.reconcile("resting")
        assert world.applier.applied == applied
        assert await fingerprint(client, "resting") == before
        after = await client.get(kinds.TENANTS, "resting")
        assert after["metadata"]["resourceVersion"] == tenant["metadata"]["resourceVersion"]
        await take_down(world, "resting")


async def test_a_namespace_of_another_owner_is_never_adopted_nor_deleted(client: Client) -> None:
    await client.create(kinds.NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bh-taken-work"}})
    await ask(client, "taken")
    async with ControllerHost(client) as world:
        tenant = await world.settle("taken")
        assert ready(tenant) == ("False", "NamespaceTaken")
        assert await kinds_of(client, "taken") == set()
        await client.delete(kinds.TENANTS, "taken")
        await world.caught_up()
        await world.reconciler.reconcile("taken")
        assert "deletionTimestamp" not in (await client.get(kinds.NAMESPACES, "bh-taken-work"))["metadata"]


REFUSALS: list[tuple[str, dict[str, Any], str]] = [
    ("unknown-class", {"class": "golden"}, "UnknownClass"),
    ("too-new", {"kubernetesVersion": "v1.99.0"}, "VersionUnavailable"),
    ("too-much", {"quota": {"resources": {"nvidia.com/gpu": {"nominal": 1000}}}}, "OutOfBounds"),
    ("odd-quota", {"quota": {"resources": {"amd.com/gpu": {"nominal": 1}}}}, "ImpossibleQuota"),
]


@pytest.mark.parametrize(("name", "spec", "reason"), REFUSALS)
async def test_a_tenant_that_cannot_be_built_gets_a_reason_and_nothing_else(
    client: Client, name: str, spec: dict[str, Any], reason: str
) -> None:
    await ask(client, name, **spec)
    async with ControllerHost(client) as world:
        tenant = await world.settle(name)
        assert ready(tenant) == ("False", reason)
        assert await kinds_of(client, name) == set()
        assert "finalizers" not in tenant["metadata"]


class Looked(Dedication):
    """What the nodes came to, without any."""

    found: Finding | None = None

    def finding(self, tenant: Obj, *, accepted: bool = False) -> Finding | None:
        del tenant
        return self.found


@pytest.mark.reconcile
async def test_a_pool_is_the_tenants_alone_or_the_status_says_whose_it_is(client: Client) -> None:
    dedication = Looked(client, Settings(), lambda _: None)
    spec = tenant_class(nodes={"maxDedicated": 2}) | {"metadata": {"name": "giving"}}
    await client.apply(kinds.TENANT_CLASSES, spec)
    await ask(client, "alone", **{"class": "giving"}, nodes={"dedicated": True, "selector": {"pool": "a"}})
    async with ControllerHost(client, dedication) as world:
        # The nodes have not been observed yet: nothing is created, and nothing is reported that might be wrong.
        assert "conditions" not in ((await world.settle("alone")).get("status") or {})
        dedication.found = Finding(Refusal(Reason.NODES_TAKEN, "the pool overlaps that of tenant red in n1"))
        assert ready(await world.settle("alone")) == ("False", "NodesTaken")
        assert not await fingerprint(client, "alone")
        dedication.found = Finding(nodes=("n1",), gpus=8, selector="pool=a")
        status = (await world.settle("alone"))["status"]
        assert status["dedicated"] == {"nodes": 1, "gpus": 8, "names": ["n1"], "waiting": 0}
        assert "NodesDedicated" in {each["type"] for each in status["conditions"]}
        settings = (await client.get(kinds.CONFIG_MAPS, "syncer", "bh-alone"))["data"]["settings.json"]
        assert '"bulkhead.dev/tenant": "alone"' in settings
        # Dedicated nodes that it can no longer get are reported, and it keeps the ones that it has.
        dedication.found = Finding(Refusal(Reason.NODES_TAKEN, "the pool overlaps that of tenant red in n2"))
        tenant = await world.settle("alone")
        assert ready(tenant) == ("False", "NodesTaken")
        assert tenant["status"]["dedicated"] == status["dedicated"]
        assert (await client.get(kinds.CONFIG_MAPS, "syncer", "bh-alone"))["data"]["settings.json"] == settings
        dedication.found = Finding(nodes=("n1",), gpus=8, selector="pool=a")
        await client.patch(kinds.TENANTS, "alone", {"spec": {"nodes": {"dedicated": None}}})
        status = (await world.settle("alone"))["status"]
        assert "dedicated" not in status
        assert "NodesDedicated" not in {each["type"] for each in status["conditions"]}
        await take_down(world, "alone")
    await client.delete(kinds.TENANT_CLASSES, "giving")


@pytest.mark.reconcile
async def test_a_size_that_the_class_no_longer_allows_is_reported_and_stays_as_it_runs(client: Client) -> None:
    wide = tenant_class(controlPlane={"storage": {"maxSize": "8Gi"}}) | {"metadata": {"name": "narrowing"}}
    await client.apply(kinds.TENANT_CLASSES, wide)
    await ask(client, "narrowed", **{"class": "narrowing"}, controlPlane={"storage": {"size": "4Gi"}})
    async with ControllerHost(client) as world:
        await world.settle("narrowed")
        before = await fingerprint(client, "narrowed")
        await client.patch(kinds.TENANT_CLASSES, "narrowing", {"spec": {"controlPlane": {"storage": {"maxSize": "3Gi"}}}})
        tenant = await world.settle("narrowed")
        assert ready(tenant) == ("False", "OutOfBounds")
        told = next(each["message"] for each in tenant["status"]["conditions"] if each["type"] == "Ready")
        assert all(word in told for word in ("spec.controlPlane.storage.size", "4Gi", "3Gi"))
        assert await fingerprint(client, "narrowed") == before
        await take_down(world, "narrowed")
    await client.delete(kinds.TENANT_CLASSES, "narrowing")


@pytest.mark.reconcile
async def test_two_tenants_at_once_get_slices_of_their_own(client: Client) -> None:
    for name in ("left", "right"):
        await ask(client, name)
    async with ControllerHost(client) as world:
        await asyncio.gather(*(world.reconciler.reconcile(name) for name in ("left", "right")))
        chosen = {(await client.get(kinds.SERVICE_CIDRS, f"bh-{name}"))["spec"]["cidrs"][0] for name in ("left", "right")}
        assert len(chosen) == 2
        for name in ("left", "right"):
            await take_down(world, name)


async def test_tenants_beyond_the_service_range_are_refused_and_cost_the_others_nothing(client: Client) -> None:
    """H6: however many Tenants an admin creates, only as many planes run as the range has slices."""
    async with ControllerHost(client, settings=Settings(service_range="10.200.0.0/22", slice_prefix=22)) as world:
        await ask(client, "served")
        await world.settle("served")
        before = await fingerprint(client, "served")
        await ask(client, "surplus")
        refused = await world.settle("surplus")
        assert ready(refused) == ("False", Reason.ADDRESSES_EXHAUSTED)
        assert "services.range" in str(refused["status"]["conditions"])
        assert not {kind for kind, *_ in await kinds_of(client, "surplus")} & {"StatefulSet", "Service", "ServiceCIDR"}
        assert await fingerprint(client, "served") == before
        # A tenant that ends makes room for the next one, once the host has forgotten the addresses.
        await take_down(world, "served")
        await client.apply(kinds.IP_ADDRESSES, left_behind("10.200.0.77", "bh-served"))
        assert ready(await world.settle("surplus")) == ("False", Reason.ADDRESSES_EXHAUSTED)
        await repair_addresses(client)
        assert ready(await world.settle("surplus"))[1] != Reason.ADDRESSES_EXHAUSTED
        await take_down(world, "surplus")


@pytest.mark.reconcile
async def test_a_slice_of_which_the_host_gave_an_address_away_is_changed_for_another(client: Client) -> None:
    labels = {"app.kubernetes.io/managed-by": "bulkhead", "bulkhead.dev/tenant": "clashing"}
    cidr = {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "bh-clashing", "labels": labels}}
    await client.create(kinds.SERVICE_CIDRS, cidr | {"spec": {"cidrs": ["10.120.0.0/22"]}})
    thief: Obj = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "thief", "namespace": "default"}}
    thief["spec"] = {"clusterIP": "10.120.0.10", "ports": [{"port": 80}]}
    async with asyncio.timeout(120):
        while True:
            try:
                await client.create(kinds.SERVICES, thief)
                break
            except Unprocessable:
                await asyncio.sleep(0.1)
    await ask(client, "clashing")
    async with ControllerHost(client) as world:
        await world.settle("clashing")
        given = (await client.get(kinds.SERVICE_CIDRS, "bh-clashing"))["spec"]["cidrs"]
        assert given != ["10.120.0.0/22"]
        assert (await client.get(kinds.SERVICES, "dns", "bh-clashing"))["spec"]["clusterIP"].endswith(".10")
        # The other Service keeps its address: the host would keep the slice for it, and the name that the next slice has.
        (left,) = (await client.list(kinds.SERVICE_CIDRS, label_selector="bulkhead.dev/left-by=clashing")).items
        assert left["spec"]["cidrs"] == ["10.120.0.0/22"]
        assert left["metadata"]["deletionTimestamp"]
        await take_down(world, "clashing")
    await client.delete(kinds.SERVICES, "thief", "default")
    await client.patch(kinds.SERVICE_CIDRS, left["metadata"]["name"], {"metadata": {"finalizers": None}})


@pytest.mark.reconcile
async def test_an_address_left_behind_by_a_tenant_of_the_same_name_is_not_given_again(client: Client) -> None:
    given = []
    async with ControllerHost(client) as world:
        for _ in range(2):
            await ask(client, "namesake")
            await world.settle("namesake")
            given += (await client.get(kinds.SERVICE_CIDRS, "bh-namesake"))["spec"]["cidrs"]
            await take_down(world, "namesake")
            with contextlib.suppress(AlreadyExists):
                await client.create(kinds.IP_ADDRESSES, left_behind(given[0].replace(".0/22", ".1"), "bh-namesake"))
    first, second = given
    assert first != second


def left_behind(address: str, namespace: str) -> Obj:
    """An address as the host keeps it when its Service and the range it came from were deleted together."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {
            "name": address,
            "labels": {
                "ipaddress.kubernetes.io/ip-family": "IPv4",
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": "plane"}},
    }


async def repair_addresses(client: Client) -> None:
    """What the host's API server does of itself, a minute after an address was given: delete those whose Service is gone."""
    services = {(obj["metadata"]["namespace"], obj["metadata"]["name"]) for obj in (await client.list(kinds.SERVICES)).items}
    for address in (await client.list(kinds.IP_ADDRESSES)).items:
        parent = address["spec"]["parentRef"]
        if (parent["namespace"], parent["name"]) not in services:
            await client.delete(kinds.IP_ADDRESSES, address["metadata"]["name"])


async def live_and_die(host: KubeConfig, name: str, dies_at: int, *, committed: bool, reconciles: int) -> bool:
    """One life of a controller; True when it died in it."""
    mortal = Mortal(host, user_agent="tests", field_manager="tests", dies_at=dies_at, committed=committed)
    async with mortal, ControllerHost(mortal) as world:
        for _ in range(reconciles):
            await world.caught_up()
            try:
                await world.reconciler.reconcile(name)
            except (Died, BaseExceptionGroup):
                return True
            except ReconcileFailed:
                continue
    return False


@pytest.mark.crashes
@pytest.mark.parametrize("committed", [False, True])
async def test_a_controller_that_dies_anywhere_while_building_leaves_nothing_that_stays(
    host_config: KubeConfig, client: Client, committed: bool
) -> None:
    async with ControllerHost(client) as world:
        await ask(client, "reference")
        await world.settle("reference")
        wanted = await nameless(client, "reference")
        await take_down(world, "reference")
        for dies_at in range(1, 50, 8):
            name = f"mortal-{dies_at}-{'after' if committed else 'before'}"
            await ask(client, name)
            assert await live_and_die(host_config, name, dies_at, committed=committed, reconciles=3) or dies_at > 40
            if dies_at % 4 == 1:
                await world.settle(name)
                assert await nameless(client, name) == wanted
            await take_down(world, name)
            assert await kinds_of(client, name) == set()


@pytest.mark.crashes
@pytest.mark.parametrize("dies_at", [1, 2, 4, 6])
async def test_a_controller_that_dies_while_taking_down_is_followed_by_one_that_ends_it(
    host_config: KubeConfig, client: Client, dies_at: int
) -> None:
    name = f"falling-{dies_at}"
    await ask(client, name)
    async with ControllerHost(client) as world:
        await world.settle(name)
        await client.delete(kinds.TENANTS, name)
        assert await live_and_die(host_config, name, dies_at, committed=True, reconciles=4)
        await take_down(world, name)
        assert await kinds_of(client, name) == set()
