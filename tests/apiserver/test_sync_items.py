"""Behaviours that two real API servers prove and that stand in no other file; numbers as in docs/syncer-behaviours.md."""

import asyncio
import copy
from typing import Any

import pytest

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube.errors import NotFound
from bulkhead.kube.resources import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    EVENTS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from syncer.translate.podspec import downward
from tests.kit.syncerbed import SyncerBed, until

NOW = "2026-01-01T00:00:00Z"


async def absent(bed: SyncerBed, name: str) -> bool:
    return await bed.virtual(name) is None


async def test_item_03_04_a_copy_of_our_marks_under_another_name_is_not_ours(bed: SyncerBed) -> None:
    host = await bed.running("web")
    forged = copy.deepcopy({"metadata": {key: host["metadata"][key] for key in ("labels", "annotations")}})
    forged["metadata"]["name"] = "forged"
    forged["spec"] = {"containers": [{"name": "x", "image": "x"}]}
    made = await bed.host.create(PODS, forged, bed.work)
    foreign = await bed.host.create(CONFIG_MAPS, {"metadata": {"name": "foreign"}, "data": {"a": "b"}}, bed.work)
    await bed.plane.delete(PODS, "web", bed.space, grace_seconds=0)

    async def deleting() -> bool:
        return "deletionTimestamp" in ((await bed.mirror("web")) or {"metadata": {"deletionTimestamp": NOW}})["metadata"]

    await until(deleting, "the real mirror goes")
    await bed.patrolled()
    assert (await bed.host.get(PODS, "forged", bed.work))["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert (await bed.host.get(CONFIG_MAPS, "foreign", bed.work))["metadata"]["uid"] == foreign["metadata"]["uid"]


async def test_item_10_no_pod_and_no_event_is_made_for_a_namespace_that_ends(bed: SyncerBed) -> None:
    await bed.stop()
    await bed.create(bed.pod("late"))
    await bed.create(bed.pod("bad", hostNetwork=True))
    await bed.plane.delete(NAMESPACES, bed.space)
    await bed.start()
    await bed.idle()
    assert await bed.mirror("late") is None
    assert [
        each for each in (await bed.plane.list(EVENTS, bed.space)).items if each["source"].get("component") == "bulkhead"
    ] == []


async def test_item_18_labels_that_a_pod_reads_follow_their_change(bed: SyncerBed) -> None:
    file = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    await bed.running("web", bed.pod("web", volumes=[{"name": "v", "downwardAPI": {"items": [file]}}]))
    await bed.plane.patch(PODS, "web", {"metadata": {"labels": {"app": "new"}}}, bed.space)

    async def followed() -> bool:
        return 'app="new"' in ((await bed.mirror("web")) or {})["metadata"]["annotations"].get(downward.LABELS, "")

    await until(followed, "annotation on the host")


async def test_item_57_nodes_outside_the_pool_are_not_shown(bed: SyncerBed) -> None:
    await bed.host.create(NODES, {"metadata": {"name": f"other-{bed.tenant}", "labels": {"pool": "of-another"}}})

    async def shown() -> bool:
        return bed.node in [each["metadata"]["name"] for each in (await bed.plane.list(NODES)).items]

    await until(shown, "own node")
    with pytest.raises(NotFound):
        await bed.plane.get(NODES, f"other-{bed.tenant}")


async def test_item_58_a_lost_node_is_seen_as_lost(bed: SyncerBed) -> None:
    async def ready() -> str | None:
        conditions = (await bed.virtual_node() or {}).get("status", {}).get("conditions") or ()
        return next((str(each["status"]) for each in conditions if each["type"] == "Ready"), None)

    async def is_ready() -> bool:
        return await ready() == "True"

    await until(is_ready, "node ready in the plane")
    lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "", "lastTransitionTime": NOW}
    await bed.host.patch(NODES, bed.node, {"status": {"conditions": [lost]}}, subresource="status")

    async def is_lost() -> bool:
        return await ready() == "Unknown"

    await until(is_lost, "loss in the plane")


async def test_item_59_the_tenants_labels_on_a_node_stay_and_taints_of_the_host_come_and_go(bed: SyncerBed) -> None:
    await until(bed.virtual_node, "virtual node")
    await bed.plane.patch(NODES, bed.node, {"metadata": {"labels": {"tenant.example/mine": "yes"}}})
    taint = {"key": "example.com/repair", "effect": "NoSchedule"}

    async def tainted(wanted: bool) -> bool:
        found = (await bed.virtual_node()) or {}
        keys = [each["key"] for each in found.get("spec", {}).get("taints") or ()]
        return ("example.com/repair" in keys) is wanted

    for wanted in (True, False):
        await bed.host.patch(NODES, bed.node, {"spec": {"taints": [taint] if wanted else None}})
        await until(lambda wanted=wanted: tainted(wanted), "taint follows")
    assert ((await bed.virtual_node()) or {})["metadata"]["labels"]["tenant.example/mine"] == "yes"


async def test_item_66_conditions_of_the_tenants_controllers_survive_news_from_the_host(bed: SyncerBed) -> None:
    host = await bed.running("worker")
    own = {"type": "SlurmNodeStateIdle", "status": "True", "reason": "Idle", "lastTransitionTime": NOW}
    await bed.plane.patch(
        PODS, "worker", {"status": {"conditions": [own]}}, bed.space, subresource="status",
        content_type="application/strategic-merge-patch+json",
    )  # fmt: skip
    body = {"status": {"podIP": "10.244.0.6", "podIPs": [{"ip": "10.244.0.6"}]}}
    await bed.host.patch(PODS, host["metadata"]["name"], body, bed.work, subresource="status")

    async def news() -> Obj | None:
        found = ((await bed.virtual("worker")) or {})["status"]
        return found if found.get("podIP") == "10.244.0.6" else None

    status = await until(news, "address in the plane")
    types = [each["type"] for each in status["conditions"]]
    assert types.count("SlurmNodeStateIdle") == 1
    assert {"Ready", "PodScheduled"} <= set(types)


async def test_item_68_the_end_of_a_pod_is_reported_while_it_is_being_deleted(bed: SyncerBed) -> None:
    pod = bed.pod("job")
    pod["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    host = await bed.running("job", pod)
    await bed.plane.delete(PODS, "job", bed.space)
    await bed.run(host, phase="Succeeded")

    async def reported() -> bool:
        return bool(((await bed.virtual("job")) or {})["status"]["phase"] == "Succeeded")

    await until(reported, "phase in the plane")
    assert ((await bed.virtual("job")) or {})["metadata"]["deletionTimestamp"]
    await bed.plane.patch(PODS, "job", {"metadata": {"finalizers": None}}, bed.space)


async def test_item_68_clients_that_wait_for_the_end_of_a_lost_pod_learn_of_it(bed: SyncerBed) -> None:
    pod = bed.pod("job")
    pod["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    host = await bed.running("job", pod)
    await bed.stop()
    await bed.kubelet_ends(host)
    await bed.plane.delete(PODS, "job", bed.space)
    await bed.start()

    async def reported() -> bool:
        return bool(((await bed.virtual("job")) or {})["status"]["phase"] == "Failed")

    await until(reported, "phase in the plane")
    await bed.plane.patch(PODS, "job", {"metadata": {"finalizers": None}}, bed.space)
    await until(lambda: absent(bed, "job"), "pod gone")


async def test_item_75_a_pod_goes_although_its_account_went_first(bed: SyncerBed) -> None:
    await bed.plane.create(SERVICE_ACCOUNTS, {"metadata": {"name": "robot"}}, bed.space)
    source = {"serviceAccountToken": {"path": "token"}}
    volumes = [{"name": "t", "projected": {"sources": [source]}}]
    host = await bed.running("web", bed.pod("web", serviceAccountName="robot", volumes=volumes))
    await bed.plane.delete(SERVICE_ACCOUNTS, "robot", bed.space)
    await bed.plane.delete(PODS, "web", bed.space)

    async def deleting() -> bool:
        return "deletionTimestamp" in ((await bed.mirror("web")) or {"metadata": {}})["metadata"]

    await until(deleting, "host pod deleting")
    await bed.kubelet_ends(host)
    await until(lambda: absent(bed, "web"), "virtual pod gone")


async def test_item_77_a_running_pod_takes_debug_containers_and_new_sizes(bed: SyncerBed) -> None:
    resources = {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}
    container = {"name": "main", "image": "busybox:1.36", "resources": resources}
    host = await bed.running("web", bed.pod("web", containers=[container]))
    # A kubelet says by this that it can resize.
    now = {"name": "main", "image": "busybox:1.36", "imageID": "x", "ready": True, "restartCount": 0, "resources": resources}
    now["state"] = {"running": {"startedAt": NOW}}
    await bed.host.patch(
        PODS, host["metadata"]["name"], {"status": {"containerStatuses": [now]}}, bed.work, subresource="status"
    )

    async def resizable() -> bool:
        return "resources" in ((await bed.virtual("web")) or {})["status"]["containerStatuses"][0]

    await until(resizable, "resources in the plane")
    for number in range(2):
        debug = {"name": f"debug-{number}", "image": "busybox:1.36", "targetContainerName": "main"}
        await bed.plane.patch(
            PODS, "web", {"spec": {"ephemeralContainers": [debug]}}, bed.space, subresource="ephemeralcontainers",
            content_type="application/strategic-merge-patch+json",
        )  # fmt: skip

    async def debugged() -> bool:
        found = ((await bed.mirror("web")) or {})["spec"].get("ephemeralContainers") or []
        return [each["targetContainerName"] for each in found] == ["main", "main"]

    await until(debugged, "both debug containers on the host")
    bigger = {"name": "main", "resources": {"requests": {"cpu": "150m"}, "limits": {"cpu": "300m"}}}
    await bed.plane.patch(
        PODS, "web", {"spec": {"containers": [bigger]}}, bed.space, subresource="resize",
        content_type="application/strategic-merge-patch+json",
    )  # fmt: skip

    async def resized() -> bool:
        found = ((await bed.mirror("web")) or {})["spec"]["containers"][0]["resources"]
        return bool(found["limits"]["cpu"] == "300m" and found["requests"]["cpu"] == "150m")

    await until(resized, "new size on the host")


async def test_item_79_a_service_changes_its_type_both_ways(bed: SyncerBed) -> None:
    spec: dict[str, Any] = {"type": "ExternalName", "externalName": "db.example.com"}
    await bed.plane.create(SERVICES, {"metadata": {"name": "db"}, "spec": spec}, bed.space)
    await bed.idle()
    assert await bed.copy(SERVICES, "db") is None
    inside = {"type": "NodePort", "externalName": None, "ports": [{"port": 80}], "selector": {"app": "db"}}
    await bed.plane.patch(SERVICES, "db", {"spec": inside}, bed.space)
    host = await bed.copied(SERVICES, "db")
    assert host["spec"]["type"] == "ClusterIP"
    assert "nodePort" not in host["spec"]["ports"][0]
    back = {"type": "ExternalName", "externalName": "db.example.com", "clusterIP": None, "clusterIPs": None, "ports": None}
    await bed.plane.patch(SERVICES, "db", {"spec": back | {"selector": None}}, bed.space)

    await bed.uncopied(SERVICES, "db")


async def test_item_80_endpoints_by_hand_reach_the_host_in_any_order(bed: SyncerBed) -> None:
    await bed.running("db")
    endpoints = [{"addresses": ["10.244.0.5"], "conditions": {"ready": True}}]
    labels = {"kubernetes.io/service-name": "db", "endpointslice.kubernetes.io/managed-by": "by-hand"}
    slice_ = {
        "metadata": {"name": "db-1", "labels": labels},
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"port": 80}],
    }
    await bed.plane.create(ENDPOINT_SLICES, slice_, bed.space)
    await bed.plane.create(SERVICES, {"metadata": {"name": "db"}, "spec": {"ports": [{"port": 80}]}}, bed.space)
    service = await bed.copied(SERVICES, "db")
    mirrored = await bed.copied(ENDPOINT_SLICES, "db-1")
    assert mirrored["metadata"]["labels"]["kubernetes.io/service-name"] == service["metadata"]["name"]
    assert mirrored["endpoints"][0]["addresses"] == ["10.244.0.5"]
    assert not (service["spec"].get("selector"))


async def test_item_83_events_about_services_and_claims_are_reported_in_the_tenants_words(bed: SyncerBed) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await bed.plane.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data"}, "spec": claim}, bed.space)
    host = await bed.copied(PERSISTENT_VOLUME_CLAIMS, "data")
    meta = host["metadata"]
    event = {
        "metadata": {"name": f"{meta['name']}.1"},
        "involvedObject": {"kind": "PersistentVolumeClaim", "namespace": bed.work, "name": meta["name"], "uid": meta["uid"]},
        "reason": "ProvisioningFailed",
        "message": f"no room for {bed.work}/{meta['name']}",
        "type": "Warning",
        "source": {"component": "provisioner"},
    }
    await bed.host.create(EVENTS, event, bed.work)

    found = await bed.event("data", reason="ProvisioningFailed")
    assert found["involvedObject"]["kind"] == "PersistentVolumeClaim"
    assert found["message"] == f"no room for {bed.space}/data"


async def test_item_88_concurrent_writers_do_no_harm(bed: SyncerBed) -> None:
    host = await bed.running("web")

    async def plane(number: int) -> None:
        await bed.plane.patch(
            PODS, "web", {"metadata": {"annotations": {"n": str(number)}, "labels": {"n": str(number)}}}, bed.space
        )

    async def kubelet(number: int) -> None:
        address = f"10.244.1.{number}"
        body = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
        await bed.host.patch(PODS, host["metadata"]["name"], body, bed.work, subresource="status")

    for number in range(1, 21):
        await asyncio.gather(plane(number), kubelet(number))

    async def agreed() -> bool:
        virtual, mirror = await bed.virtual("web"), await bed.mirror("web")
        assert virtual is not None
        assert mirror is not None
        return virtual["status"].get("podIP") == "10.244.1.20" and mirror["metadata"]["labels"].get("n") == "20"

    await until(agreed, "both sides agree")
    assert [each for each in await bed.events("web") if each["source"].get("component") == "bulkhead"] == []
    assert (await bed.mirrored("web"))["metadata"]["labels"][marks.VIRTUAL_UID] == host["metadata"]["labels"][marks.VIRTUAL_UID]
