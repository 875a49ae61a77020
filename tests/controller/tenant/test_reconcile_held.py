"""Reconciles of tenants that run and are refused now, on a real API server: what reaches them and what stays."""

import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from bulkhead.api import labels
from bulkhead.api.conditions import Reason
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.work.clock import SystemClock
from controller.decide import accepted, held
from controller.decide.dedicated import Finding
from controller.host.dedication import Dedication
from controller.host.owned import SELECTOR
from controller.plane import pki
from controller.plane.spec import PlaneSpec
from controller.refusal import Refusal
from controller.settings import Settings
from controller.slurm.decide.status import Found
from controller.slurm.ordering import Ordered, Ordering
from controller.slurm.spec import SlurmSpec
from tests.kit.controllerhost import ControllerHost, ask, fingerprint, ready, take_down
from tests.kit.crds import install
from tests.kit.tenantsamples import tenant_class

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]


@pytest.fixture
async def client(host_client: Client) -> Client:
    await install(host_client)
    return host_client


TIGHT: Obj = {
    "quota": {"resources": {"nvidia.com/gpu": {"maxNominal": 64}}},
    "isolation": {"podSecurity": "restricted", "userNamespaces": True},
}


async def beyond_its_class(client: Client, name: str, **spec: Any) -> Callable[[], Awaitable[Obj]]:
    """A tenant with 65 GPUs, and the hand that makes its class allow 64 and less of all else."""
    wide = tenant_class(quota={"resources": {"nvidia.com/gpu": {"maxNominal": 65}}}) | {"metadata": {"name": name}}
    await client.apply(kinds.TENANT_CLASSES, wide)
    loose = {"podSecurity": "baseline", "userNamespaces": False}
    quota = {"resources": {"nvidia.com/gpu": {"nominal": 65}}}
    await ask(client, name, **{"class": name, "quota": quota, "isolation": loose} | spec)
    return lambda: client.patch(kinds.TENANT_CLASSES, name, {"spec": TIGHT})


class LaterClock(SystemClock):
    """The time that it will be."""

    later = timedelta()

    def now(self) -> datetime:
        return super().now() + self.later


async def work_of(client: Client, name: str) -> tuple[str | None, str | None]:
    """What the host's own admission holds the tenant's pods to."""
    meta = (await client.get(kinds.NAMESPACES, f"bh-{name}-work"))["metadata"]
    annotations = meta.get("annotations") or {}
    return meta["labels"]["pod-security.kubernetes.io/enforce"], annotations.get("bulkhead.dev/user-namespaces")


async def test_a_tenant_that_runs_is_held_to_its_class_when_that_is_tightened(client: Client) -> None:
    tighten = await beyond_its_class(client, "held")
    async with ControllerHost(client) as world:
        await world.settle("held")
        assert await work_of(client, "held") == ("baseline", "")
        plane = await client.get(kinds.STATEFUL_SETS, "plane", "bh-held")
        await tighten()
        tenant = await world.settle("held")
        assert ready(tenant) == ("False", "OutOfBounds")
        told = next(each["message"] for each in tenant["status"]["conditions"] if each["type"] == "Ready")
        assert all(word in told for word in ("podSecurity: baseline", "restricted", "userNamespaces: false", held.NOTE))
        assert await work_of(client, "held") == ("restricted", "true")
        settings = json.loads((await client.get(kinds.CONFIG_MAPS, "syncer", "bh-held"))["data"]["settings.json"])
        assert (settings["podSecurity"], settings["userNamespaces"]) == ("restricted", True)
        assert settings["limits"] == {"nvidia.com/gpu": 65}
        quota = await client.get(kinds.RESOURCE_QUOTAS, "tenant-quota", "bh-held-work")
        assert quota["spec"]["hard"]["requests.nvidia.com/gpu"] == "65"
        after = await client.get(kinds.STATEFUL_SETS, "plane", "bh-held")
        assert after["metadata"]["resourceVersion"] == plane["metadata"]["resourceVersion"]
        # Repaired as any other, and at rest as any other.
        await client.delete(kinds.NETWORK_POLICIES, "default-deny", "bh-held")
        await world.settle("held")
        await client.get(kinds.NETWORK_POLICIES, "default-deny", "bh-held")
        agreed = {"quota": {"resources": {"nvidia.com/gpu": {"nominal": 64}}}, "isolation": None}
        await client.patch(kinds.TENANTS, "held", {"spec": agreed})
        assert ready(await world.settle("held"))[1] != "OutOfBounds"
        quota = await client.get(kinds.RESOURCE_QUOTAS, "tenant-quota", "bh-held-work")
        assert quota["spec"]["hard"]["requests.nvidia.com/gpu"] == "64"
        await take_down(world, "held")
    await client.delete(kinds.TENANT_CLASSES, "held")


async def test_of_an_edit_that_is_refused_nothing_is_applied(client: Client) -> None:
    await beyond_its_class(client, "edited")
    async with ControllerHost(client) as world:
        await world.settle("edited")
        before = await fingerprint(client, "edited")
        isolation = {"podSecurity": "restricted", "userNamespaces": True}
        quota = {"cohort": "demoo", "weight": 7, "resources": {"nvidia.com/gpu": {"nominal": 6}}, "objects": {"pods": 7}}
        edit = {"quota": quota, "isolation": isolation, "exposure": {"type": "LoadBalancer"}}
        await client.patch(kinds.TENANTS, "edited", {"spec": edit})
        tenant = await world.settle("edited")
        assert ready(tenant) == ("False", "OutOfBounds")
        told = next(each["message"] for each in tenant["status"]["conditions"] if each["type"] == "Ready")
        assert "spec.quota.cohort: demoo" in told
        assert told.endswith(f"{accepted.NOTE}, of generation 1")
        assert await fingerprint(client, "edited") == before
        # It is reconciled as any other meanwhile, and by another controller too.
        await client.delete(kinds.NETWORK_POLICIES, "default-deny", "bh-edited")
        async with ControllerHost(client) as other:
            await other.settle("edited")
        await client.get(kinds.NETWORK_POLICIES, "default-deny", "bh-edited")
        assert (await gpus(client, "edited"), (await work_of(client, "edited"))[0]) == ("65", "baseline")
        await client.patch(kinds.TENANTS, "edited", {"spec": {"quota": {"cohort": None, "weight": None}, "exposure": None}})
        assert ready(await world.settle("edited"))[1] != "OutOfBounds"
        assert (await gpus(client, "edited"), (await work_of(client, "edited"))[0]) == ("6", "restricted")
        # That is what counts from now on.
        await client.patch(kinds.TENANTS, "edited", {"spec": {"quota": {"cohort": "demoo"}, "isolation": None}})
        assert ready(await world.settle("edited")) == ("False", "OutOfBounds")
        assert (await gpus(client, "edited"), (await work_of(client, "edited"))[0]) == ("6", "restricted")
        await take_down(world, "edited")
    await client.delete(kinds.TENANT_CLASSES, "edited")


async def test_what_is_accepted_is_noted_before_anything_of_it_is_built(client: Client) -> None:
    await beyond_its_class(client, "noted")
    async with ControllerHost(client) as world:
        await world.settle("noted")
        await client.patch(kinds.TENANTS, "noted", {"spec": {"quota": {"resources": {"nvidia.com/gpu": {"nominal": 6}}}}})
        applied = world.applier.stage
        seen: list[str] = []

        async def dies(objects: Any, observed: Any) -> int:
            listed = list(objects)
            if any(obj["kind"] == "Namespace" for obj in listed):
                note = await client.get(kinds.CONFIG_MAPS, "accepted", "bh-noted")
                seen.append(json.loads(note["data"]["spec.json"])["quota"]["resources"]["nvidia.com/gpu"]["nominal"])
                raise RuntimeError("the controller dies here")
            return await applied(listed, observed)

        world.applier.stage = dies  # type: ignore[method-assign]
        await world.caught_up()
        with pytest.raises(RuntimeError, match="dies here"):
            await world.reconciler.reconcile("noted")
        assert seen == [6]
    await client.patch(kinds.TENANTS, "noted", {"spec": {"quota": {"cohort": "demoo"}}})
    async with ControllerHost(client) as world:
        assert ready(await world.settle("noted")) == ("False", "OutOfBounds")
        assert await gpus(client, "noted") == "6"
        await take_down(world, "noted")
    await client.delete(kinds.TENANT_CLASSES, "noted")


async def gpus(client: Client, name: str) -> str:
    """What the host lets the tenant use."""
    quota = await client.get(kinds.RESOURCE_QUOTAS, "tenant-quota", f"bh-{name}-work")
    return str(quota["spec"]["hard"]["requests.nvidia.com/gpu"])


async def test_what_an_upgrade_brings_reaches_a_tenant_that_its_new_bounds_refuse(client: Client) -> None:
    tighten = await beyond_its_class(client, "upgraded")
    async with ControllerHost(client) as world:
        await world.settle("upgraded")
    # As an older controller left it: without facts for the host's policies and the newer ConfigMaps, under an older image.
    found = await client.get(kinds.NAMESPACES, "bh-upgraded-work")
    facts = dict.fromkeys(key for key in found["metadata"]["annotations"] if key != labels.TENANT_UID)
    await client.patch(kinds.NAMESPACES, "bh-upgraded-work", {"metadata": {"annotations": facts}})
    newer = (await client.list(kinds.CONFIG_MAPS, "bh-upgraded-work", label_selector=SELECTOR)).items
    for each in newer:
        await client.delete(kinds.CONFIG_MAPS, each["metadata"]["name"], "bh-upgraded-work")
    older = [{"name": "syncer", "image": "example.org/bulkhead:older"}]
    await client.patch(kinds.DEPLOYMENTS, "syncer", {"spec": {"template": {"spec": {"containers": older}}}}, "bh-upgraded")
    await tighten()
    async with ControllerHost(client) as world:
        await world.settle("upgraded")
        notes = (await client.get(kinds.NAMESPACES, "bh-upgraded-work"))["metadata"]["annotations"]
        assert facts.keys() <= notes.keys()
        for each in newer:
            await client.get(kinds.CONFIG_MAPS, each["metadata"]["name"], "bh-upgraded-work")
        syncer = await client.get(kinds.DEPLOYMENTS, "syncer", "bh-upgraded")
        assert syncer["spec"]["template"]["spec"]["containers"][0]["image"] == Settings().image_bulkhead
        await take_down(world, "upgraded")
    await client.delete(kinds.TENANT_CLASSES, "upgraded")


async def test_certificates_of_a_tenant_that_is_held_are_renewed(client: Client) -> None:
    tighten = await beyond_its_class(client, "expiring")
    clock = LaterClock()
    async with ControllerHost(client, clock=clock) as world:
        await world.settle("expiring")
        await tighten()

        async def pair(secret: str, name: str) -> str:
            return str((await client.get(kinds.SECRETS, secret, "bh-expiring"))["data"][name])

        async def plane() -> tuple[str, Obj]:
            found = (await client.get(kinds.STATEFUL_SETS, "plane", "bh-expiring"))["spec"]
            return found["template"]["metadata"]["annotations"].pop("bulkhead.dev/trust"), found

        await world.settle("expiring")
        leaf, authority, before = await pair("pki-etcd", "server.crt"), await pair("pki-ca-etcd", "tls.crt"), await plane()
        clock.later = pki.LEAF_LIFE
        await world.settle("expiring")
        assert await pair("pki-etcd", "server.crt") != leaf
        assert (await pair("pki-ca-etcd", "tls.crt"), await plane()) == (authority, before)
        clock.later = pki.AUTHORITY_LIFE
        tenant = await world.settle("expiring")
        assert await pair("pki-ca-etcd", "tls.crt") != authority
        trust, spec = await plane()
        assert trust != before[0]
        assert spec == before[1]
        assert ready(tenant) == ("False", "OutOfBounds")
        await take_down(world, "expiring")
    await client.delete(kinds.TENANT_CLASSES, "expiring")


class Orders(Ordering):
    """What is ordered of a cluster that runs."""

    def __init__(self) -> None:
        self.given: list[SlurmSpec | None] = []
        self.held: list[SlurmSpec] = []

    async def hold(self, plane: PlaneSpec, tenant: Obj, secrets_there: Mapping[str, Obj], logins: SlurmSpec) -> None:
        self.held.append(logins)

    def runs(self, tenant: str) -> bool:
        return True

    async def order(
        self, plane: PlaneSpec, tenant: Obj, secrets_there: Mapping[str, Obj], spec: SlurmSpec | None
    ) -> Ordered | None:
        self.given.append(spec)
        return Ordered(wanted=True, found=Found(), spec=spec) if spec is not None else None

    async def forget(self, tenant: str) -> None:
        pass


async def test_the_slurm_cluster_of_a_tenant_that_is_held_is_not_switched_off(client: Client) -> None:
    tighten = await beyond_its_class(client, "computing", scheduling={"mode": "Slurm"})
    orders = Orders()
    async with ControllerHost(client, slurm=orders) as world:
        before = (await world.settle("computing"))["status"]
        given = len(orders.given)
        await client.patch(kinds.TENANT_CLASSES, "computing", {"spec": {"scheduling": {"modes": ["Kubernetes"]}}})
        tenant = await world.settle("computing")
        assert ready(tenant) == ("False", "OutOfBounds")
        assert len(orders.given) == given
        # A revocation reaches the login nodes of a cluster that is refused.
        await client.patch(kinds.TENANTS, "computing", {"spec": {"access": {"revoked": [{"name": "corp:eve"}]}}})
        await world.settle("computing")
        login = orders.held[-1].login
        assert login is not None
        assert login.revoked == {"corp:eve"}
        kept = [[each for each in found["conditions"] if each["type"] == "SlurmReady"] for found in (before, tenant["status"])]
        assert kept[0]
        assert kept[0] == kept[1]
        # A tenant that is held for another reason is reconciled as ever.
        await client.patch(kinds.TENANT_CLASSES, "computing", {"spec": {"scheduling": None}})
        await tighten()
        assert ready(await world.settle("computing")) == ("False", "OutOfBounds")
        assert len(orders.given) > given
        assert None not in orders.given
        await take_down(world, "computing")
    await client.delete(kinds.TENANT_CLASSES, "computing")


class Looker(Dedication):
    """Reports of nodes what the test sets; until then, that they have not been observed."""

    found: Finding | None = None

    def finding(self, tenant: Obj, *, accepted: bool = False) -> Finding | None:
        return self.found


async def selects(client: Client, name: str) -> dict[str, str]:
    """The nodes that pods of a tenant are made for."""
    settings = json.loads((await client.get(kinds.CONFIG_MAPS, "syncer", f"bh-{name}"))["data"]["settings.json"])
    found: dict[str, str] = settings["enforcedNodeSelector"]
    return found


async def test_nodes_that_were_not_observed_stay_as_they_are(client: Client) -> None:
    await beyond_its_class(client, "awaiting", nodes={"selector": {"pool": "a"}})
    await client.patch(kinds.TENANT_CLASSES, "awaiting", {"spec": {"nodes": {"maxDedicated": 2}}})
    looker = Looker(client, Settings(), lambda _: None)
    async with ControllerHost(client, dedication=looker) as world:
        await world.settle("awaiting")
        await client.patch(kinds.TENANTS, "awaiting", {"spec": {"nodes": {"dedicated": True}}})
        taken = Finding(refusing=Refusal(Reason.NODES_TAKEN, "somebody else's"))
        for looker.found in (None, taken, None):
            await world.settle("awaiting")
            assert await selects(client, "awaiting") == {"pool": "a"}
        looker.found = Finding(nodes=("one",))
        await world.settle("awaiting")
        own = {"pool": "a", labels.TENANT: "awaiting"}
        assert await selects(client, "awaiting") == own
        tight = {"isolation": {"userNamespaces": True}}
        await client.patch(kinds.TENANT_CLASSES, "awaiting", {"spec": tight})
        for looker.found in (None, taken, Finding(nodes=("one",)), None):
            assert ready(await world.settle("awaiting")) == ("False", "OutOfBounds")
            assert await selects(client, "awaiting") == own
        await take_down(world, "awaiting")
    await client.delete(kinds.TENANT_CLASSES, "awaiting")


async def test_a_tenant_whose_pool_is_refused_gets_no_nodes_of_its_own_by_its_class(client: Client) -> None:
    await beyond_its_class(client, "elsewhere", nodes={"selector": {"pool": "b"}})
    looker = Looker(client, Settings(), lambda _: None)
    async with ControllerHost(client, dedication=looker) as world:
        await world.settle("elsewhere")
        nodes = {"dedicated": True, "maxDedicated": 2, "selector": {"pool": "a"}}
        await client.patch(kinds.TENANT_CLASSES, "elsewhere", {"spec": {"nodes": nodes}})
        assert ready(await world.settle("elsewhere")) == ("False", "OutOfBounds")
        assert await selects(client, "elsewhere") == {"pool": "a"}
        await take_down(world, "elsewhere")
    await client.delete(kinds.TENANT_CLASSES, "elsewhere")


async def test_nothing_of_a_paused_tenant_is_held(client: Client) -> None:
    tighten = await beyond_its_class(client, "paused")
    async with ControllerHost(client) as world:
        await world.settle("paused")
        await client.patch(kinds.TENANTS, "paused", {"spec": {"pausedUntil": "2999-01-01T00:00:00Z"}})
        before = await fingerprint(client, "paused")
        await tighten()
        assert ready(await world.settle("paused")) == ("False", "Paused")
        assert await fingerprint(client, "paused") == before
        await take_down(world, "paused")
    await client.delete(kinds.TENANT_CLASSES, "paused")
