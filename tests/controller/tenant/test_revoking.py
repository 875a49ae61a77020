"""What is revoked of a tenant that is paused or of an unknown class reaches its plane, and no more does, on a real server."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from controller.plane import authentication
from controller.plane.spec import LEAF_ANNOTATION
from controller.plane.ways import Revoked
from tests.kit.controllerhost import ControllerHost, ask, fingerprint, plane_pod, ready, take_down
from tests.kit.tenantsamples import tenant_class

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]
TOUCHED = {"pki-ca-users", "pki-apiserver", "plane-config"}
AUTHENTICATOR: Obj = {
    "issuer": {"url": "https://corp.example.org", "audiences": ["x"]},
    "claimMappings": {"username": {"claim": "sub", "prefix": "corp:"}, "groups": {"claim": "groups", "prefix": "corp:"}},
    "claimValidationRules": [{"claim": "hd", "requiredValue": "example.org"}],
}


def paused() -> dict[str, Any]:
    return {"pausedUntil": (datetime.now(UTC) + timedelta(hours=1)).isoformat(timespec="seconds")}


async def file_of(client: Client, tenant: str, secret: str, name: str) -> bytes:
    found = await client.get(kinds.SECRETS, secret, f"bh-{tenant}")
    return base64.b64decode(found["data"].get(name, ""))


async def trusted(client: Client, tenant: str) -> tuple[bytes, bytes]:
    """The CA of people, and whether the API server is told of it."""
    authority = await file_of(client, tenant, "pki-ca-users", "tls.crt")
    return authority, await file_of(client, tenant, "pki-apiserver", "client-ca.crt")


async def touched(client: Client, tenant: str) -> str:
    """For which version of the files the plane's pod was touched last."""
    found = await client.get(kinds.PODS, "plane-0", f"bh-{tenant}")
    return str((found["metadata"].get("annotations") or {}).get(LEAF_ANNOTATION, ""))


async def test_each_revocation_touches_the_planes_pod_once_also_of_a_tenant_that_is_paused(client: Client) -> None:
    name = "hastened"
    await ask(client, name)
    async with ControllerHost(client) as world:
        await world.settle(name)
        await plane_pod(client, name)
        await world.settle(name)
        seen = [await touched(client, name)]
        assert seen[0]
        config = {"data": {authentication.FILE: json.dumps({"kind": "AuthenticationConfiguration", "jwt": [AUTHENTICATOR]})}}
        steps: list[Obj] = [
            {"access": {"certificatesRevoked": "2026-11-24T05:00:00+00:00"}},
            paused(),
            {"access": {"certificatesRevoked": "2026-11-24T06:00:00+00:00"}},
            {"access": {"revoked": [{"kind": "User", "name": "corp:eve"}]}},
        ]
        for spec in steps:
            if spec is steps[-1]:
                await client.patch(kinds.CONFIG_MAPS, "plane-config", config, f"bh-{name}")
            await client.patch(kinds.TENANTS, name, {"spec": spec})
            await world.settle(name)
            seen.append(await touched(client, name))
        first, revoked, standing, again, tokens = seen
        assert len({first, revoked, again, tokens}) == 4, seen
        assert standing == revoked, "a pause touches nothing"
        before = await fingerprint(client, name)
        await world.settle(name)
        assert await fingerprint(client, name) == before
        await client.patch(kinds.TENANTS, name, {"spec": {"pausedUntil": None}})
        await take_down(world, name)


async def others(client: Client, name: str) -> list[tuple[str, str, str, str]]:
    return [each for each in await fingerprint(client, name) if each[2] not in TOUCHED]


@pytest.mark.parametrize("reason", ["Paused", "UnknownClass"])
async def test_certificates_are_revoked_in_a_plane_that_is_not_looked_after(client: Client, reason: str) -> None:
    name = f"revoked-{reason.lower()}"
    offer = tenant_class() | {"metadata": {"name": name}}
    await client.apply(kinds.TENANT_CLASSES, offer)
    await ask(client, name, **{"class": name})
    async with ControllerHost(client) as world:
        await world.settle(name)
        first, told = await trusted(client, name)
        components = told.removesuffix(first)
        assert told == components + first
        if reason == "Paused":
            await client.patch(kinds.TENANTS, name, {"spec": paused()})
        else:
            await client.delete(kinds.TENANT_CLASSES, name)
        assert ready(await world.settle(name)) == ("False", reason)
        # A refusal costs no write, and everything else stays: a deleted object does not return.
        before = await fingerprint(client, name)
        await world.settle(name)
        assert await fingerprint(client, name) == before
        await client.delete(kinds.POD_DISRUPTION_BUDGETS, "plane", f"bh-{name}")
        left = await others(client, name)

        await client.patch(kinds.TENANTS, name, {"spec": {"access": {"certificatesRevoked": "2026-11-24T05:00:00+00:00"}}})
        assert ready(await world.settle(name)) == ("False", reason)
        second, told = await trusted(client, name)
        assert second != first
        assert told == components + second
        assert await file_of(client, name, "pki-ca-users", "revoked") == b"2026-11-24T05:00:00+00:00"
        assert await others(client, name) == left
        # Once: the next look draws no other key.
        before = await fingerprint(client, name)
        await world.settle(name)
        assert await fingerprint(client, name) == before

        # The process died between the two: the second is done by the next.
        stale = {"data": {"client-ca.crt": base64.b64encode(components + first).decode()}}
        await client.patch(kinds.SECRETS, "pki-apiserver", stale, f"bh-{name}")
        await world.settle(name)
        assert await trusted(client, name) == (second, components + second)

        # Reconciled again, it has the same CA, and the deleted object returns.
        await client.patch(kinds.TENANTS, name, {"spec": {"pausedUntil": None}})
        await client.apply(kinds.TENANT_CLASSES, offer)
        await world.settle(name)
        assert await trusted(client, name) == (second, components + second)
        await client.get(kinds.POD_DISRUPTION_BUDGETS, "plane", f"bh-{name}")
        await take_down(world, name)


async def test_tokens_are_revoked_in_a_plane_that_is_not_reconciled_and_no_other_is_trusted(client: Client) -> None:
    await ask(client, "tokens")
    async with ControllerHost(client) as world:
        await world.settle("tokens")
        await client.patch(kinds.TENANTS, "tokens", {"spec": paused()})
        await world.settle("tokens")
        running = {"kind": "AuthenticationConfiguration", "jwt": [AUTHENTICATOR]}
        data = {"data": {authentication.FILE: json.dumps(running)}}
        await client.patch(kinds.CONFIG_MAPS, "plane-config", data, "bh-tokens")
        revoked = [
            {"kind": "User", "name": "corp:eve"},
            {"kind": "Group", "name": "corp:temps", "before": "2026-11-24T05:00:00Z"},
        ]
        await client.patch(kinds.TENANTS, "tokens", {"spec": {"access": {"revoked": revoked}}})
        await world.settle("tokens")
        config = await client.get(kinds.CONFIG_MAPS, "plane-config", "bh-tokens")
        told = json.loads(config["data"][authentication.FILE])
        assert "corp:eve" in str(told["jwt"][0]["userValidationRules"])
        assert "temps" in str(told["jwt"][0]["claimValidationRules"])
        assert told["jwt"][0]["claimValidationRules"][0] == AUTHENTICATOR["claimValidationRules"][0]
        before = await fingerprint(client, "tokens")
        await world.settle("tokens")
        assert await fingerprint(client, "tokens") == before
        # A tenant that withdraws it while it is paused is reconciled once the pause ends.
        await client.patch(kinds.TENANTS, "tokens", {"spec": {"access": {"revoked": None}}})
        await world.settle("tokens")
        assert await fingerprint(client, "tokens") == before
        await client.patch(kinds.TENANTS, "tokens", {"spec": {"pausedUntil": None}})
        await world.settle("tokens")
        await take_down(world, "tokens")


async def test_in_a_namespace_of_another_owner_nothing_is_touched(client: Client) -> None:
    await ask(client, "strayed")
    async with ControllerHost(client) as world:
        await world.settle("strayed")
        before = await trusted(client, "strayed")
        given = {"metadata": {"annotations": {labels.TENANT_UID: "another"}}}
        await client.patch(kinds.NAMESPACES, "bh-strayed", given)
        await client.patch(kinds.TENANTS, "strayed", {"spec": {"access": {"certificatesRevoked": "x"}}})
        await until_taken(world, "strayed")
        assert await trusted(client, "strayed") == before
        mine = (await client.get(kinds.TENANTS, "strayed"))["metadata"]["uid"]
        await client.patch(kinds.NAMESPACES, "bh-strayed", {"metadata": {"annotations": {labels.TENANT_UID: mine}}})
        await world.settle("strayed")
        assert (await trusted(client, "strayed"))[0] != before[0]
        await take_down(world, "strayed")


async def until_taken(world: ControllerHost, name: str) -> None:
    for _ in range(100):
        if ready(await world.settle(name)) == ("False", "NamespaceTaken"):
            return
    raise AssertionError("the namespace is still its own")


def test_a_rule_is_added_once_and_none_is_taken_out() -> None:
    running: Obj = {"jwt": [AUTHENTICATOR]}
    eve, temps = Revoked("User", "corp:eve"), Revoked("Group", "corp:temps", 5)
    once = authentication.with_revoked(running, (eve, temps))
    assert authentication.with_revoked(once, (eve, temps)) == once
    assert authentication.with_revoked(once, ()) == once
    more = authentication.with_revoked(once, (eve, temps, Revoked("User", "corp:mallory")))
    assert "corp:mallory" in str(more)
    for rule in (*once["jwt"][0]["userValidationRules"], *once["jwt"][0]["claimValidationRules"]):
        assert rule in (*more["jwt"][0]["userValidationRules"], *more["jwt"][0]["claimValidationRules"])
    assert running == {"jwt": [AUTHENTICATOR]}, "what runs is not changed in place"
    assert authentication.with_revoked({"kind": "x"}, (eve,)) == {"kind": "x"}
