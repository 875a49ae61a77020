"""Which Tenants use a class, on a real API server: noted, kept right against any writer, and not news to those tenants."""

import secrets
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.resources import TENANT_CLASSES, TENANTS
from controller.handlers import Events
from controller.host import classusers
from controller.host.classusers import ClassUsers, of_class, of_tenant, statuses
from controller.host.matters import keeping
from tests.kit.crds import install
from tests.kit.leading import leading
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import tenant_class


def test_of_many_users_the_first_are_named_and_all_are_counted() -> None:
    uses = [(f"t{number}", ["gold"]) for number in (9, 3, 7, 1, 5, 2)] + [("other", ["silver", "gold"]), ("none", [])]
    assert statuses(uses) == {
        "gold": {"tenants": 7, "tenantNames": ["other", "t1", "t2", "t3", "t5"]},
        "silver": {"tenants": 1, "tenantNames": ["other"]},
    }


def test_little_is_kept_of_a_tenant() -> None:
    body: dict[str, Any] = {
        "metadata": {"name": "a", "annotations": {"x": "y" * 9999}},
        "spec": {"class": "gold", "access": {"admins": ["x" * 9999]}},
        "status": {"class": {"name": "silver", "spec": {"x": "y" * 9999}}},
    }
    kept_of, of_a_class = keeping(of_tenant), keeping(of_class)
    meta, kept = kept_of(msgspec.json.encode(body), None)
    assert (meta.name, meta.annotations, kept) == ("a", None, b'{"uses":["gold","silver"]}')
    body["metadata"]["deletionTimestamp"] = "2026-06-01T12:00:00Z"
    assert kept_of(msgspec.json.encode(body), None)[1] == b'{"uses":[]}'
    assert kept_of(b'{"metadata":{"name":"a"},"spec":7}', None)[1] == b'{"uses":[]}'
    assert of_a_class(b'{"metadata":{"name":"a"},"spec":{"x":1}}', None)[1] == b'{"status":{}}'


def test_the_users_of_a_class_are_not_news_to_its_tenants() -> None:
    told: list[str] = []
    events = Events(told.append)
    events.tenant(name="a", spec={"class": "gold"}, type=None)

    def heard(type_: str | None, generation: int, uid: str = "1") -> int:
        before = len(told)
        events.tenant_class(name="gold", meta={"uid": uid, "generation": generation}, type=type_)
        return len(told) - before

    assert [heard(None, 1), heard("MODIFIED", 1), heard("MODIFIED", 2), heard("MODIFIED", 2)] == [1, 0, 1, 0]
    assert [heard("ADDED", 1, "2"), heard("DELETED", 1, "2"), heard("ADDED", 1, "2")] == [1, 1, 1]


class Host:
    """Two classes and their tenants."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.mark = f"u{secrets.token_hex(4)}"
        self.gold, self.silver = f"{self.mark}-gold", f"{self.mark}-silver"

    async def ask(self, name: str, used: str) -> None:
        spec = {"class": used, "scheduling": {"mode": "Kubernetes"}}
        meta = {"name": f"{self.mark}-{name}"}
        await self.client.apply(
            TENANTS, {"apiVersion": "bulkhead.dev/v1alpha1", "kind": "Tenant", "metadata": meta, "spec": spec}
        )

    async def says(self, used: str, number: int, *names: str) -> Obj:
        async def so() -> Obj | None:
            found = await self.client.get(TENANT_CLASSES, used)
            status = found.get("status") or {}
            wanted = [f"{self.mark}-{name}" for name in names]
            return found if (status.get("tenants", 0), status.get("tenantNames") or []) == (number, wanted) else None

        found: Obj = await until(so, f"{used} to have {number} users: {names}")
        return found


@pytest.fixture
async def host(host_client: Client, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    monkeypatch.setattr(classusers, "_RECOUNT_PAUSE_SECONDS", 0.05)
    await install(host_client)
    made = Host(host_client)
    for name in (made.gold, made.silver):
        await host_client.apply(TENANT_CLASSES, tenant_class() | {"metadata": {"name": name}})
    yield made
    for each in (await host_client.list(TENANTS)).items:
        if each["metadata"]["name"].startswith(made.mark):
            await host_client.delete(TENANTS, each["metadata"]["name"])
    for name in (made.gold, made.silver):
        await host_client.delete(TENANT_CLASSES, name)


@pytest.mark.apiserver
async def test_a_class_says_who_uses_it(host: Host) -> None:
    await host.ask("a", host.gold)
    async with leading(ClassUsers(host.client)):
        before = await host.says(host.gold, 1, "a")
        for name in ("b", "c", "d", "e", "f"):
            await host.ask(name, host.gold)
        after = await host.says(host.gold, 6, "a", "b", "c", "d", "e")
        # It is not a new generation of the class for that.
        assert after["metadata"]["generation"] == before["metadata"]["generation"]
        await host.client.delete(TENANTS, f"{host.mark}-a")
        await host.says(host.gold, 5, "b", "c", "d", "e", "f")
        # Another client's change is corrected, and so is a change made while no controller led.
        await host.client.patch(TENANT_CLASSES, host.silver, {"status": {"tenants": 7}}, subresource="status")
        await host.says(host.silver, 0)
    await host.ask("g", host.silver)
    await host.client.delete(TENANTS, f"{host.mark}-b")
    async with leading(ClassUsers(host.client)):
        await host.says(host.silver, 1, "g")
        await host.says(host.gold, 4, "c", "d", "e", "f")
