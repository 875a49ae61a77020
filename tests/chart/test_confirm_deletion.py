"""A Tenant whose class asks for a confirmation is deleted with it alone, on a real API server with the chart's policies.

Each refusal is tried beside a deletion that is let through, and the policy is taken away once, so that the same one passes.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bulkhead.api import labels
from bulkhead.api.labels import ASKS, CONFIRM, CONFIRMED_ONLY
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, NotFound
from bulkhead.kube.objects import Resource
from bulkhead.kube.resources import VALIDATING_ADMISSION_POLICIES as POLICIES
from bulkhead.kube.resources import VALIDATING_ADMISSION_POLICY_BINDINGS as BINDINGS
from tests.kit.crds import install
from tests.kit.helmchart import rendered
from tests.kit.known import IN_FORCE
from tests.kit.servers import ApiServer, by_token
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import tenant, tenant_class

pytestmark = [pytest.mark.apiserver, pytest.mark.charts]
NAMES = ("bulkhead-confirm-deletion", "bulkhead-confirm-namespaces")
CONTROLLER = "system:serviceaccount:bulkhead-system:bulkhead-controller"


@pytest.fixture
async def admin(guarded_server: ApiServer) -> AsyncIterator[Client]:
    """The policies, and two classes, of which asking asks for a confirmation."""
    async with Client(by_token(guarded_server.admin), user_agent="tests", field_manager="tests") as client:
        await install(client)
        for name, asks in (("asking", True), ("lenient", False)):
            made = tenant_class(deletion={"confirm": asks}) | {"metadata": {"name": name}}
            await client.apply(kinds.TENANT_CLASSES, made)
        for obj in rendered():
            if obj["metadata"]["name"] in NAMES:
                await client.apply(POLICIES if obj["kind"] == "ValidatingAdmissionPolicy" else BINDINGS, obj)
        yield client
        for there in (await client.list(kinds.TENANTS)).items:
            await client.patch(kinds.TENANTS, there["metadata"]["name"], confirming(there))
            with contextlib.suppress(NotFound):
                await client.delete(kinds.TENANTS, there["metadata"]["name"])


def confirming(obj: Any) -> Any:
    return {"metadata": {"annotations": {CONFIRM: obj["metadata"]["uid"]}}}


def another(uid: str) -> str:
    """A UID that differs in one character."""
    return ("2" if uid.startswith("1") else "1") + uid[1:]


async def ask(client: Client, name: str, **spec: Any) -> Any:
    made = tenant(name, **({"class": "asking"} | spec)) | {"metadata": {"name": name}}
    return await client.apply(kinds.TENANTS, made)


async def refused(client: Client, resource: Resource, name: str = "") -> str:
    """The refusal; a dry run, because the server learns of policies and classes by watches."""

    async def no() -> str | None:
        try:
            await client.transport.request("DELETE", resource.path(None, name), params={"dryRun": "All"})
        except ApiError as error:
            return str(error)
        return None

    found: str = await until(no, f"{resource.kind} {name} to be kept", IN_FORCE)
    return found


async def test_without_the_annotation_a_tenant_stays_and_the_refusal_says_what_to_type(admin: Client) -> None:
    made = await ask(admin, "team-a")
    uid = made["metadata"]["uid"]
    told = await refused(admin, kinds.TENANTS, "team-a")
    assert "Tenant team-a was not deleted: its class asking asks for a confirmation" in told
    assert "`bulkhead tenant delete team-a`" in told
    assert f"`kubectl annotate tenant team-a bulkhead.dev/confirm-deletion={uid}`" in told
    with pytest.raises(ApiError, match="asks for a confirmation"):
        await admin.delete(kinds.TENANTS, "team-a")
    # The UID of the Tenant that had the name before, or of another, confirms nothing.
    await admin.patch(kinds.TENANTS, "team-a", {"metadata": {"annotations": {CONFIRM: another(uid)}}})
    with pytest.raises(ApiError, match="asks for a confirmation"):
        await admin.delete(kinds.TENANTS, "team-a")
    await admin.patch(kinds.TENANTS, "team-a", confirming(made))
    await admin.delete(kinds.TENANTS, "team-a")
    with pytest.raises(NotFound):
        await admin.get(kinds.TENANTS, "team-a")


async def test_a_class_that_does_not_ask_lets_its_tenants_go(admin: Client) -> None:
    await ask(admin, "team-b", **{"class": "lenient"})
    await ask(admin, "team-c")
    await refused(admin, kinds.TENANTS, "team-c")
    await admin.delete(kinds.TENANTS, "team-b")


async def test_who_prunes_many_at_once_deletes_those_alone_that_may_go(admin: Client) -> None:
    for number in range(20):
        await ask(admin, f"many-{number}")
    await ask(admin, "free", **{"class": "lenient"})
    await refused(admin, kinds.TENANTS, "many-19")
    # All in one request.
    with contextlib.suppress(ApiError):
        await admin.transport.request("DELETE", kinds.TENANTS.path(None))
    left = {left["metadata"]["name"] for left in (await admin.list(kinds.TENANTS)).items}
    assert {f"many-{number}" for number in range(20)} <= left


async def test_what_a_tenant_was_built_of_counts_and_a_deletion_may_be_repeated(admin: Client) -> None:
    made = await ask(admin, "team-d", **{"class": "lenient"})
    status = {"class": {"name": "asking", "uid": "1", "generation": 1, "spec": {}}}
    await admin.patch(kinds.TENANTS, "team-d", {"status": status}, subresource="status")
    await refused(admin, kinds.TENANTS, "team-d")
    await admin.patch(kinds.TENANTS, "team-d", confirming(made))
    await admin.patch(kinds.TENANTS, "team-d", {"metadata": {"finalizers": ["bulkhead.dev/teardown"]}})
    await admin.delete(kinds.TENANTS, "team-d")
    await admin.patch(kinds.TENANTS, "team-d", {"metadata": {"annotations": {CONFIRM: None}}})
    await admin.delete(kinds.TENANTS, "team-d")
    await admin.patch(kinds.TENANTS, "team-d", {"metadata": {"finalizers": None}})


async def test_its_namespaces_stay_too_unless_the_controller_deletes_them(admin: Client, guarded_server: ApiServer) -> None:
    for name, marks in (("bh-kept", {CONFIRMED_ONLY: ASKS}), ("bh-kept-work", {CONFIRMED_ONLY: ASKS}), ("bh-loose", {})):
        meta = {"name": name, "labels": labels.made_for(name.removeprefix("bh-").removesuffix("-work")), "annotations": marks}
        made = await admin.create(kinds.NAMESPACES, {"metadata": meta})
    told = await refused(admin, kinds.NAMESPACES, "bh-kept")
    assert "namespace bh-kept was not deleted: it is of tenant kept" in told
    assert "`bulkhead tenant delete kept`" in told
    await admin.delete(kinds.NAMESPACES, "bh-loose")
    with pytest.raises(ApiError, match="asks for a confirmation"):
        await admin.delete(kinds.NAMESPACES, "bh-kept")
    made = await admin.get(kinds.NAMESPACES, "bh-kept-work")
    await admin.patch(kinds.NAMESPACES, "bh-kept-work", confirming(made))
    await admin.delete(kinds.NAMESPACES, "bh-kept-work")
    async with Client(
        guarded_server.config_for(CONTROLLER, "system:masters"), user_agent="tests", field_manager="tests"
    ) as controller:
        await controller.delete(kinds.NAMESPACES, "bh-kept")


async def test_it_is_the_policy_that_keeps_them(admin: Client) -> None:
    await ask(admin, "team-e")
    await refused(admin, kinds.TENANTS, "team-e")
    await admin.delete(BINDINGS, NAMES[0])

    async def gone() -> bool:
        try:
            await admin.delete(kinds.TENANTS, "team-e")
        except NotFound:
            return True
        except ApiError:
            return False
        return True

    await until(gone, "the Tenant to go", IN_FORCE)
