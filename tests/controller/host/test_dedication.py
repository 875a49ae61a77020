"""Dedicated nodes on a real API server: taken, emptied, given back, whichever process dies on the way."""

import secrets
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.objects import Key
from bulkhead.kube.resources import NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PODS, TENANT_CLASSES, TENANTS
from controller.decide.dedicated import KEY, Finding
from controller.host import dedication
from controller.host.dedication import Dedication
from controller.settings import Settings
from tests.kit.crds import install
from tests.kit.leading import leading
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import tenant_class

GPU = {"key": "gpu", "value": "1", "effect": "NoSchedule"}
Marks = tuple[str | None, str | None]


class Host:
    """Two nodes of one pool, and a class whose tenants may have two nodes."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.mark = f"d{secrets.token_hex(4)}"
        self.nodes = [f"{self.mark}-{number}" for number in range(2)]
        self.red, self.blue = f"{self.mark}-red", f"{self.mark}-blue"

    def leader(self, on_tenant: Callable[[str], object] = lambda _: None) -> Dedication:
        return Dedication(self.client, Settings(), on_tenant)

    async def ask(self, name: str, **selector: str) -> None:
        nodes = {"dedicated": True, "selector": {"pool": self.mark} | selector}
        spec = {"class": self.mark, "nodes": nodes, "scheduling": {"mode": "Kubernetes"}}
        body = {"apiVersion": "bulkhead.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": name}, "spec": spec}
        await self.client.apply(TENANTS, body)

    async def run(self, name: str, tenant: str) -> None:
        meta = {"name": name, "labels": {KEY: tenant}}
        container = {"name": "main", "image": "busybox:1.36"}
        spec = {"containers": [container], "nodeName": self.nodes[0], "tolerations": [{"operator": "Exists"}]}
        await self.client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, self.mark)

    async def bears(self, *wanted: Marks) -> None:
        """Wait until the nodes have these marks: taint and label."""

        async def so() -> bool:
            return [_marks(await self.client.get(NODES, name)) for name in self.nodes] == list(wanted)

        await until(so, f"marks {wanted}")

    async def told(self, leader: Dedication, tenant: str, *words: str) -> Finding:
        async def so() -> Finding | None:
            found = leader.finding(await self.client.get(TENANTS, tenant))
            said = found and (found.refusing.message if found.refusing else found.message())
            return found if said and all(word in said for word in words) else None

        found: Finding = await until(so, f"{tenant} to be told {words}")
        return found


def _marks(node: Obj) -> Marks:
    taints = [each for each in node["spec"].get("taints") or () if each["key"] == KEY]
    assert GPU in [{key: each.get(key) for key in GPU} for each in node["spec"]["taints"]]
    return (taints[0]["value"] if taints else None), (node["metadata"].get("labels") or {}).get(KEY)


@pytest.fixture
async def host(host_client: Client, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    monkeypatch.setattr(dedication, "_RECOUNT_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(dedication, "_LOOK_AGAIN_SECONDS", 0.2)
    made = Host(host_client)
    await install(host_client)
    await host_client.create(NAMESPACES, {"metadata": {"name": made.mark}})
    spec: dict[str, Any] = tenant_class(nodes={"maxDedicated": 2})
    await host_client.apply(TENANT_CLASSES, spec | {"metadata": {"name": made.mark}})
    for number, name in enumerate(made.nodes):
        labels = {"pool": made.mark, "number": str(number)}
        await host_client.create(NODES, {"metadata": {"name": name, "labels": labels}, "spec": {"taints": [GPU]}})
    yield made
    for tenant in (made.red, made.blue):
        await host_client.delete(TENANTS, tenant)
    for each in (await host_client.list(PODS, made.mark)).items:
        await host_client.delete(PODS, each["metadata"]["name"], made.mark, grace_seconds=0)
    for claim in (await host_client.list(PERSISTENT_VOLUME_CLAIMS, made.mark)).items:
        await host_client.patch(
            PERSISTENT_VOLUME_CLAIMS, claim["metadata"]["name"], {"metadata": {"finalizers": None}}, made.mark
        )
        await host_client.delete(PERSISTENT_VOLUME_CLAIMS, claim["metadata"]["name"], made.mark)
    for name in made.nodes:
        await host_client.delete(NODES, name)
    await host_client.delete(TENANT_CLASSES, made.mark)


async def test_a_pool_becomes_one_tenants_when_the_others_have_left_and_goes_back(host: Host) -> None:
    await host.run("stays", host.blue)
    await host.run("own", host.red)
    async with leading(host.leader()) as leader:
        await host.ask(host.red)
        await host.bears((host.red, None), (host.red, host.red))
        found = await host.told(leader, host.red, "1 nodes", f"{host.nodes[0]} (1 of tenant {host.blue})")
        assert not found.complete
        await host.client.delete(PODS, "stays", host.mark, grace_seconds=0)
        await host.bears((host.red, host.red), (host.red, host.red))
        assert (await host.told(leader, host.red, "2 nodes")).complete
        await host.client.patch(TENANTS, host.red, {"spec": {"nodes": {"dedicated": None}}})
        await host.bears((None, None), (None, None))


async def test_a_node_that_another_tenants_pod_has_chosen_for_its_volume_is_not_empty(host: Host) -> None:
    """The pod has no node yet, and is bound there whatever the taint says by then."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "slow"}
    meta = {"name": "data", "labels": {KEY: host.blue}, "annotations": {"volume.kubernetes.io/selected-node": host.nodes[0]}}
    await host.client.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": meta, "spec": spec}, host.mark)
    async with leading(host.leader()) as leader:
        await host.ask(host.red)
        await host.bears((host.red, None), (host.red, host.red))
        await host.told(leader, host.red, f"{host.nodes[0]} (1 of tenant {host.blue})")
        await host.run("bound", host.blue)
        done = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
        await host.client.patch(PERSISTENT_VOLUME_CLAIMS, "data", done, host.mark)
        await host.told(leader, host.red, f"{host.nodes[0]} (1 of tenant {host.blue})")
        await host.client.delete(PODS, "bound", host.mark, grace_seconds=0)
        await host.bears((host.red, host.red), (host.red, host.red))


async def test_a_finding_that_is_as_before_is_told_again_after_an_edit(host: Host) -> None:
    heard: list[str] = []
    async with leading(host.leader(heard.append)) as leader:
        await host.ask(host.red)
        await host.bears((host.red, host.red), (host.red, host.red))
        before = await host.told(leader, host.red, "2 nodes")
        heard.clear()
        await host.client.patch(TENANTS, host.red, {"spec": {"isolation": {"podSecurity": "restricted"}}})

        async def told() -> bool:
            return host.red in heard

        await until(told, "the tenant to be looked at again")
        assert leader.finding(await host.client.get(TENANTS, host.red)) == before


async def test_what_a_dead_controller_left_is_given_back_by_the_next(host: Host) -> None:
    async with leading(host.leader()):
        await host.ask(host.red)
        await host.bears((host.red, host.red), (host.red, host.red))
    await host.client.delete(TENANTS, host.red)
    await host.ask(host.blue, number="1")
    async with leading(host.leader()):
        await host.bears((None, None), (host.blue, host.blue))
        # By an outside hand.
        await host.client.patch(NODES, host.nodes[1], {"spec": {"taints": [GPU]}})
        await host.client.patch(NODES, host.nodes[0], {"metadata": {"labels": {KEY: "nobody"}}})
        await host.bears((None, None), (host.blue, host.blue))


async def test_the_second_on_a_pool_is_refused_until_the_first_has_left_it(host: Host) -> None:
    async with leading(host.leader()) as leader:
        await host.ask(host.red, number="0")
        await host.bears((host.red, host.red), (None, None))
        await host.ask(host.blue)
        found = await host.told(leader, host.blue, "overlaps", host.red, host.nodes[0])
        assert found.refusing is not None
        await host.bears((host.red, host.red), (None, None))
        await host.client.delete(TENANTS, host.red)
        await host.bears((host.blue, host.blue), (host.blue, host.blue))


async def test_a_claim_that_the_class_no_longer_allows_keeps_what_it_has(host: Host) -> None:
    async with leading(host.leader()):
        await host.ask(host.red)
        await host.bears((host.red, host.red), (host.red, host.red))
        await host.client.patch(TENANT_CLASSES, host.mark, {"spec": {"nodes": {"maxDedicated": None}}})
        await host.client.patch(NODES, host.nodes[1], {"metadata": {"labels": {"pool": "left"}}})
        await host.bears((host.red, host.red), (host.red, host.red))
        await host.client.patch(TENANT_CLASSES, host.mark, {"spec": {"nodes": {"maxDedicated": 2}}})
        await host.bears((host.red, host.red), (None, None))


async def test_what_is_reported_of_a_tenant_has_no_other_judged_again(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []
    claim_of = dedication.claim_of

    def counted(tenant: Obj, *others: Any) -> Any:
        judged.append(tenant["metadata"]["name"])
        return claim_of(tenant, *others)

    monkeypatch.setattr(dedication, "claim_of", counted)
    crowd = [f"{host.mark}-crowd-{number}" for number in range(8)]
    async with leading(host.leader()) as leader:
        for name in (host.red, *crowd):
            await host.ask(name, number="1")
        for name in (host.red, *crowd):
            await host.told(leader, name)
        judged.clear()
        for number in range(3):
            for name in crowd:
                message = {"type": "Ready", "status": "False", "reason": "Restarting", "message": f"look {number}"}
                moment = {"lastTransitionTime": "2026-06-01T12:00:00Z", "observedGeneration": 1}
                body = {"status": {"conditions": [message | moment]}}
                await host.client.patch(TENANTS, name, body, subresource="status")
        # Changes arrive in order: once the informer has this one, it has all earlier ones.
        await host.ask(host.red, number="0")

        async def looked() -> bool:
            return host.red in judged

        await until(looked, "the tenant that was changed to be judged")
        assert set(judged) == {host.red}
        # News for a claim is a change that it depends on, and nothing else: a class of one of its tenants, and a tenant that
        # was built.
        judged.clear()
        built = {"status": {"class": {"name": host.mark, "uid": "u", "generation": 1, "spec": {}}}}
        await host.client.patch(TENANTS, crowd[0], built, subresource="status")

        async def built_is_seen() -> bool:
            return crowd[0] in judged

        await until(built_is_seen, "the tenant that was built to be judged")
        assert set(judged) == {crowd[0]}
        judged.clear()
        await host.client.patch(TENANT_CLASSES, host.mark, {"spec": {"nodes": {"maxDedicated": 1}}})

        async def all_judged() -> bool:
            return set(judged) == {host.red, *crowd}

        await until(all_judged, "all tenants of the class to be judged")
        for name in crowd:
            await host.client.delete(TENANTS, name)


async def test_a_tenant_that_cannot_be_judged_keeps_its_nodes_and_stops_no_other(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with leading(host.leader()):
        await host.ask(host.red, number="0")
        await host.bears((host.red, host.red), (None, None))
    claim_of = dedication.claim_of

    def broken(tenant: Obj, *others: Any) -> Any:
        if tenant["metadata"]["name"] == host.red:
            raise ZeroDivisionError
        return claim_of(tenant, *others)

    monkeypatch.setattr(dedication, "claim_of", broken)
    async with leading(host.leader()) as leader:
        await host.ask(host.blue, number="1")
        await host.bears((host.red, host.red), (host.blue, host.blue))
        assert leader.finding(await host.client.get(TENANTS, host.red)) is None


def test_a_pause_that_ends_is_judged_again() -> None:
    ends, classes = datetime(2026, 6, 1, 13, tzinfo=UTC), SimpleNamespace(body={Key("", "c"): b"c"}.get)
    seen = ((classes, Key("", "c"), b"c"),)
    paused = dedication._Judged(b"t", seen, None, ends, True, dedication.Claimed(None), ("", 0))  # type: ignore[arg-type]
    assert paused.holds(b"t", None, ends.replace(hour=12))
    assert not paused.holds(b"t", None, ends)
    assert not paused.holds(b"u", None, ends.replace(hour=12))
    assert not paused.holds(b"t", {"spec": {}}, ends.replace(hour=12))
    # One whose end cannot be read does not end by itself.
    odd = dedication._Judged(b"t", seen, None, None, True, dedication.Claimed(None), ("", 0))  # type: ignore[arg-type]
    assert odd.holds(b"t", None, ends)
    classes.body = {Key("", "c"): b"d"}.get
    assert not paused.holds(b"t", None, ends.replace(hour=12))
