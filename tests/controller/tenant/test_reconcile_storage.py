"""Reconciles of tenants with a request for what can never change, on a real API server: what grows, stays and continues.

No controller creates volumes here: the test creates the claims as the host's controller of StatefulSets would, and binds them.
"""

import secrets
from typing import Any

import pytest

from bulkhead.api import labels
from bulkhead.api.conditions import condition_of
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError
from bulkhead.kube.objects import Resource
from controller.tenant.reconcile import ReconcileFailed
from controller.unchangeable import unchangeable
from tests.kit.controllerhost import ControllerHost, ask, ready, take_down
from tests.kit.crds import install
from tests.kit.tenantsamples import tenant_class

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]


@pytest.fixture
async def client(host_client: Client) -> Client:
    await install(host_client)
    for name, grows in (("storage-fast", True), ("storage-fixed", False)):
        obj = {"metadata": {"name": name}, "provisioner": "example.org/none", "allowVolumeExpansion": grows}
        await host_client.apply(kinds.STORAGE_CLASSES, obj)
    return host_client


async def offer(client: Client, name: str, **storage: Any) -> None:
    found = tenant_class(controlPlane={"storage": storage}) | {"metadata": {"name": name}}
    await client.apply(kinds.TENANT_CLASSES, found)


async def claim(client: Client, tenant: str, number: int = 0, size: str = "2Gi", storage_class: str = "storage-fast") -> str:
    """A bound volume of the plane."""
    name, namespace = f"data-plane-{number}", f"bh-{tenant}"
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": storage_class,
        "volumeName": f"pv-{secrets.token_hex(4)}",
    }
    meta = {"name": name, "namespace": namespace, "labels": labels.made_for(tenant, "plane")}
    await client.create(kinds.PERSISTENT_VOLUME_CLAIMS, {"metadata": meta, "spec": spec})
    await became(client, tenant, size, number)
    return name


async def became(client: Client, tenant: str, size: str, number: int = 0, *conditions: Obj) -> None:
    """What a driver does: the volume has a size now."""
    status = {"phase": "Bound", "capacity": {"storage": size}, "conditions": list(conditions)}
    await client.patch(
        kinds.PERSISTENT_VOLUME_CLAIMS, f"data-plane-{number}", {"status": status}, f"bh-{tenant}", subresource="status"
    )


async def asks(client: Client, tenant: str, number: int = 0) -> str:
    found = await client.get(kinds.PERSISTENT_VOLUME_CLAIMS, f"data-plane-{number}", f"bh-{tenant}")
    return str(found["spec"]["resources"]["requests"]["storage"])


def stored(tenant: Obj) -> tuple[str, str, str]:
    found = condition_of(tenant, "StorageApplied")
    return str(found.get("status")), str(found.get("reason")), str(found.get("message"))


async def upkeep(client: Client, world: ControllerHost, name: str) -> None:
    """What protects a tenant, and what it runs on: changed by another client, and then restored."""
    await client.delete(kinds.NETWORK_POLICIES, "default-deny", f"bh-{name}")
    older = [{"name": "etcd", "image": "example.org/etcd:older"}]
    body = {"spec": {"template": {"spec": {"containers": older}}}}
    await client.patch(kinds.STATEFUL_SETS, "plane", body, f"bh-{name}")
    await world.settle(name)
    await client.get(kinds.NETWORK_POLICIES, "default-deny", f"bh-{name}")
    plane = await client.get(kinds.STATEFUL_SETS, "plane", f"bh-{name}")
    images = {each["name"]: each["image"] for each in plane["spec"]["template"]["spec"]["containers"]}
    assert images["etcd"] != "example.org/etcd:older"


async def test_volumes_grow_while_the_plane_runs(client: Client) -> None:
    await offer(client, "growing", size="2Gi", maxSize="16Gi", className="storage-fast")
    async with ControllerHost(client) as world:
        await ask(client, "growing", **{"class": "growing"})
        await world.settle("growing")
        await claim(client, "growing")
        before = await client.get(kinds.STATEFUL_SETS, "plane", "bh-growing")
        assert stored(await world.settle("growing"))[:2] == ("True", "Applied")
        await client.patch(kinds.TENANTS, "growing", {"spec": {"controlPlane": {"storage": {"size": "4Gi"}}}})
        tenant = await world.settle("growing")
        assert await asks(client, "growing") == "4Gi"
        assert stored(tenant) == ("False", "VolumeGrowing", "data-plane-0 grows from 2Gi to 4Gi")
        assert ready(tenant)[1] != "HostRefused"
        pending = {"type": "FileSystemResizePending", "status": "True", "lastTransitionTime": "2026-06-01T12:00:00Z"}
        await became(client, "growing", "2Gi", 0, pending)
        assert "FileSystemResizePending" in stored(await world.settle("growing"))[2]
        while_it_grows = await client.get(kinds.STATEFUL_SETS, "plane", "bh-growing")
        assert while_it_grows["metadata"]["generation"] == before["metadata"]["generation"], "the plane restarts"
        await became(client, "growing", "4Gi")
        assert stored(await world.settle("growing"))[:2] == ("True", "Applied")
        # A member's lost volume is recreated from the template, which has not changed.
        after = await client.get(kinds.STATEFUL_SETS, "plane", "bh-growing")
        assert after["spec"]["volumeClaimTemplates"] == before["spec"]["volumeClaimTemplates"]
        # The quota follows the volume once it has the space, which restarts the plane.
        assert f"--quota-backend-bytes={1 << 30}" in after["spec"]["template"]["spec"]["containers"][0]["command"]
        await claim(client, "growing", 1)
        await world.settle("growing")
        assert await asks(client, "growing", 1) == "4Gi"
        await upkeep(client, world, "growing")
        # More than the class allows is refused, and nothing grows.
        await client.patch(kinds.TENANTS, "growing", {"spec": {"controlPlane": {"storage": {"size": "17Gi"}}}})
        assert ready(await world.settle("growing")) == ("False", "OutOfBounds")
        assert await asks(client, "growing") == "4Gi"
        await take_down(world, "growing")
    await client.delete(kinds.TENANT_CLASSES, "growing")


async def test_a_class_that_asks_for_more_than_can_be_keeps_no_tenant_of_it_from_going_on(client: Client) -> None:
    await offer(client, "keeping", size="2Gi", className="storage-fixed")
    async with ControllerHost(client) as world:
        for name in ("keeping", "shrinking"):
            await ask(client, name, **{"class": "keeping"})
            await world.settle(name)
        await claim(client, "keeping", storage_class="storage-fixed")
        await claim(client, "shrinking", size="8Gi", storage_class="storage-fixed")
        await offer(client, "keeping", size="4Gi", className="storage-fast")
        status, reason, message = stored(await world.settle("keeping"))
        assert (status, reason) == ("False", "VolumeKept")
        assert "data-plane-0 stays at 2Gi: 4Gi is requested" in message
        assert "allowVolumeExpansion: true on StorageClass storage-fixed" in message
        assert "data-plane-0 stays in StorageClass storage-fixed: storage-fast is requested" in message
        assert "data-plane-0 stays at 8Gi: 4Gi is requested" in stored(await world.settle("shrinking"))[2]
        for name in ("keeping", "shrinking"):
            await upkeep(client, world, name)
            assert ready(await world.settle(name))[1] != "HostRefused"
        await client.patch(kinds.STORAGE_CLASSES, "storage-fixed", {"allowVolumeExpansion": True})
        await world.settle("keeping")
        assert await asks(client, "keeping") == "4Gi"
        for name in ("keeping", "shrinking"):
            await take_down(world, name)
    await client.delete(kinds.TENANT_CLASSES, "keeping")


async def replaced(client: Client, resource: Resource, name: str, namespace: str, **changes: Any) -> None:
    """Another object in its place, with other fields that never change."""
    there = await client.get(resource, name, namespace)
    await client.delete(resource, name, namespace)
    meta = {key: there["metadata"][key] for key in ("name", "namespace", "labels")}
    body = {key: value for key, value in there.items() if key not in {"metadata", "status"}}
    spec = {"spec": (there.get("spec") or {}) | changes.pop("spec")} if "spec" in changes else {}
    await client.create(resource, body | spec | changes | {"metadata": meta})


async def test_an_object_that_cannot_become_what_it_should_holds_up_nothing(client: Client) -> None:
    await offer(client, "stuck")
    async with ControllerHost(client) as world:
        await ask(client, "stuck", **{"class": "stuck"})
        await world.settle("stuck")
        bindings = await client.list(kinds.ROLE_BINDINGS, "bh-stuck-work")
        name = next(each["metadata"]["name"] for each in bindings.items if each["roleRef"]["name"] == "bulkhead-syncer-work")
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
        await replaced(client, kinds.ROLE_BINDINGS, name, "bh-stuck-work", roleRef=role)
        await world.caught_up()
        outcome = await world.reconciler.reconcile("stuck")
        assert outcome.again is not None
        assert 5 < outcome.again < 60
        tenant = await world.settle("stuck")
        assert ready(tenant) == ("False", "HostRefused")
        said = str(condition_of(tenant, "Ready")["message"])
        assert f"RoleBinding bh-stuck-work/{name} could not be updated" in said
        assert f"delete RoleBinding bh-stuck-work/{name}, which is recreated at once" in said
        await upkeep(client, world, "stuck")
        await client.delete(kinds.ROLE_BINDINGS, name, "bh-stuck-work")
        assert ready(await world.settle("stuck"))[1] != "HostRefused"
        # Of the StatefulSet everything else is applied all the same.
        await replaced(client, kinds.STATEFUL_SETS, "plane", "bh-stuck", spec={"serviceName": "older"})
        await upkeep(client, world, "stuck")
        assert (await client.get(kinds.STATEFUL_SETS, "plane", "bh-stuck"))["spec"]["serviceName"] == "older"
        assert ready(await world.settle("stuck"))[1] != "HostRefused"
        await take_down(world, "stuck")
    await client.delete(kinds.TENANT_CLASSES, "stuck")


async def test_a_tenant_that_was_never_built_is_not_built_beside_an_object_of_another_owner(client: Client) -> None:
    await offer(client, "half")
    async with ControllerHost(client) as world:
        tenant = await ask(client, "half", **{"class": "half"})
        marks = {labels.TENANT_UID: tenant["metadata"]["uid"]}
        for name in ("bh-half", "bh-half-work"):
            await client.create(
                kinds.NAMESPACES, {"metadata": {"name": name, "labels": labels.made_for("half"), "annotations": marks}}
            )
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
        await client.create(
            kinds.ROLE_BINDINGS, {"metadata": {"name": "controller-secrets", "namespace": "bh-half"}, "roleRef": role}
        )
        await world.caught_up()
        with pytest.raises(ReconcileFailed, match="cannot change roleRef"):
            await world.reconciler.reconcile("half")
        assert ready(await client.get(kinds.TENANTS, "half")) == ("False", "HostRefused")
        assert not (await client.list(kinds.STATEFUL_SETS, "bh-half")).items
        await take_down(world, "half")
    await client.delete(kinds.TENANT_CLASSES, "half")


def _claim(size: str = "1Gi", **more: Any) -> Obj:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"spec": spec | more}


def _pods(label: str) -> Obj:
    container = {"name": "main", "image": "example.org/none"}
    return {
        "selector": {"matchLabels": {"app": label}},
        "template": {"metadata": {"labels": {"app": label}}, "spec": {"containers": [container]}},
    }


_ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
_TEMPLATE = {"metadata": {"name": "data"}}
# Of each kind that is rendered for a tenant, on the host or in a plane, a field that never changes.
FIXED: dict[str, tuple[Resource, Obj, Obj]] = {
    "service": (
        kinds.SERVICES,
        {"spec": {"clusterIP": "10.96.7.7", "ports": [{"port": 80}]}},
        {"spec": {"clusterIP": "10.96.7.8", "ports": [{"port": 80}]}},
    ),
    "deployment": (kinds.DEPLOYMENTS, {"spec": _pods("a")}, {"spec": _pods("b")}),
    "statefulset": (
        kinds.STATEFUL_SETS,
        {"spec": _pods("a") | {"serviceName": "a", "volumeClaimTemplates": [_TEMPLATE | _claim()]}},
        {"spec": _pods("a") | {"serviceName": "a", "volumeClaimTemplates": [_TEMPLATE | _claim("2Gi")]}},
    ),
    "claim": (kinds.PERSISTENT_VOLUME_CLAIMS, _claim(storageClassName="a"), _claim(storageClassName="b")),
    "secret": (kinds.SECRETS, {"type": "Opaque"}, {"type": "example.org/other"}),
    "configmap": (kinds.CONFIG_MAPS, {"data": {"a": "1"}, "immutable": True}, {"data": {"a": "2"}}),
    "quota": (
        kinds.RESOURCE_QUOTAS,
        {"spec": {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}},
        {"spec": {"hard": {"pods": "1"}, "scopes": ["NotTerminating"]}},
    ),
    "rolebinding": (kinds.ROLE_BINDINGS, {"roleRef": _ROLE | {"name": "view"}}, {"roleRef": _ROLE | {"name": "edit"}}),
    "clusterrolebinding": (
        kinds.CLUSTER_ROLE_BINDINGS,
        {"roleRef": _ROLE | {"name": "view"}},
        {"roleRef": _ROLE | {"name": "edit"}},
    ),
}


@pytest.mark.parametrize("kind", FIXED)
async def test_every_api_servers_word_for_a_field_that_never_changes_is_known(client: Client, kind: str) -> None:
    resource, before, after = FIXED[kind]
    meta: Obj = {"name": f"fixed-{secrets.token_hex(4)}"} | ({"namespace": "default"} if resource.namespaced else {})
    await client.apply(resource, before | {"metadata": meta})
    with pytest.raises(ApiError) as refused:
        await client.apply(resource, after | {"metadata": meta})
    assert unchangeable(refused.value.status, refused.value.message), refused.value
    await client.delete(resource, meta["name"], meta.get("namespace"))


def test_a_write_that_is_wrong_in_itself_is_something_else() -> None:
    assert not unchangeable(422, 'Service "x" is invalid: spec.ports: Required value')
    assert not unchangeable(403, "admission webhook says that this field is immutable")
