"""Node ports between two real API servers: what stands beside the mirrored Service, how long, and what the tenant reads."""

import contextlib
from typing import Any

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.kube.errors import ApiError, NotFound, Unprocessable
from bulkhead.kube.objects import Key, uid_of
from bulkhead.kube.resources import SERVICES, resource_of
from syncer import metrics
from syncer.translate.kinds import nodeports
from syncer.write import identity
from tests.apiserver.test_sync_safety import rewrite
from tests.kit.syncerbed import SyncerBed, until

POLICY = resource_of("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")
BINDING = resource_of("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding")


async def host_service(bed: SyncerBed, name: str = "web", kind: str = nodeports.KIND) -> Obj | None:
    try:
        return await bed.host.get(SERVICES, bed.host_name(kind, name), bed.work)
    except NotFound:
        return None


async def served(bed: SyncerBed, name: str = "web", kind: str = nodeports.KIND) -> Obj:
    found: Obj = await until(lambda: host_service(bed, name, kind), f"{kind} of {name}")
    return found


async def gone(bed: SyncerBed, name: str = "web", kind: str = nodeports.KIND) -> None:
    async def absent() -> bool:
        return await host_service(bed, name, kind) is None

    await until(absent, f"{kind} of {name} gone")


async def make(bed: SyncerBed, name: str = "web", **spec: Any) -> Obj:
    ports = [{"name": "tcp", "port": 80, "targetPort": "http"}, {"name": "udp", "port": 80, "protocol": "UDP"}]
    body = {"metadata": {"name": name}, "spec": {"type": "NodePort", "selector": {"app": name}, "ports": ports} | spec}
    return await bed.plane.create(SERVICES, body, bed.space)


async def change(bed: SyncerBed, name: str = "web", **spec: Any) -> Obj:
    return await bed.plane.patch(SERVICES, name, {"spec": spec}, bed.space)


async def test_item_79_node_ports_are_served_at_the_address_of_the_tenants_nodes(bed: SyncerBed) -> None:
    virtual = await make(bed)
    host = await served(bed)
    mirror = await served(bed, kind="Service")
    spec = host["spec"]
    assert spec["type"] == "ClusterIP"
    assert spec["externalIPs"] == [bed.settings.kubelet_address]
    assert spec["externalTrafficPolicy"] == "Local"
    assert spec["clusterIP"] not in {virtual["spec"]["clusterIP"], bed.settings.kubelet_address}
    assert [(each["protocol"], each["port"], each["targetPort"]) for each in spec["ports"]] == [
        (each["protocol"], each["nodePort"], each["targetPort"]) for each in virtual["spec"]["ports"]
    ]
    assert spec["selector"] == mirror["spec"]["selector"]
    assert spec["selector"][marks.TENANT] == bed.tenant
    assert "externalIPs" not in mirror["spec"]
    # What the plane gave stays as it is.
    await bed.idle()
    assert (await bed.plane.get(SERVICES, "web", bed.space))["spec"] == virtual["spec"]


async def test_item_79_node_ports_follow_their_service_through_its_life(bed: SyncerBed) -> None:
    await make(bed)
    first = await served(bed)
    moved = [{"port": 81, "nodePort": first["spec"]["ports"][0]["port"]}]
    await change(bed, ports=moved, selector={"app": "new"}, sessionAffinity="ClientIP")

    async def followed() -> bool:
        spec = (await host_service(bed) or first)["spec"]
        shown = spec["selector"]["app"], spec["sessionAffinity"], [each["targetPort"] for each in spec["ports"]]
        return shown == ("new", "ClientIP", [81])

    await until(followed, "the change on the host")
    await change(bed, sessionAffinity="None", sessionAffinityConfig=None)

    async def plain() -> bool:
        pair = (await host_service(bed), await host_service(bed, kind="Service"))
        return all(each is not None and each["spec"]["sessionAffinity"] == "None" for each in pair)

    await until(plain, "the affinity to be gone on both")
    assert uid_of(await served(bed)) == uid_of(first), "changed, not recreated"

    # A port that moves to another Service ends there.
    port = moved[0]["nodePort"]
    await change(bed, type="ClusterIP", ports=[{"port": 81, "nodePort": None}])
    await make(bed, "other", type="LoadBalancer", ports=[{"port": 80, "nodePort": port}])
    assert [each["port"] for each in (await served(bed, "other"))["spec"]["ports"]] == [port]
    await gone(bed)
    assert await host_service(bed, kind="Service") is not None

    await bed.plane.delete(SERVICES, "other", bed.space)
    await gone(bed, "other")
    await gone(bed, "other", "Service")


async def test_item_79_only_node_ports_of_selected_pods_are_served(bed: SyncerBed) -> None:
    await make(bed, "plain", type="ClusterIP")
    await make(bed, "by-hand", selector=None)
    await make(bed, "balancer", type="LoadBalancer", allocateLoadBalancerNodePorts=False)
    for name in ("plain", "by-hand", "balancer"):
        await served(bed, name, "Service")
    await bed.idle()
    for name in ("plain", "by-hand", "balancer"):
        assert await host_service(bed, name) is None


async def test_item_79_a_restart_finds_what_was_missed(bed: SyncerBed) -> None:
    for name in ("kept", "deleted", "replaced", "changed"):
        await make(bed, name)
    before = {name: await served(bed, name) for name in ("kept", "deleted", "replaced", "changed")}
    await bed.idle()
    await bed.stop()
    await bed.plane.delete(SERVICES, "deleted", bed.space)
    await bed.plane.delete(SERVICES, "replaced", bed.space)
    # The mirrored one went, and the crash came before its node ports did.
    await bed.host.delete(SERVICES, bed.host_name("Service", "deleted"), bed.work)
    await change(bed, "changed", type="ClusterIP", ports=[{"port": 80}])
    new = await make(bed, "replaced")
    writes = metrics.HOST_WRITES.labels("Service", "patch")
    await bed.start()
    await gone(bed, "deleted")
    await gone(bed, "changed")

    async def replaced() -> bool:
        found = await host_service(bed, "replaced")
        return found is not None and found["metadata"]["labels"][marks.VIRTUAL_UID] == uid_of(new)

    await until(replaced, "node ports of the new one")
    await bed.idle()
    kept = await served(bed, "kept")
    assert (uid_of(kept), kept["metadata"]["resourceVersion"]) == (
        uid_of(before["kept"]), before["kept"]["metadata"]["resourceVersion"],
    )  # fmt: skip
    # Nothing is left to do.
    count = writes._value.get()
    await bed.patrolled()
    assert writes._value.get() == count


async def test_item_79_a_plane_that_is_not_the_one_ends_no_node_ports(bed: SyncerBed) -> None:
    await make(bed)
    host = await served(bed)
    await bed.stop()
    await rewrite(bed, **{identity.UID_KEY: "another-cluster"})
    await bed.plane.delete(SERVICES, "web", bed.space)
    session = await bed.start()
    assert session.identity.quarantine
    await bed.idle()
    assert uid_of(await served(bed)) == uid_of(host)


async def test_item_79_a_hand_on_the_host_is_put_right(bed: SyncerBed) -> None:
    await make(bed)
    host = await served(bed)
    name, wanted = host["metadata"]["name"], host["spec"]
    crooked = {
        "externalIPs": ["192.0.2.1"],
        "externalTrafficPolicy": "Cluster",
        "ports": [{"port": 10250}],
        "selector": {"app": "b"},
    }
    await bed.host.patch(SERVICES, name, {"spec": crooked}, bed.work)

    async def right() -> bool:
        found = (await host_service(bed) or {"spec": {}})["spec"]
        return all(found.get(key) == wanted[key] for key in ("externalIPs", "externalTrafficPolicy", "ports", "selector"))

    await until(right, "put right")
    await bed.host.patch(
        SERVICES, name, {"spec": {"type": "ExternalName", "externalName": "a.example.org", "clusterIP": None}}, bed.work
    )
    await until(right, "recreated")
    await bed.host.delete(SERVICES, name, bed.work)
    await until(right, "made again")

    # Found by the patrol alone: the key that the event made is thrown away.
    assert bed.session is not None
    queue, add = bed.session.queue, bed.session.queue.add
    await bed.quiet()
    queue.add = lambda *_: False  # type: ignore[method-assign]
    await bed.host.patch(SERVICES, name, {"spec": {"externalIPs": ["192.0.2.1"]}}, bed.work)

    async def seen() -> bool:
        held = bed.session.caches.host["Service"].store.get(Key(bed.work, name)) if bed.session else None
        return held is not None and held["spec"]["externalIPs"] == ["192.0.2.1"]

    await until(seen, "the cache knows")
    queue.add = add  # type: ignore[method-assign]
    bed.session.patrol.round()
    await until(right, "put right by the patrol")


async def test_item_79_copied_marks_are_not_believed_and_a_taken_name_is_reported(bed: SyncerBed) -> None:
    await make(bed)
    host = await served(bed)
    marked = {key: host["metadata"][key] for key in ("labels", "annotations")}
    # Without addresses of their own, or the host's choice may be what the plane gives to the next Service.
    spec = {"clusterIP": "None", "ports": [{"port": 30001}]}
    await bed.host.create(SERVICES, {"metadata": {"name": "copy"} | marked, "spec": spec}, bed.work)
    await bed.host.create(SERVICES, {"metadata": {"name": bed.host_name(nodeports.KIND, "late")}, "spec": spec}, bed.work)
    await make(bed, "late")
    await served(bed, "late", "Service")

    await bed.event("late", "node ports", reason="NameTaken")
    assert (await served(bed, "late"))["spec"].get("externalIPs") is None
    await bed.plane.delete(SERVICES, "web", bed.space)
    await gone(bed)
    await bed.idle()
    assert (await bed.host.get(SERVICES, "copy", bed.work))["spec"]["ports"][0]["port"] == 30001


async def test_item_79_an_address_goes_to_the_tenants_service_first(bed: SyncerBed) -> None:
    await make(bed)
    address = (await served(bed))["spec"]["clusterIP"]
    await make(bed, "db", type="ClusterIP", clusterIP=address)
    assert (await served(bed, "db", "Service"))["spec"]["clusterIP"] == address

    async def moved() -> bool:
        found = await host_service(bed)
        return found is not None and found["spec"]["clusterIP"] != address

    await until(moved, "node ports at another address")


async def test_item_79_an_address_that_another_service_has_is_passed_over(bed: SyncerBed) -> None:
    """All but one of the addresses that would be chosen first are Services that the syncer does not see."""
    body = {"spec": {"type": "NodePort", "selector": {"app": "web"}, "ports": [{"port": 80}]}}
    taken = 0
    for number in range(12, 20):
        with contextlib.suppress(Unprocessable):  # what has it already
            spec = {"clusterIP": f"10.112.0.{number}", "ports": [{"port": 1}]}
            await bed.host.create(SERVICES, {"metadata": {"name": f"other-{number}"}, "spec": spec}, bed.work)
            taken += 1
    assert taken
    for number in range(8):
        await bed.plane.create(SERVICES, {"metadata": {"name": f"web-{number}"}} | body, bed.space)
    for number in range(8):
        await served(bed, f"web-{number}")


async def test_item_79_a_host_that_forbids_external_addresses_costs_the_node_ports_alone(bed: SyncerBed) -> None:
    """As its admission plugin DenyServiceExternalIPs says it, here by a policy for this namespace."""
    text = "Use of external IPs is denied by admission control"
    name = f"deny-{bed.tenant}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["services"]}
    here = {"matchLabels": {"kubernetes.io/metadata.name": bed.work}}
    validation = {"expression": "!has(object.spec.externalIPs)", "message": text, "reason": "Forbidden"}
    spec = {"matchConstraints": {"resourceRules": [rule], "namespaceSelector": here}, "validations": [validation]}
    await bed.host.create(POLICY, {"metadata": {"name": name}, "spec": spec})
    await bed.host.create(BINDING, {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}})
    try:
        probe = {"metadata": {"name": "probe"}, "spec": {"ports": [{"port": 1}], "externalIPs": ["192.0.2.1"]}}

        async def in_force() -> bool:
            try:
                await bed.host.create(SERVICES, probe, bed.work)
            except ApiError as error:
                return text in error.message
            await bed.host.delete(SERVICES, "probe", bed.work)
            return False

        await until(in_force, "policy in force")
        virtual = await make(bed)

        event = await bed.event("web", "node ports are not served", text)
        assert (event["type"], event["reason"]) == ("Warning", "HostRefused")
        assert bed.work not in event["message"]
        assert (await served(bed, kind="Service"))["spec"]["clusterIP"] == virtual["spec"]["clusterIP"]
        assert await host_service(bed) is None
        await change(bed, selector={"app": "new"})

        async def followed() -> bool:
            return (await served(bed, kind="Service"))["spec"]["selector"]["app"] == "new"

        await until(followed, "the mirrored one works on")
    finally:
        await bed.host.delete(BINDING, name)
        await bed.host.delete(POLICY, name)
    assert bed.session is not None

    async def lifted() -> bool:
        bed.session.patrol.round()  # type: ignore[union-attr]
        return await host_service(bed) is not None

    await until(lifted, "served once it is allowed")
