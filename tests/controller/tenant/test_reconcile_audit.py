"""The credential of an audit trail's receiver on a real API server: it reaches the plane, follows its source, and goes."""

from base64 import b64encode

import pytest

from bulkhead.api.conditions import ConditionType, find_condition
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from controller.host.auditreceivers import AuditReceivers
from tests.kit.controllerhost import ControllerHost, ask, fingerprint
from tests.kit.crds import install
from tests.kit.pki import Authority
from tests.kit.tenantsamples import WEBHOOK, tenant_class

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]
SPACE, NAME = "bulkhead-shared", "sends"


def token(text: str) -> str:
    return b64encode(text.encode()).decode()


async def source(client: Client, text: str, type_: str = "bulkhead.dev/audit-receiver") -> None:
    meta = {"name": "receiver", "namespace": SPACE}
    await client.apply(kinds.SECRETS, {"metadata": meta, "type": type_, "data": {"token": token(text)}})


async def copy(client: Client) -> dict[str, str]:
    return dict((await client.get(kinds.SECRETS, "audit-receiver", f"bh-{NAME}"))["data"])


def said(tenant: Obj) -> str:
    condition = find_condition(tenant["status"]["conditions"], ConditionType.AUDIT_DELIVERED)
    return f"{condition['reason']}: {condition['message']}" if condition else ""


async def template(client: Client) -> Obj:
    return dict((await client.get(kinds.STATEFUL_SETS, "plane", f"bh-{NAME}"))["spec"]["template"])


async def test_a_credential_comes_changes_and_goes(host_client: Client) -> None:
    client = host_client
    await install(client)
    await client.apply(kinds.NAMESPACES, {"metadata": {"name": SPACE}})
    webhook = WEBHOOK | {"certificateAuthority": Authority("receiver-ca").pem.decode()}
    offer = {"metadata": {"name": "sending"}}
    await client.apply(kinds.TENANT_CLASSES, tenant_class(audit={"webhook": webhook}) | offer)
    await ask(client, NAME, **{"class": "sending"})
    woken: list[str] = []
    receivers = AuditReceivers(client, SPACE, woken.append)
    async with ControllerHost(client, receivers=receivers) as world:
        # Without the Secret the plane is created all the same, with a credential that no receiver accepts.
        tenant = await world.settle(NAME)
        assert "ReceiverUnusable: Secret receiver in namespace bulkhead-shared" in said(tenant)
        assert "events are sent without one" in said(tenant)
        assert (await copy(client))["token"] == token("no-credential-is-known")
        before = await template(client)
        await source(client, "first")
        receivers.changed("of-others")
        assert woken == []
        receivers.changed("receiver")
        assert woken == [NAME]
        tenant = await world.settle(NAME)
        assert (await copy(client))["token"] == token("first")
        assert "ReceiverUnusable" not in said(tenant)
        # One that is not usable, or gone, leaves what the plane has.
        await client.delete(kinds.SECRETS, "receiver", SPACE)
        await source(client, "second", "Opaque")
        assert "could be shared with tenants" in said(await world.settle(NAME))
        await client.delete(kinds.SECRETS, "receiver", SPACE)
        assert "the previous credential is used" in said(await world.settle(NAME))
        assert (await copy(client))["token"] == token("first")
        # None of this restarted the plane, and at rest nothing is written.
        assert await template(client) == before
        rest = await fingerprint(client, NAME)
        await world.reconciler.reconcile(NAME)
        assert await fingerprint(client, NAME) == rest
        await client.patch(kinds.TENANT_CLASSES, "sending", {"spec": {"audit": None}})
        tenant = await world.settle(NAME)
        assert said(tenant) == ""
        assert await template(client) != before
        with pytest.raises(NotFound):
            await copy(client)
