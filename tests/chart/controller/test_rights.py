"""What the controller does with only the chart's roles: it builds, repairs and removes a tenant, and reads no other Secret."""

import copy
from typing import Any

import pytest

from bulkhead.api import labels, names
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, KubeError, NotFound, Unprocessable
from bulkhead.kube.informer import Informer
from bulkhead.metering.meter import HOUR, Tally, UsageKey
from bulkhead.signing import SignatureError
from bulkhead.work.clock import SystemClock
from controller.decide.identity import KEYS
from controller.host.accelerators import Accelerators
from controller.host.identitykeys import ROTATE, IdentityKeys
from controller.host.secretwatch import SecretWatch
from controller.host.snapshots import Snapshots
from controller.metering.store import UsageStore
from controller.plane.syncer import PLANE_ROLE
from controller.shares.content import Absent, Content
from controller.shares.sources import Sources
from controller.shares.spec import Item
from controller.shares.volumes.objects import host_claim, host_volume
from controller.snapshots.loop import SnapshotTasks
from controller.snapshots.places import Places
from controller.tenant.announcing import Announcer
from tests.chart import volume_samples
from tests.chart.controller.limited import Limited
from tests.chart.controller.requests import ALLOWED, MARKS
from tests.kit.applying import apply_all
from tests.kit.background import background
from tests.kit.controllerhost import ask, kinds_of, ready, take_down
from tests.kit.helmchart import rendered
from tests.kit.servers import ApiServer
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import tenant_class

pytestmark = pytest.mark.apiserver


async def test_a_tenant_is_built_repaired_and_taken_down_by_the_controllers_own_rights(admin: Client, limited: Client) -> None:
    await ask(admin, "own-rights")
    async with Limited(admin, limited) as world:
        tenant = await world.settle("own-rights")
        assert ready(tenant) == ("False", "Provisioning") or ready(tenant)[1] in {"WaitingForPlane", "Provisioning"}
        made = await kinds_of(admin, "own-rights")
        assert ("Secret", "bh-own-rights", "kubeconfig") not in made
        for name in ("pki-etcd", "pki-ca-users", "pki-ca-client"):
            await admin.delete(kinds.SECRETS, name, "bh-own-rights")
        # As in an installation from before the right was bound: it binds it first.
        await admin.delete(kinds.ROLE_BINDINGS, "controller-secrets", "bh-own-rights")
        await world.settle("own-rights")
        assert await kinds_of(admin, "own-rights") == made
        await take_down(world, "own-rights")
        assert await kinds_of(admin, "own-rights") == set()


async def test_it_draws_the_key_that_signs_into_the_charts_secret_and_finds_it_again(admin: Client, limited: Client) -> None:
    keys = IdentityKeys(limited, names.SYSTEM_NAMESPACE, SystemClock())
    drawn = (await keys.ring()).current
    rotate = {"metadata": {"annotations": {ROTATE: drawn}}}
    await admin.patch(kinds.SECRETS, KEYS, rotate, names.SYSTEM_NAMESPACE)
    ring = await keys.ring(fresh=True)
    assert drawn in ring.known - {ring.current}
    # helm applies its empty Secret again with each upgrade: the keys stay.
    await apply_all(admin, [obj for obj in rendered() if obj["kind"] == "Secret"])
    assert (await IdentityKeys(limited, names.SYSTEM_NAMESPACE, SystemClock()).ring()).current == ring.current
    kept = await admin.get(kinds.SECRETS, KEYS, names.SYSTEM_NAMESPACE)
    await admin.delete(kinds.SECRETS, KEYS, names.SYSTEM_NAMESPACE)
    try:
        # It may not make another one, and says what to do.
        with pytest.raises(SignatureError, match="helm upgrade"):
            await keys.ring(fresh=True)
    finally:
        await admin.create(kinds.SECRETS, {"metadata": {"name": KEYS}, "data": kept["data"]}, names.SYSTEM_NAMESPACE)
    assert (await keys.ring(fresh=True)).current == ring.current


async def test_it_reports_on_snapshots_that_others_asked_for(admin: Client, limited: Client) -> None:
    body = {
        "apiVersion": names.API_VERSION,
        "kind": "TenantSnapshot",
        "metadata": {"name": "rights"},
        "spec": {"tenant": "red"},
    }
    request = await admin.create(kinds.TENANT_SNAPSHOTS, body)
    enqueued: list[str] = []
    requests = Snapshots(limited, enqueued.append)
    async with background(requests.run()):

        async def heard() -> bool:
            return enqueued == ["red"]

        await until(heard, "the tenant to be enqueued")
        assert [found["metadata"]["name"] for found in requests.pending("red")] == ["rights"]
        await SnapshotTasks(limited, SystemClock(), Places()).fail(request, "of this test")
        told = await admin.get(kinds.TENANT_SNAPSHOTS, "rights")
        assert told["status"]["conditions"][0]["reason"] == "Failed"
    # Which of them it makes and deletes, a policy says (test_policies).
    await admin.delete(kinds.TENANT_SNAPSHOTS, "rights")


@pytest.mark.parametrize("place", ["kube-system", "somebodys", "bh-somebodys", "bh-team-a-work", "bulkhead-system", None])
async def test_it_reads_no_secret_of_the_host(place: str | None, admin: Client, limited: Client) -> None:
    with pytest.raises(Forbidden, match="cannot list resource"):
        await limited.list(kinds.SECRETS, place)
    if place:
        with pytest.raises(Forbidden, match="cannot get resource"):
            await limited.get(kinds.SECRETS, "x", place)
        with pytest.raises(Forbidden, match="cannot create resource"):
            await limited.create(kinds.SECRETS, {"metadata": {"name": "x"}}, place)


async def test_it_tells_of_tenants_where_events_about_them_lie_and_nowhere_else(admin: Client, limited: Client) -> None:
    tenant = {"metadata": {"name": "told", "uid": "uid-told"}}
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "it can be used"}
    for _ in range(2):
        await Announcer(limited, SystemClock()).announce(tenant, [], [ready])
    selector = "involvedObject.kind=Tenant,involvedObject.name=told"
    (event,) = (await admin.list(kinds.EVENTS, "default", field_selector=selector)).items
    assert event["count"] == 2
    for place in ("kube-system", "bh-team-a", "bh-team-a-work", "bulkhead-system"):
        with pytest.raises(Forbidden, match=r"cannot create resource \"events\""):
            await limited.create(kinds.EVENTS, {**event, "metadata": {"name": "x"}}, place)


async def test_a_syncer_reads_its_own_settings_and_no_other_object_of_the_planes(admin: Client, server: ApiServer) -> None:
    place = "bh-team-a"
    account = {"kind": "ServiceAccount", "name": "syncer", "namespace": place}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": PLANE_ROLE}
    await admin.apply(
        kinds.ROLE_BINDINGS, {"metadata": {"name": "syncer", "namespace": place}, "roleRef": role, "subjects": [account]}
    )
    for name in ("syncer", "plane-config"):
        await admin.apply(kinds.CONFIG_MAPS, {"metadata": {"name": name, "namespace": place}, "data": {"a": name}})
    async with Client(server.config_for(f"system:serviceaccount:{place}:syncer"), user_agent="t", field_manager="t") as syncer:
        own = Informer(syncer, kinds.CONFIG_MAPS, namespace=place, field_selector="metadata.name=syncer")
        async with background(own.run()):
            await until(_has_synced(own), "its settings read")
            assert [key.name for key in own.store.keys()] == ["syncer"]  # noqa: SIM118 -- a store, not a dict
            assert not await own._rolled_back()
        for selector in ("metadata.name=plane-config", None):
            with pytest.raises(Forbidden, match=r"cannot list resource \"configmaps\""):
                await syncer.list(kinds.CONFIG_MAPS, place, field_selector=selector)
        with pytest.raises(Forbidden, match=r"cannot patch resource \"configmaps\""):
            await syncer.patch(kinds.CONFIG_MAPS, "syncer", {"data": {"a": "b"}}, place)


def _has_synced(informer: Informer) -> Any:
    async def so() -> bool:
        return informer.has_synced

    return so


async def test_it_reads_what_is_shared_and_writes_nothing_there(admin: Client, limited: Client) -> None:
    there = {"name": "registry", "namespace": "bulkhead-shared"}
    for r in (kinds.SECRETS, kinds.CONFIG_MAPS):
        await admin.apply(r, {"metadata": there, "data": {"a": "Yg=="}})
    sources = Sources(limited, "bulkhead-shared", lambda _: None)

    async def reads() -> bool:
        found = await sources.of([Item("Secret", "registry"), Item("ConfigMap", "none")])
        return [type(each) for each in found.values()] == [Content, Absent]

    async with background(sources.run()):
        await until(reads, "what is shared")
    # Secrets by its rights, ConfigMaps by the policy.
    by_policy = "controller: writes only in namespaces"
    for r, refusal, words in ((kinds.SECRETS, Forbidden, "cannot .* resource"), (kinds.CONFIG_MAPS, Unprocessable, by_policy)):
        with pytest.raises(refusal, match=words):
            await limited.patch(r, "registry", {"data": {"a": "Yw=="}}, "bulkhead-shared")
        with pytest.raises(refusal, match=words):
            await limited.delete(r, "registry", "bulkhead-shared")


async def test_it_writes_the_status_of_a_cohort_and_nothing_else_of_it(admin: Client, limited: Client) -> None:
    await admin.apply(kinds.COHORTS, {"metadata": {"name": "rights"}, "spec": {"preemption": "Nominal"}})
    said = {"status": {"tenants": 3}, "spec": {"preemption": "FairShare"}}
    found = await limited.patch(kinds.COHORTS, "rights", said, subresource="status")
    assert (found["status"]["tenants"], found["spec"]["preemption"]) == (3, "Nominal")
    for attempt in (
        limited.patch(kinds.COHORTS, "rights", {"spec": {"preemption": "FairShare"}}),
        limited.delete(kinds.COHORTS, "rights"),
        limited.create(kinds.COHORTS, {"metadata": {"name": "own"}, "spec": {}}),
    ):
        with pytest.raises(Forbidden, match=r"cannot \w+ resource \"cohorts\""):
            await attempt


async def test_it_makes_shared_volumes_by_its_rights_and_no_others(admin: Client, limited: Client) -> None:
    given = volume_samples.grant()
    await limited.create(kinds.PERSISTENT_VOLUMES, host_volume(given))
    await limited.create(kinds.PERSISTENT_VOLUME_CLAIMS, host_claim(given))
    await admin.apply(kinds.PERSISTENT_VOLUMES, volume_samples.volume(name="of-the-host", marks={}))
    with pytest.raises(Forbidden, match="cannot patch resource"):
        await limited.patch(kinds.PERSISTENT_VOLUMES, given.volume, {"spec": {"mountOptions": []}})
    with pytest.raises(Unprocessable, match="marked as a tenant's"):
        await limited.delete(kinds.PERSISTENT_VOLUMES, "of-the-host")
    await limited.delete(kinds.PERSISTENT_VOLUME_CLAIMS, given.claim, "bh-team-a-work")
    await limited.delete(kinds.PERSISTENT_VOLUMES, given.volume)


async def test_its_standing_informers_need_no_more_than_its_rights(admin: Client, limited: Client) -> None:
    async with background(Accelerators(limited).run()) as accelerators, Limited(admin, limited) as world:
        assert all(informer.last_error is None for informer in world.owned._informers.values() if informer.served)
        assert {resource.kind for resource, each in world.owned._informers.items() if not each.served} == {"TLSRoute"}
        assert kinds.SECRETS not in world.owned._informers
        # It reads the Gateways that routes name, and writes none; this host serves none.
        with pytest.raises(NotFound):
            await limited.get(kinds.GATEWAYS, "public", "infra")
        with pytest.raises(Forbidden, match="cannot delete resource"):
            await limited.delete(kinds.GATEWAYS, "public", "infra")
        assert not accelerators.done()


async def test_a_changed_secret_is_noticed_without_a_watch(admin: Client, limited: Client) -> None:
    await admin.apply(kinds.ROLE_BINDINGS, copy.deepcopy(ALLOWED["Secrets of the plane"]))
    meta = {"name": "pki-x", "namespace": "bh-team-a", "labels": MARKS}
    await admin.apply(kinds.SECRETS, {"metadata": meta, "stringData": {"a": "b"}})
    said: list[str] = []
    watch = SecretWatch(limited, lambda: ["team-a", "team-b", "gone"], said.append, SystemClock(), period=0.1)

    async def readable() -> bool:
        try:
            await limited.list(kinds.SECRETS, "bh-team-a")
        except KubeError:
            return False
        return True

    await until(readable, "the right to be known")
    for name in ("team-a", "team-b", "gone", "team-a"):
        await watch.look(name)
    assert said == []
    await admin.patch(kinds.SECRETS, "pki-x", {"stringData": {"a": "c"}}, "bh-team-a")

    async def once() -> bool:
        return said == ["team-a"]

    async def twice() -> bool:
        return said == ["team-a", "team-a"]

    async with background(watch.run()):
        await until(once, "the change noticed")
        await admin.delete(kinds.SECRETS, "pki-x", "bh-team-a")
        await until(twice, "the deletion noticed")


async def test_it_stores_what_it_metered(admin: Client, limited: Client) -> None:
    store = UsageStore(limited, "bulkhead-system", "w")
    page = await store.open(5 * HOUR)
    page.add(Tally(5, UsageKey("team-a", "ml", "Job/a", "nvidia.com/gpu", ""), 1, 0, 0))
    await store.save(page)
    page.until = 6 * HOUR
    following = await store.close(page, await store.save(page))
    assert (following.number, following.until) == (page.number + 1, 6 * HOUR)
    await store.tidy(500 * 24 * HOUR)
    left = (await admin.list(kinds.CONFIG_MAPS, "bulkhead-system", label_selector=labels.USAGE)).items
    assert [each["metadata"]["name"] for each in left] == ["bulkhead-usage-open"]


async def test_it_grows_volumes_of_planes_and_no_others(admin: Client, limited: Client) -> None:
    await ask(admin, "own-volumes")
    async with Limited(admin, limited) as world:
        await world.settle("own-volumes")
        for namespace in ("bh-own-volumes", "bh-own-volumes-work", "kube-system"):
            spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            meta = {"name": "x", "namespace": namespace}
            await admin.create(kinds.PERSISTENT_VOLUME_CLAIMS, {"metadata": meta, "spec": spec})
        touch = {"metadata": {"annotations": {"touched": "yes"}}}
        await limited.patch(kinds.PERSISTENT_VOLUME_CLAIMS, "x", touch, "bh-own-volumes")
        for namespace in ("bh-own-volumes-work", "kube-system"):
            with pytest.raises(Forbidden, match="cannot patch resource"):
                await limited.patch(kinds.PERSISTENT_VOLUME_CLAIMS, "x", touch, namespace)
        await take_down(world, "own-volumes")
    await admin.delete(kinds.PERSISTENT_VOLUME_CLAIMS, "x", "kube-system")


async def test_it_notes_who_uses_a_class_and_changes_nothing_else_of_it(admin: Client, limited: Client) -> None:
    await admin.apply(kinds.TENANT_CLASSES, tenant_class() | {"metadata": {"name": "noted"}})
    await limited.patch(kinds.TENANT_CLASSES, "noted", {"status": {"tenants": 7}}, subresource="status")
    with pytest.raises(Forbidden):
        await limited.patch(kinds.TENANT_CLASSES, "noted", {"spec": {"description": "mine"}})
    await admin.delete(kinds.TENANT_CLASSES, "noted")
