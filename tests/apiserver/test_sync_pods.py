"""Pods between two real API servers: created, bound, reported, deleted, from either side, and after crashes."""

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube.resources import NODES, PODS
from tests.kit.syncerbed import SyncerBed, until, virtual_uid


async def gone(bed: SyncerBed, name: str) -> bool:
    return await bed.virtual(name) is None


async def test_item_01_03_11_55_56_a_pod_is_made_bound_and_reported(bed: SyncerBed) -> None:
    await bed.create(bed.pod("web"))
    host = await bed.mirrored("web")
    virtual = await bed.virtual("web")
    assert virtual is not None
    assert virtual_uid(host) == virtual["metadata"]["uid"]
    assert host["metadata"]["labels"][marks.SYNCED] == marks.SYNCED_BY_SYNCER
    assert host["spec"]["automountServiceAccountToken"] is False
    await bed.bind(host)

    async def bound() -> bool:
        return ((await bed.virtual("web")) or {})["spec"].get("nodeName") == bed.node

    await until(bound, "binding in the plane")
    assert (await bed.plane.get(NODES, bed.node))["metadata"]["labels"][marks.PLATFORM] == "true"
    await bed.run(host)

    async def running() -> bool:
        status = ((await bed.virtual("web")) or {})["status"]
        return (
            status.get("phase") == "Running" and status.get("podIP") == "10.244.0.5" and status["containerStatuses"][0]["ready"]
        )

    await until(running, "status in the plane")


async def test_item_71_deletion_by_the_tenant_waits_for_the_kubelet(bed: SyncerBed) -> None:
    host = await bed.running("web")
    await bed.plane.delete(PODS, "web", bed.space, grace_seconds=7)

    async def deleting() -> bool:
        return ((await bed.mirror("web")) or {"metadata": {}})["metadata"].get("deletionGracePeriodSeconds") == 7

    await until(deleting, "host pod deleting with the same grace")
    assert await bed.virtual("web") is not None
    await bed.kubelet_ends(host)
    await until(lambda: gone(bed, "web"), "virtual pod gone")


async def test_item_71_a_deletion_holds_what_the_pod_has_for_an_hour_at_most(bed: SyncerBed) -> None:
    host = await bed.running("web")
    await bed.plane.delete(PODS, "web", bed.space, grace_seconds=1_000_000)

    async def deleting() -> bool:
        return ((await bed.mirror("web")) or {"metadata": {}})["metadata"].get("deletionGracePeriodSeconds") == 3600

    await until(deleting, "host pod deleting within an hour")
    await bed.kubelet_ends(host)
    await until(lambda: gone(bed, "web"), "virtual pod gone")


async def test_item_71_force_deletion_by_the_tenant(bed: SyncerBed) -> None:
    await bed.running("web")
    await bed.plane.delete(PODS, "web", bed.space, grace_seconds=0)

    async def host_deleting() -> bool:
        found = await bed.mirror("web")
        return found is None or "deletionTimestamp" in found["metadata"]

    await until(host_deleting, "host pod deleted")


async def test_item_71_an_unbound_pod_goes_at_once_on_both_sides(bed: SyncerBed) -> None:
    await bed.create(bed.pod("pending"))
    await bed.mirrored("pending")
    await bed.plane.delete(PODS, "pending", bed.space)

    async def host_gone() -> bool:
        return await bed.mirror("pending") is None

    await until(host_gone, "host pod gone")


async def test_item_72_eviction_on_the_host_is_reported(bed: SyncerBed) -> None:
    host = await bed.running("web")
    await bed.host.delete(PODS, host["metadata"]["name"], bed.work, grace_seconds=9)

    async def deleting() -> bool:
        return ((await bed.virtual("web")) or {"metadata": {}})["metadata"].get("deletionGracePeriodSeconds") == 9

    await until(deleting, "virtual pod deleting with the host's grace")
    await bed.kubelet_ends(host)
    await until(lambda: gone(bed, "web"), "virtual pod gone")


async def test_an_eviction_in_the_plane_is_told_as_one_to_the_pods_end(bed: SyncerBed) -> None:
    """Jobs that ignore disruptions go by this condition, of which the host knows nothing."""
    host = await bed.running("web")
    await bed.plane.patch(PODS, "web", {"metadata": {"finalizers": ["example.com/watch"]}}, bed.space)
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"}}
    await bed.plane.create_subresource(PODS, "web", "eviction", body, bed.space)

    async def deleting() -> bool:
        return "deletionTimestamp" in ((await bed.mirror("web")) or {"metadata": {}})["metadata"]

    await until(deleting, "host pod deleting")
    await bed.host.patch(PODS, host["metadata"]["name"], {"status": {"phase": "Failed"}}, bed.work, subresource="status")

    async def ended() -> Obj | None:
        status: Obj = ((await bed.virtual("web")) or {"status": {}})["status"]
        return status if status.get("phase") == "Failed" else None

    status = await until(ended, "the end in the plane")
    target = next((found for found in status["conditions"] if found["type"] == "DisruptionTarget"), {})
    assert (target.get("status"), target.get("reason")) == ("True", "EvictionByEvictionAPI")
    await bed.kubelet_ends(host)
    await bed.plane.patch(PODS, "web", {"metadata": {"finalizers": None}}, bed.space)


async def test_item_73_a_pod_that_ran_is_never_started_twice(bed: SyncerBed) -> None:
    host = await bed.running("web")
    await bed.stop()
    await bed.kubelet_ends(host)
    await bed.start()
    await until(lambda: gone(bed, "web"), "virtual pod gone")
    assert await bed.host_pods() == []


async def test_item_74_a_pod_of_the_same_name_waits_for_the_old_one(bed: SyncerBed) -> None:
    old = await bed.running("db-0")
    await bed.plane.delete(PODS, "db-0", bed.space, grace_seconds=0)
    await bed.create(bed.pod("db-0"))

    async def deleting() -> bool:
        return "deletionTimestamp" in ((await bed.mirror("db-0")) or {"metadata": {}})["metadata"]

    await until(deleting, "old host pod deleting")
    await bed.kubelet_ends(old)

    async def replaced() -> bool:
        virtual, host = await bed.virtual("db-0"), await bed.mirror("db-0")
        return host is not None and virtual is not None and virtual_uid(host) == virtual["metadata"]["uid"]

    await until(replaced, "new host pod")
    assert len(await bed.host_pods()) == 1


async def test_item_69_88_a_crash_between_create_and_status_makes_no_second_pod(bed: SyncerBed) -> None:
    await bed.create(bed.pod("web"))
    host = await bed.mirrored("web")
    await bed.stop()
    await bed.bind(host)
    await bed.run(host)
    await bed.start()

    async def running() -> bool:
        return (((await bed.virtual("web")) or {}).get("status") or {}).get("phase") == "Running"

    await until(running, "status caught up")
    assert [each["metadata"]["uid"] for each in await bed.host_pods()] == [host["metadata"]["uid"]]


async def test_item_02_04_an_unmarked_object_is_never_adopted(bed: SyncerBed) -> None:
    name = bed.host_name("Pod", "web")
    foreign = {"metadata": {"name": name}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    made = await bed.host.create(PODS, foreign, bed.work)
    await bed.create(bed.pod("web"))

    async def refused() -> bool:
        return ((await bed.condition("web")) or {}).get("reason") == "NameTaken"

    await until(refused, "refusal on the pod")
    assert (await bed.host.get(PODS, name, bed.work))["metadata"]["uid"] == made["metadata"]["uid"]


async def test_item_47_a_refused_pod_says_why(bed: SyncerBed) -> None:
    await bed.create(bed.pod("bad", hostNetwork=True))

    async def refused() -> bool:
        return ((await bed.condition("bad")) or {}).get("reason") == "PodSecurityViolation"

    await until(refused, "condition")
    condition = await bed.condition("bad")
    assert condition is not None
    assert "spec.hostNetwork" in condition["message"]

    await bed.event("bad", reason="PodSecurityViolation")
    assert await bed.host_pods() == []


async def test_item_90_labels_follow_and_a_storm_is_coalesced(bed: SyncerBed) -> None:
    host = await bed.running("web")
    before = int(host["metadata"]["resourceVersion"])
    for number in range(300):
        await bed.plane.patch(PODS, "web", {"metadata": {"labels": {"flap": str(number)}}}, bed.space)

    async def last() -> bool:
        return ((await bed.mirror("web")) or {})["metadata"]["labels"].get("flap") == "299"

    await until(last, "last label on the host")
    assert before > 0
