"""Classes and cohorts that Tenants use do not go from under them, on a real API server with the chart's policy.

Each refusal is tried beside a deletion that is let through; and the policy is taken away once, so that the same one passes.
"""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, NotFound
from bulkhead.kube.objects import Resource
from bulkhead.kube.resources import VALIDATING_ADMISSION_POLICIES as POLICIES
from bulkhead.kube.resources import VALIDATING_ADMISSION_POLICY_BINDINGS as BINDINGS
from controller.host.classusers import statuses
from tests.kit.crds import install, served
from tests.kit.helmchart import CHART, helm, rendered
from tests.kit.known import IN_FORCE
from tests.kit.kubeconfigs import to_yaml
from tests.kit.servers import ApiServer, by_token
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import tenant, tenant_class

pytestmark = pytest.mark.apiserver
NAME = "bulkhead-in-use"
OFFERED = ("gold", "silver")


@pytest.fixture
async def admin(guarded_server: ApiServer) -> AsyncIterator[Client]:
    """The policy, two classes and two cohorts, which all go at the end, with whatever Tenants there are."""
    async with Client(by_token(guarded_server.admin), user_agent="tests", field_manager="tests") as client:
        await install(client)
        for name in OFFERED:
            await client.apply(kinds.TENANT_CLASSES, tenant_class() | {"metadata": {"name": name}})
            await client.apply(kinds.COHORTS, {"metadata": {"name": name}, "spec": {}})
        for obj in rendered():
            if obj["metadata"]["name"] == NAME:
                await client.apply(POLICIES if obj["kind"] == "ValidatingAdmissionPolicy" else BINDINGS, obj)
        yield client
        for there in (await client.list(kinds.TENANTS)).items:
            name = there["metadata"]["name"]
            await client.patch(kinds.TENANTS, name, {"metadata": {"finalizers": None}})
            with contextlib.suppress(NotFound):
                await client.delete(kinds.TENANTS, name)
        for name in OFFERED:
            await free(client, kinds.TENANT_CLASSES, name)
            await free(client, kinds.COHORTS, name)


async def ask(client: Client, name: str, **spec: Any) -> None:
    await client.apply(kinds.TENANTS, tenant(name, **({"class": "gold"} | spec)) | {"metadata": {"name": name}})


async def refused(client: Client, resource: Resource, name: str) -> str:
    """The refusal of its deletion; a dry run, because the server learns of both policies and Tenants by watches."""

    async def no() -> str | None:
        try:
            await client.transport.request("DELETE", resource.path(None, name), params={"dryRun": "All"})
        except ApiError as error:
            return str(error)
        return None

    found: str = await until(no, f"{resource.kind} {name} to be kept", IN_FORCE)
    return found


async def free(client: Client, resource: Resource, name: str) -> None:
    async def gone() -> bool:
        try:
            await client.delete(resource, name)
        except NotFound:
            return True
        except ApiError:
            return False
        return True

    await until(gone, f"{resource.kind} {name} to go", IN_FORCE)


async def test_a_class_in_use_stays_and_says_whose_it_is(admin: Client) -> None:
    await ask(admin, "team-a")
    said = await refused(admin, kinds.TENANT_CLASSES, "gold")
    assert "TenantClass gold is in use by Tenant team-a: it was not deleted" in said
    assert "`bulkhead tenant delete team-a`" in said
    with pytest.raises(ApiError, match="is in use by"):
        await admin.delete(kinds.TENANT_CLASSES, "gold")
    # A class without users can be deleted, and one that stays can be changed.
    await admin.delete(kinds.TENANT_CLASSES, "silver")
    await admin.patch(kinds.TENANT_CLASSES, "gold", {"spec": {"description": "the best"}})
    await admin.delete(kinds.TENANTS, "team-a")
    await free(admin, kinds.TENANT_CLASSES, "gold")


async def test_of_many_users_the_first_are_named(admin: Client) -> None:
    users = [f"team-{number}" for number in range(9)]
    for name in users:
        await ask(admin, name)
    status = statuses([(name, ["gold"]) for name in users])["gold"]
    await admin.patch(kinds.TENANT_CLASSES, "gold", {"status": status}, subresource="status")
    assert status["tenants"] == 9

    async def listed() -> bool:
        said = await refused(admin, kinds.TENANT_CLASSES, "gold")
        return "team-0, team-1, team-2, team-3, team-4 and " in said and ("and 4 more" in said or "and 3 more" in said)

    await until(listed, "the names")
    # A note that is late names at least the one that keeps it, and opens nothing.
    await admin.patch(kinds.TENANT_CLASSES, "gold", {"status": {"tenants": 0, "tenantNames": None}}, subresource="status")
    assert "in use by Tenant team-" in await refused(admin, kinds.TENANT_CLASSES, "gold")


async def test_what_a_tenant_was_built_of_stays_whatever_it_names(admin: Client) -> None:
    await ask(admin, "team-a", **{"class": "silver"})
    status = {"class": {"name": "gold", "uid": "1", "generation": 1, "spec": {}}}
    await admin.patch(kinds.TENANTS, "team-a", {"status": status}, subresource="status")
    await refused(admin, kinds.TENANT_CLASSES, "gold")
    await refused(admin, kinds.TENANT_CLASSES, "silver")


async def test_a_tenant_that_is_on_its_way_out_keeps_nothing(admin: Client) -> None:
    await ask(admin, "team-a")
    await admin.patch(kinds.TENANTS, "team-a", {"metadata": {"finalizers": ["bulkhead.dev/teardown"]}})
    await refused(admin, kinds.TENANT_CLASSES, "gold")
    await admin.delete(kinds.TENANTS, "team-a")
    await free(admin, kinds.TENANT_CLASSES, "gold")
    assert (await admin.get(kinds.TENANTS, "team-a"))["metadata"]["deletionTimestamp"]


async def test_a_cohort_in_use_stays_too(admin: Client) -> None:
    await ask(admin, "team-a", quota={"cohort": "gold"})
    said = await refused(admin, kinds.COHORTS, "gold")
    assert "Cohort gold is in use by Tenant team-a: it was not deleted" in said
    assert "empty the spec of the Cohort" in said
    await admin.delete(kinds.COHORTS, "silver")
    await admin.patch(kinds.TENANTS, "team-a", {"spec": {"quota": {"cohort": None}}})
    await free(admin, kinds.COHORTS, "gold")


async def test_it_is_the_policy_that_keeps_them(admin: Client) -> None:
    await ask(admin, "team-a")
    await refused(admin, kinds.TENANT_CLASSES, "gold")
    await admin.delete(BINDINGS, NAME)
    await free(admin, kinds.TENANT_CLASSES, "gold")


@pytest.mark.helm
async def test_without_tenants_or_their_definition_everything_goes(own_server: ApiServer, tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    config.write_bytes(to_yaml(own_server.admin))
    here = ("--namespace", "bulkhead-system", "--kubeconfig", str(config))
    helm("install", "bulkhead", str(CHART), "--create-namespace", *here)
    async with Client(own_server.admin, user_agent="tests", field_manager="tests") as client:
        await served(client, kinds.TENANTS)
        for name in ("gold", "silver"):
            await client.apply(kinds.TENANT_CLASSES, tenant_class() | {"metadata": {"name": name}})
        await ask(client, "team-a")
        await refused(client, kinds.TENANT_CLASSES, "gold")
        await client.delete(kinds.TENANTS, "team-a")
        await free(client, kinds.TENANT_CLASSES, "gold")

        async def uninstalled() -> bool:
            # Until the API server has forgotten the last Tenant it is refused, as ever.
            try:
                helm("uninstall", "bulkhead", *here)
            except AssertionError:
                return False
            return True

        await until(uninstalled, "the chart to go")
        await client.get(POLICIES, NAME)
        await client.delete(kinds.CUSTOM_RESOURCE_DEFINITIONS, "tenants.bulkhead.dev")

        async def unknown() -> bool:
            try:
                await client.list(kinds.TENANTS)
            except NotFound:
                return True
            return False

        await until(unknown, "the kind Tenant to be gone")
        await free(client, kinds.TENANT_CLASSES, "silver")


def test_it_matches_deletions_alone() -> None:
    policy: Obj = next(
        each for each in rendered() if each["kind"] == "ValidatingAdmissionPolicy" and each["metadata"]["name"] == NAME
    )
    rules = policy["spec"]["matchConstraints"]["resourceRules"]
    assert [each["operations"] for each in rules] == [["DELETE"]]
    assert policy["spec"]["failurePolicy"] == "Ignore"
    assert policy["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
