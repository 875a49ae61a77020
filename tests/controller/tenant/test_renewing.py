"""The certificates of a plane whose Tenant is paused, or of an unknown class, are renewed, and nothing else changes."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.work.clock import SystemClock
from controller.pki.renewals import Renewals
from controller.plane.secrets import digest
from controller.plane.spec import LEAF_ANNOTATION
from tests.kit.controllerhost import ControllerHost, ask, fingerprint, ready, take_down
from tests.kit.tenantsamples import tenant_class

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]
RENEWED = {"pki-etcd", "pki-apiserver", "pki-controller-manager", "pki-syncer", "pki-dns"}


class LaterClock(SystemClock):
    """The time that it will be."""

    later = timedelta()

    def now(self) -> datetime:
        return super().now() + self.later


def paused() -> dict[str, Any]:
    return {"spec": {"pausedUntil": (datetime.now(UTC) + timedelta(days=10_000)).isoformat(timespec="seconds")}}


async def leaves(client: Client, name: str) -> dict[str, x509.Certificate]:
    """Every leaf certificate of a plane, by Secret and file."""
    found = {}
    for secret in RENEWED:
        data = (await client.get(kinds.SECRETS, secret, f"bh-{name}"))["data"]
        files = {file: base64.b64decode(content) for file, content in data.items()}
        for file, content in files.items():
            if file.endswith(".crt") and file.removesuffix(".crt") + ".key" in files:
                found[f"{secret}/{file}"] = x509.load_pem_x509_certificate(content)
        user = json.loads(files["kubeconfig"])["users"][0]["user"] if "kubeconfig" in files else {}
        if "client-certificate-data" in user:
            certificate = base64.b64decode(user["client-certificate-data"])
            found[f"{secret}/kubeconfig"] = x509.load_pem_x509_certificate(certificate)
    return found


def says(certificate: x509.Certificate) -> tuple[Any, ...]:
    """What a certificate says, but for its life and its key."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = None
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    return certificate.subject, certificate.issuer, names, usage


async def annotation(client: Client, name: str, deployment: str) -> str:
    found = await client.get(kinds.DEPLOYMENTS, deployment, f"bh-{name}")
    return str(found["spec"]["template"]["metadata"]["annotations"][LEAF_ANNOTATION])


async def annotate(client: Client, name: str, leaf: str) -> None:
    template = {"metadata": {"annotations": {LEAF_ANNOTATION: leaf}}}
    await client.patch(kinds.DEPLOYMENTS, "syncer", {"spec": {"template": template}}, f"bh-{name}")


async def digest_of_a_former_release(client: Client, name: str) -> str:
    """Of the certificate in the syncer's kubeconfig and the CA of servers, and of no more."""
    files = (await client.get(kinds.SECRETS, "pki-syncer", f"bh-{name}"))["data"]
    user = json.loads(base64.b64decode(files["kubeconfig"]))["users"][0]["user"]
    authority = (await client.get(kinds.SECRETS, "pki-ca-serving", f"bh-{name}"))["data"]["tls.crt"]
    return digest(base64.b64decode(user["client-certificate-data"]), base64.b64decode(authority))


async def refuse(client: Client, name: str, reason: str) -> None:
    if reason == "Paused":
        await client.patch(kinds.TENANTS, name, paused())
    else:
        await client.delete(kinds.TENANT_CLASSES, name)


@pytest.mark.parametrize("reason", ["Paused", "UnknownClass"])
async def test_what_would_expire_is_renewed_in_a_plane_that_is_not_looked_after(client: Client, reason: str) -> None:
    name, clock = f"renewed-{reason.lower()}", LaterClock()
    offer = tenant_class() | {"metadata": {"name": name}}
    await client.apply(kinds.TENANT_CLASSES, offer)
    await ask(client, name, **{"class": name})
    async with ControllerHost(client, clock=clock) as world:
        await world.settle(name)
        first, restarts = await leaves(client, name), await annotation(client, name, "syncer")
        assert len(first) == 10
        await refuse(client, name, reason)
        await client.delete(kinds.POD_DISRUPTION_BUDGETS, "plane", f"bh-{name}")
        assert ready(await world.settle(name)) == ("False", reason)
        assert await leaves(client, name) == first
        assert await annotation(client, name, "syncer") == restarts, "a pause alone restarts nothing"
        former = await digest_of_a_former_release(client, name)
        await annotate(client, name, former)
        await world.settle(name)
        assert await annotation(client, name, "syncer") == former, "neither does an upgrade"

        before = await fingerprint(client, name)
        clock.later = timedelta(days=61)
        assert ready(await world.settle(name)) == ("False", reason)
        second = await leaves(client, name)
        for each, certificate in first.items():
            assert second[each].not_valid_after_utc - certificate.not_valid_after_utc >= timedelta(days=60), each
            assert says(second[each]) == says(certificate), each
        # The syncer reads its kubeconfig once; nothing else was touched, and a deleted object does not return.
        assert await annotation(client, name, "syncer") != restarts
        after = await fingerprint(client, name)
        changed = {each[2] for each in set(after) ^ set(before)}
        assert changed == RENEWED | {"syncer"}
        await world.settle(name)
        assert await fingerprint(client, name) == after

        # The process died between the two: the second is done by the next.
        renewed = await annotation(client, name, "syncer")
        await annotate(client, name, restarts)
        await world.settle(name)
        assert await annotation(client, name, "syncer") == renewed

        # A year of pauses later the plane still has certificates; reconciled again, it keeps them.
        for days in range(122, 366, 61):
            clock.later = timedelta(days=days)
            await world.settle(name)
        third, last = await leaves(client, name), await annotation(client, name, "syncer")
        assert all(each.not_valid_after_utc > clock.now() for each in third.values())
        await client.patch(kinds.TENANTS, name, {"spec": {"pausedUntil": None}})
        await client.apply(kinds.TENANT_CLASSES, offer)
        await world.settle(name)
        assert await leaves(client, name) == third
        assert await annotation(client, name, "syncer") == last, "neither does its end"
        await client.get(kinds.POD_DISRUPTION_BUDGETS, "plane", f"bh-{name}")
        await take_down(world, name)


async def test_a_ca_that_ends_while_its_tenant_is_paused_is_told_in_time_and_nothing_that_is_broken_is_touched(
    client: Client,
) -> None:
    name, clock = "ending", LaterClock()
    await ask(client, name)
    async with ControllerHost(client, clock=clock) as world:
        await world.settle(name)
        await client.patch(kinds.TENANTS, name, paused())
        another = (await client.get(kinds.SECRETS, "pki-apiserver", f"bh-{name}"))["data"]["server.key"]
        broken = {"data": {"server.key": another}}
        await client.patch(kinds.SECRETS, "pki-etcd", broken, f"bh-{name}")
        authority = (await client.get(kinds.SECRETS, "pki-ca-client", f"bh-{name}"))["data"]
        clock.later = timedelta(days=5 * 365 - 80)
        found = await world.settle(name)
        message = next(each["message"] for each in found["status"]["conditions"] if each["type"] == "Ready")
        assert "CAs of the plane are replaced only while its Tenant is reconciled, and these expire: client (" in message
        assert (await client.get(kinds.SECRETS, "pki-ca-client", f"bh-{name}"))["data"] == authority
        assert (await client.get(kinds.SECRETS, "pki-etcd", f"bh-{name}"))["data"]["server.key"] == broken["data"]["server.key"]
        await client.patch(kinds.TENANTS, name, {"spec": {"pausedUntil": None}})
        await world.settle(name)
        assert (await client.get(kinds.SECRETS, "pki-ca-client", f"bh-{name}"))["data"] != authority
        await take_down(world, name)


async def test_of_tenants_whose_certificates_are_due_together_a_few_are_renewed_at_once(client: Client) -> None:
    name, clock = "later", LaterClock()
    await ask(client, name)
    given = {"leave": True}
    renewals = Renewals(clock, lambda: "" if given["leave"] else "the clock is wrong")
    async with ControllerHost(client, clock=clock, renewals=renewals) as world:
        await world.settle(name)
        first = await leaves(client, name)
        clock.later = timedelta(days=61)
        given["leave"] = False
        pauses: tuple[dict[str, Any], ...] = ({}, paused()["spec"])
        for pause in pauses:
            await client.patch(kinds.TENANTS, name, {"spec": {"pausedUntil": None} | pause})
            await world.caught_up()
            outcome = await world.reconciler.reconcile(name)
            assert outcome.again is not None
            assert outcome.again <= 30
            assert await leaves(client, name) == first
            said = (await client.get(kinds.TENANTS, name))["status"]["conditions"]
            told = next(each for each in said if each["type"] == ("Ready" if pause else "PKIReady"))
            assert "due and not renewed yet: the clock is wrong" in told["message"]
        given["leave"] = True
        await world.settle(name)
        second = await leaves(client, name)
        assert all(second[each] != certificate for each, certificate in first.items())
        await client.patch(kinds.TENANTS, name, {"spec": {"pausedUntil": None}})
        await take_down(world, name)
