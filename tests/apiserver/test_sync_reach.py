"""Services of a tenant on the host: how many endpoints they have together is bounded, and not only their number."""

import contextlib
from typing import Any

from bulkhead.api.objects import Obj
from bulkhead.kube.errors import NotFound
from bulkhead.kube.resources import PODS, SERVICES
from syncer.quota.extent import Limits
from syncer.translate.kinds import nodeports
from tests.kit.syncerbed import SyncerBed, until

WEB = {"app": "web"}


async def service(bed: SyncerBed, name: str, ports: int, **spec: Any) -> Obj:
    listed = [{"name": f"p{port}", "port": port} for port in range(1, ports + 1)]
    content = {"selector": WEB, "ports": listed} | spec
    return await bed.plane.create(SERVICES, {"metadata": {"name": name}, "spec": content}, bed.space)


async def pod(bed: SyncerBed, name: str, **labels: str) -> None:
    made = bed.pod(name)
    made["metadata"]["labels"] = labels
    await bed.create(made)


async def has_ports(bed: SyncerBed, name: str, ports: int) -> bool:
    found = await bed.copy(SERVICES, name)
    return found is not None and len(found["spec"]["ports"]) == ports


async def test_services_with_many_ports_at_the_same_pods_are_bounded_together(bed: SyncerBed) -> None:
    assert bed.session is not None
    bed.session.extent.adopt(Limits(1 << 30, 100))
    for name in ("a", "b"):
        await pod(bed, name, **WEB)
        await bed.mirrored(name)
    await service(bed, "web", 3)
    await service(bed, "peers", 1, clusterIP="None")
    await bed.copied(SERVICES, "web")
    await bed.copied(SERVICES, "peers")
    await service(bed, "flood", 60)
    await bed.event("flood", "Services may have 100 endpoints together", "120 (60 ports, 2 pods)", reason="QuotaExceeded")
    assert await bed.copy(SERVICES, "flood") is None
    # One that is there does not grow beyond the bound and stays as it was; within the bound it does.
    await bed.plane.patch(SERVICES, "web", {"spec": {"ports": [{"name": f"p{n}", "port": n} for n in range(1, 61)]}}, bed.space)
    await bed.event("web", "On the host it stays as it is until enough is free", reason="QuotaExceeded")
    assert await has_ports(bed, "web", 3)
    await bed.plane.patch(SERVICES, "web", {"spec": {"ports": [{"name": f"p{n}", "port": n} for n in range(1, 41)]}}, bed.space)
    await until(lambda: has_ports(bed, "web", 40), "what grows within the bound")
    # Pods that come after their Services do not get round it: those that no Service selects start.
    await pod(bed, "c", **WEB)
    await bed.event("c", "with this pod they would have 123", f"{bed.space}/web has most ports (40)", reason="QuotaExceeded")
    assert ((await bed.condition("c")) or {})["reason"] == "QuotaExceeded"
    await pod(bed, "other", app="other")
    await bed.mirrored("other")
    await bed.plane.patch(PODS, "other", {"metadata": {"labels": WEB}}, bed.space)
    await bed.event("other", "The pod changes on the host when enough is free", reason="QuotaExceeded")
    assert (await bed.mirrored("other"))["metadata"]["labels"]["app"] == "other"
    # Nothing of that is another after a start, in whatever order the keys come then.
    await bed.stop()
    session = bed.begin()
    session.extent.adopt(Limits(1 << 30, 100))
    await bed.idle()
    assert await bed.copy(SERVICES, "flood") is None
    assert await bed.mirror("c") is None
    # A Service that is deleted gives its room to what waits.
    await bed.plane.delete(SERVICES, "web", bed.space)
    await bed.uncopied(SERVICES, "web")
    await bed.patrolled()
    await bed.mirrored("c")


async def test_services_of_an_older_platform_that_are_beyond_the_bound_stay(bed: SyncerBed) -> None:
    await pod(bed, "a", **WEB)
    await service(bed, "web", 3)
    before = await bed.copied(SERVICES, "web")
    host = await bed.mirrored("a")
    await bed.stop()
    session = bed.begin()
    session.extent.adopt(Limits(1 << 30, 1))
    await bed.idle()
    await bed.patrolled()
    assert (await bed.copied(SERVICES, "web"))["metadata"]["uid"] == before["metadata"]["uid"]
    assert (await bed.mirrored("a"))["metadata"]["uid"] == host["metadata"]["uid"]
    await service(bed, "late", 1)
    await bed.event("late", "Services may have 1 endpoints together", reason="QuotaExceeded")


async def test_node_ports_are_endpoints_as_well_and_hold_up_nothing_else(bed: SyncerBed) -> None:
    assert bed.session is not None
    bed.session.extent.adopt(Limits(1 << 30, 5))
    await pod(bed, "a", **WEB)
    await bed.mirrored("a")
    await service(bed, "web", 3)
    await bed.copied(SERVICES, "web")
    await bed.plane.patch(SERVICES, "web", {"spec": {"type": "NodePort"}}, bed.space)
    await bed.event("web", "node ports are not served", "Services may have 5 endpoints together", reason="QuotaExceeded")
    assert await has_ports(bed, "web", 3)
    assert await node_ports(bed, "web") is None
    bed.session.extent.adopt(Limits(1 << 30, 6))
    await bed.patrolled()
    assert len((await until(lambda: node_ports(bed, "web"), "node ports"))["spec"]["ports"]) == 3
    # They grow within the room alone.
    ports = [{"name": f"p{port}", "port": port} for port in range(1, 5)]
    bed.session.extent.adopt(Limits(1 << 30, 7))
    await bed.plane.patch(SERVICES, "web", {"spec": {"ports": ports}}, bed.space)
    await bed.event("web", "it stays as it is until enough is free", reason="QuotaExceeded")
    await bed.idle()
    found = await node_ports(bed, "web")
    assert found is not None
    mirror = await bed.copied(SERVICES, "web")
    assert len(found["spec"]["ports"]) + len(mirror["spec"]["ports"]) == 7


async def node_ports(bed: SyncerBed, name: str) -> Obj | None:
    with contextlib.suppress(NotFound):
        return await bed.host.get(SERVICES, bed.host_name(nodeports.KIND, name), bed.work)
    return None
