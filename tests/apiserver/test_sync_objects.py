"""What pods need beside themselves, from references to the quota, between two real API servers."""

import asyncio
import base64
import contextlib
import json
import secrets

import pytest

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube.errors import Forbidden, Unprocessable
from bulkhead.kube.objects import Key, Resource
from bulkhead.kube.resources import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICES,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from syncer.work import Item
from tests.kit.syncerbed import SyncerBed, until


def uses(bed: SyncerBed, name: str, config_map: str) -> Obj:
    source = [{"configMapRef": {"name": config_map}}]
    return bed.pod(name, containers=[{"name": "main", "image": "busybox:1.36", "envFrom": source}])


async def test_item_33_34_only_what_pods_refer_to_leaves_the_plane(bed: SyncerBed) -> None:
    for name in ("wanted", "unwanted"):
        await bed.plane.create(CONFIG_MAPS, {"metadata": {"name": name}, "data": {"a": "1"}}, bed.space)
    await bed.create(uses(bed, "one", "wanted"))
    await bed.create(uses(bed, "two", "wanted"))
    await bed.mirrored("one")
    await bed.mirrored("two")
    assert (await bed.copy(CONFIG_MAPS, "wanted") or {})["data"] == {"a": "1"}
    assert await bed.copy(CONFIG_MAPS, "unwanted") is None

    await bed.plane.patch(CONFIG_MAPS, "wanted", {"data": {"a": "2"}}, bed.space)

    async def updated() -> bool:
        return (await bed.copy(CONFIG_MAPS, "wanted") or {})["data"] == {"a": "2"}

    await until(updated, "update on the host")
    await bed.plane.delete(PODS, "one", bed.space, grace_seconds=0)

    async def first_gone() -> bool:
        return await bed.mirror("one") is None

    await until(first_gone, "first pod gone")
    assert await bed.copy(CONFIG_MAPS, "wanted") is not None
    await bed.plane.delete(PODS, "two", bed.space, grace_seconds=0)

    await bed.uncopied(CONFIG_MAPS, "wanted")


async def test_item_33_34_a_secret_that_comes_after_its_pod_is_mirrored(bed: SyncerBed) -> None:
    volume = {"name": "s", "secret": {"secretName": "late"}}
    await bed.create(bed.pod("waits", volumes=[volume]))
    await bed.mirrored("waits")
    data = base64.b64encode(b"x").decode()
    await bed.plane.create(SECRETS, {"metadata": {"name": "late"}, "data": {"k": data}}, bed.space)

    async def there() -> bool:
        return (await bed.copy(SECRETS, "late") or {}).get("data") == {"k": data}

    await until(there, "late secret")


async def test_what_a_finalizer_holds_is_there_for_the_pods_that_refer_to_it(bed: SyncerBed) -> None:
    held = {"metadata": {"name": "held", "finalizers": ["example.org/hold"]}, "data": {"a": "1"}}
    await bed.plane.create(CONFIG_MAPS, held, bed.space)
    try:
        await bed.plane.delete(CONFIG_MAPS, "held", bed.space)
        await bed.create(uses(bed, "one", "held"))
        await bed.mirrored("one")
        assert (await bed.copy(CONFIG_MAPS, "held") or {}).get("data") == {"a": "1"}
        await bed.plane.patch(CONFIG_MAPS, "held", {"data": {"a": "2"}}, bed.space)

        async def updated() -> bool:
            return (await bed.copy(CONFIG_MAPS, "held") or {})["data"] == {"a": "2"}

        await until(updated, "update on the host")
    finally:
        await bed.plane.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, bed.space)
    await bed.uncopied(CONFIG_MAPS, "held")


async def test_item_79_a_service_keeps_its_address(bed: SyncerBed) -> None:
    body = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
    virtual = await bed.plane.create(SERVICES, body, bed.space)

    host = await bed.copied(SERVICES, "web")
    assert host["spec"]["clusterIP"] == virtual["spec"]["clusterIP"]
    assert host["spec"]["selector"]["app"] == "web"
    assert host["spec"]["selector"][marks.TENANT] == bed.tenant
    await bed.plane.delete(SERVICES, "web", bed.space)

    await bed.uncopied(SERVICES, "web")


async def test_item_79_an_address_that_the_host_gave_away_is_reported_and_tried_again(bed: SyncerBed) -> None:
    ports = {"ports": [{"port": 80}]}

    async def reserved() -> str | None:
        address = f"10.112.2.{secrets.randbelow(250) + 1}"
        taken = {"metadata": {"name": f"other-{bed.tenant}"}, "spec": {"clusterIP": address} | ports}
        with contextlib.suppress(Unprocessable):  # when the field is already set
            await bed.host.create(SERVICES, taken, bed.work)
            return address
        return None

    address = await until(reserved, "an address taken on the host")
    await bed.plane.create(SERVICES, {"metadata": {"name": "web"}, "spec": {"clusterIP": address} | ports}, bed.space)

    await bed.event("web", address)
    assert await bed.copy(SERVICES, "web") is None


async def test_item_81_the_platforms_services_are_not_mirrored(bed: SyncerBed) -> None:
    labels = {marks.PLATFORM: "true"}
    await bed.plane.create(
        SERVICES, {"metadata": {"name": "dns", "labels": labels}, "spec": {"ports": [{"port": 53}]}}, bed.space
    )
    await bed.plane.create(SERVICES, {"metadata": {"name": "own"}, "spec": {"ports": [{"port": 53}]}}, bed.space)

    await bed.copied(SERVICES, "own")
    names = [each["metadata"]["annotations"][marks.VIRTUAL_NAME] for each in (await bed.host.list(SERVICES, bed.work)).items]
    assert "dns" not in names
    assert "kubernetes" not in names


async def test_item_49_58_nodes_show_no_more_gpus_than_the_tenant_may_use(bed: SyncerBed) -> None:
    async def shown() -> str | None:
        node = await bed.virtual_node() or {}
        return (node.get("status", {}).get("allocatable") or {}).get("nvidia.com/gpu")

    assert await until(shown, "virtual node") == "4"
    await bed.plane.patch(NODES, bed.node, {"status": {"allocatable": {"nvidia.com/gpu": "64"}}}, subresource="status")

    async def repaired() -> bool:
        return await shown() == "4"

    await until(repaired, "node repaired")
    await bed.host.patch(NODES, bed.node, {"spec": {"unschedulable": True}})

    async def cordoned() -> bool:
        return bool((await bed.plane.get(NODES, bed.node))["spec"].get("unschedulable"))

    await until(cordoned, "cordon follows")


async def test_item_61_62_a_node_that_leaves_the_pool_goes_and_a_foreign_one_stays(bed: SyncerBed) -> None:
    foreign = f"foreign-{bed.tenant}"
    await bed.plane.create(NODES, {"metadata": {"name": foreign}})

    async def there() -> bool:
        return bed.node in [each["metadata"]["name"] for each in (await bed.plane.list(NODES)).items]

    await until(there, "virtual node")
    await bed.host.patch(NODES, bed.node, {"metadata": {"labels": {"pool": None}}})

    async def gone() -> bool:
        return not await there()

    await until(gone, "virtual node gone")
    assert (await bed.plane.get(NODES, foreign))["metadata"]["name"] == foreign


@pytest.mark.parametrize("busy", [False, True])
async def test_item_48_83_host_events_are_reported_in_the_tenants_words(bed: SyncerBed, busy: bool) -> None:
    assert bed.session is not None
    # Where pods wait all the time, events give way to them, but not for ever.
    bed.session.recorder.busy = lambda: busy
    await bed.create(bed.pod("web"))
    host = await bed.mirrored("web")
    meta = host["metadata"]
    event = {
        "metadata": {"name": f"{meta['name']}.1"},
        "involvedObject": {"kind": "Pod", "namespace": bed.work, "name": meta["name"], "uid": meta["uid"]},
        "reason": "FailedScheduling",
        "message": f"no node for {bed.work}/{meta['name']}",
        "type": "Warning",
        "source": {"component": "default-scheduler"},
        "count": 1,
    }
    await bed.host.create(EVENTS, event, bed.work)

    found = await bed.event("web", reason="FailedScheduling")
    assert bed.work not in json.dumps(found)
    assert meta["name"] not in json.dumps(found)


async def test_item_47_ten_at_once_never_pass_the_quota_and_the_rest_say_why(bed: SyncerBed) -> None:
    await bed.quota(hard=4)
    await bed.caught_up()
    await asyncio.gather(*(bed.create(bed.gpu_pod(f"gpu-{number}")) for number in range(10)))

    async def all_refused() -> bool:
        reasons = [((await bed.condition(f"gpu-{number}")) or {}).get("reason") for number in range(10)]
        return reasons.count("QuotaExceeded") == 6

    await until(all_refused, "six refused")
    # The others are refused as soon as four are counted, which is before the last of the four is there.
    await bed.idle()
    assert len(await bed.host_pods()) == 4
    refused = [name for name in (f"gpu-{number}" for number in range(10)) if await bed.condition(name)]
    condition = await bed.condition(refused[0])
    assert condition is not None
    assert all(text in condition["message"] for text in ("tenant-quota", "asked for 1 nvidia.com/gpu", "4 of 4"))

    running = next(name for name in (f"gpu-{number}" for number in range(10)) if name not in refused)
    await bed.set_used(3, 4)
    await bed.plane.delete(PODS, running, bed.space, grace_seconds=0)

    async def next_one() -> bool:
        there = [each for each in await bed.host_pods() if "deletionTimestamp" not in each["metadata"]]
        return len(there) == 4 and await bed.mirror(running) is None

    await until(next_one, "a waiting pod takes the room")


async def test_item_47_a_quota_that_is_not_counted_yet_is_waited_for(bed: SyncerBed) -> None:
    counted = {"pods": "5"}
    await bed.host.create(RESOURCE_QUOTAS, {"metadata": {"name": "tenant-quota"}, "spec": {"hard": counted}}, bed.work)
    status: Obj = {"status": {"hard": counted}}
    await bed.host.patch(RESOURCE_QUOTAS, "tenant-quota", status, bed.work, subresource="status")
    probe = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "main", "image": "a"}]}}

    async def uncounted() -> bool:
        try:
            await bed.host.create(PODS, probe, bed.work)
        except Forbidden as error:
            return "status unknown for quota" in error.message
        await bed.host.delete(PODS, "probe", bed.work, grace_seconds=0)
        return False

    await until(uncounted, "the host to refuse whatever the quota counts")
    await bed.create(bed.pod("web"))
    await until(lambda: refused_once(bed), "the host to have refused the syncer")
    assert not await bed.condition("web")
    status["status"]["used"] = {"pods": "0"}
    await bed.host.patch(RESOURCE_QUOTAS, "tenant-quota", status, bed.work, subresource="status")
    await bed.mirrored("web")
    assert not [each for each in await bed.events("web") if each["type"] == "Warning"]


async def test_a_pod_says_that_there_is_no_quota_for_a_configmap_that_it_refers_to(bed: SyncerBed) -> None:
    async def counts(hard: int) -> None:
        body: Obj = {"spec": {"hard": {"configmaps": str(hard)}}}
        status = {"status": body["spec"] | {"used": {"configmaps": "5"}}}
        await bed.host.patch(RESOURCE_QUOTAS, "tenant-objects", body, bed.work)
        await bed.host.patch(RESOURCE_QUOTAS, "tenant-objects", status, bed.work, subresource="status")

    quota = {"metadata": {"name": "tenant-objects"}, "spec": {"hard": {"configmaps": "5"}}}
    await bed.host.create(RESOURCE_QUOTAS, quota, bed.work)
    await counts(5)
    await bed.refuses(CONFIG_MAPS, {"data": {"a": "1"}})
    await bed.plane.create(CONFIG_MAPS, {"metadata": {"name": "wanted"}, "data": {"a": "1"}}, bed.space)
    await bed.create(uses(bed, "one", "wanted"))

    async def told() -> Obj | None:
        found = await bed.condition("one")
        return found if found is not None and found["reason"] == "QuotaExceeded" else None

    condition = await until(told, "the reason on the pod")
    assert "asked for 1 configmaps, 5 of 5 are in use. The ConfigMap is copied when enough is free." in condition["message"]
    await bed.event("wanted", "5 of 5 are in use", reason="QuotaExceeded")
    assert await bed.mirror("one") is None
    await counts(50)
    await bed.mirrored("one")
    assert (await bed.copy(CONFIG_MAPS, "wanted") or {}).get("data") == {"a": "1"}


async def refused_once(bed: SyncerBed) -> bool:
    assert bed.session is not None
    return bed.session.backoff.failures(Item("Pod", Key(bed.space, "web"))) > 0


async def test_item_09_namespace_labels_reach_running_pods(bed: SyncerBed) -> None:
    host = await bed.running("web")
    before = host["metadata"]["labels"]
    await bed.plane.patch(NAMESPACES, bed.space, {"metadata": {"labels": {"team": "red"}}})

    async def followed() -> bool:
        labels = ((await bed.mirror("web")) or host)["metadata"]["labels"]
        return "red" in (set(labels.values()) - set(before.values()))

    await until(followed, "label of the namespace on the host pod")


@pytest.mark.parametrize("r", [CONFIG_MAPS, SECRETS])
async def test_a_copy_keeps_what_others_on_the_host_have_noted(bed: SyncerBed, r: Resource) -> None:
    """A backup's label, a replicator's annotation, a controller's finalizer: the chart's policies let no syncer drop them."""
    name, key = f"noted-{bed.tenant}", "example.org/noted"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": [r.plural]}
    here = {"matchLabels": {"kubernetes.io/metadata.name": bed.work}}
    stays = " && ".join(
        f"(!has(oldObject.metadata.{field}) || !('{key}' in oldObject.metadata.{field}) || "
        f"(has(object.metadata.{field}) && '{key}' in object.metadata.{field}))"
        for field in ("labels", "annotations")
    )
    spec = {"matchConstraints": {"resourceRules": [rule], "namespaceSelector": here}, "validations": [{"expression": stays}]}
    binding = {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}
    await bed.plane.create(r, {"metadata": {"name": "kept"}, "data": {"a": "MQ=="}}, bed.space)
    refers = [{"configMapRef" if r is CONFIG_MAPS else "secretRef": {"name": "kept"}}]
    await bed.create(bed.pod("one", containers=[{"name": "main", "image": "busybox:1.36", "envFrom": refers}]))
    await bed.mirrored("one")
    place = bed.host_name(r.kind, "kept")
    await bed.host.create(VALIDATING_ADMISSION_POLICIES, {"metadata": {"name": name}, "spec": spec})
    await bed.host.create(VALIDATING_ADMISSION_POLICY_BINDINGS, binding)
    try:
        noted = {"labels": {key: "x"}, "annotations": {key: "x"}}
        with_finalizer = {"metadata": noted | {"finalizers": ["example.org/hold"]}}
        before = await bed.host.patch(r, place, with_finalizer, bed.work)

        async def in_force() -> bool:
            without = {"metadata": {"labels": {key: None}}}
            try:
                await bed.host.patch(r, place, without, bed.work)
            except Unprocessable:
                return True
            await bed.host.patch(r, place, with_finalizer, bed.work)
            return False

        await until(in_force, "policy in force")
        await bed.plane.patch(r, "kept", {"data": {"a": "Mg=="}, "metadata": {"labels": {"app": "new"}}}, bed.space)

        async def followed() -> Obj | None:
            found = await bed.copy(r, "kept")
            return found if found is not None and found["data"] == {"a": "Mg=="} else None

        after = (await until(followed, "update on the host"))["metadata"]
        assert after["uid"] == before["metadata"]["uid"], "not recreated"
        assert (after["labels"][key], after["annotations"][key], after["finalizers"]) == ("x", "x", ["example.org/hold"])
        assert after["labels"]["app"] == "new"
        await bed.quiet()
        unchanged = await bed.copy(r, "kept")
        assert unchanged is not None
        assert unchanged["metadata"]["resourceVersion"] == after["resourceVersion"], "nothing is written without a change"
    finally:
        await bed.host.delete(VALIDATING_ADMISSION_POLICY_BINDINGS, name)
        await bed.host.delete(VALIDATING_ADMISSION_POLICIES, name)
        await bed.host.patch(r, place, {"metadata": {"finalizers": None}}, bed.work)
