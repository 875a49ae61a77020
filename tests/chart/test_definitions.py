"""The controller keeps the definitions of our kinds at its release, by the chart's rights and held by its policy.

The start is as after an upgrade from a chart that merely had them in `crds/`: they exist, they are older, and only helm owns
them.
"""

import copy
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bulkhead.api import crd
from bulkhead.api.labels import RELEASE
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, Forbidden, Unprocessable
from controller.host import definitions
from tests.chart.policed import policies
from tests.kit.applying import apply_all
from tests.kit.crds import served
from tests.kit.helmchart import rendered
from tests.kit.known import all_known
from tests.kit.servers import ApiServer, running
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import tenant

pytestmark = [pytest.mark.apiserver, pytest.mark.charts]
CONTROLLER = "system:serviceaccount:bulkhead-system:bulkhead-controller"
TENANTS = "tenants.bulkhead.dev"


@pytest.mark.parametrize(
    ("there", "ours", "expected"),
    [
        ("0.2.0", "0.1.0", True),
        ("0.10.0", "0.9.1", True),
        ("1.0.0-rc.1", "0.9.0", True),
        ("0.1.0", "0.1.0", False),
        ("0.1.0+build", "0.1.0", False),
        ("", "0.1.0", False),
        ("newest", "0.1.0", False),
        ("²", "0.1.0", False),
        ("9" * 5000, "0.1.0", False),
        ("0.0.9", "0.1.0", False),
    ],
)
def test_a_release_is_newer_by_its_numbers_and_nonsense_never_is(there: str, ours: str, *, expected: bool) -> None:
    assert definitions.newer(there, ours) is expected


@pytest.mark.parametrize("there", [None, {}, {"metadata": 1}, {"metadata": {"annotations": [1]}}])
def test_a_definition_that_says_no_release_has_none(there: Any) -> None:
    assert definitions.release_of(there) == ""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with running("defined", tmp_path_factory.mktemp("defined")) as made:
        yield made


def older() -> list[Obj]:
    """The definitions as a former chart had them: without a field of today and without a release."""
    made = [copy.deepcopy(crd.render(each)) for each in crd.CRDS]
    for each in made:
        del each["metadata"]["annotations"]
        properties = each["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        properties.pop("hibernation", None)
    return made


@pytest.fixture
async def admin(server: ApiServer) -> AsyncIterator[Client]:
    async with Client(server.admin, user_agent="tests", field_manager="helm") as client:
        await client.apply(kinds.NAMESPACES, {"metadata": {"name": "bulkhead-system"}})
        roles = [obj for obj in rendered() if obj["kind"] in {"ClusterRole", "ClusterRoleBinding"}]
        await apply_all(client, roles + policies() + older())
        await served(client, kinds.TENANTS, kinds.TENANT_CLASSES)
        await all_known(client)
        yield client


@pytest.fixture
async def limited(server: ApiServer, admin: Client) -> AsyncIterator[Client]:
    """The controller with its own rights."""
    async with Client(server.config_for(CONTROLLER), user_agent="tests", field_manager="bulkhead-controller") as client:
        yield client


@pytest.fixture
async def mighty(server: ApiServer, admin: Client) -> AsyncIterator[Client]:
    """The controller with every right: only the policy says no."""
    async with Client(server.config_for(CONTROLLER, "system:masters"), user_agent="tests", field_manager="tests") as client:

        async def bites() -> bool:
            return bool(await refusal(client, foreign("widgets", "example.org")))

        await until(bites, "the policy in force")
        yield client


async def refusal(client: Client, obj: Obj) -> str:
    """Why the policy refuses to create this; empty when it does not. Nothing is made."""
    body = json.dumps({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"} | obj).encode()
    try:
        await client.transport.request(
            "POST", kinds.CUSTOM_RESOURCE_DEFINITIONS.path(None), params={"dryRun": "All"}, body=body
        )
    except ApiError as error:
        return str(error).partition("denied request: ")[2]
    return ""


def foreign(plural: str, group: str) -> Obj:
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": plural, "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def has_today(definition: Obj) -> bool:
    return "hibernation" in definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]


async def deleted(admin: Client, name: str) -> bool:
    """Delete a Tenant; False while the API server has not found the kind yet that a policy reads."""
    try:
        await admin.delete(kinds.TENANTS, name)
    except Unprocessable as error:
        if "failed to find resource referenced by paramKind" not in error.message:
            raise
        return False
    return True


async def test_definitions_of_a_former_chart_are_brought_up_and_what_they_define_stays(admin: Client, limited: Client) -> None:
    made = await admin.create(kinds.TENANTS, tenant("stays") | {"metadata": {"name": "stays"}})
    before = await admin.get(kinds.CUSTOM_RESOURCE_DEFINITIONS, TENANTS)
    assert not has_today(before)
    await definitions.bring_up(limited)
    after = await admin.get(kinds.CUSTOM_RESOURCE_DEFINITIONS, TENANTS)
    assert has_today(after)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert definitions.release_of(after)
    assert (await admin.get(kinds.TENANTS, "stays"))["metadata"]["uid"] == made["metadata"]["uid"]

    # Once they are right, the controller writes nothing more.
    async def nothing_written() -> bool:
        """The API server's own controllers write the status some moments after a change."""
        there = await admin.get(kinds.CUSTOM_RESOURCE_DEFINITIONS, TENANTS)
        await definitions.bring_up(limited)
        again = await admin.get(kinds.CUSTOM_RESOURCE_DEFINITIONS, TENANTS)
        assert again["metadata"]["generation"] == there["metadata"]["generation"] == after["metadata"]["generation"]
        return bool(again["metadata"]["resourceVersion"] == there["metadata"]["resourceVersion"])

    await until(nothing_written, "a pass that writes nothing")
    await until(lambda: deleted(admin, "stays"), "the policies to know the definition of a TenantClass, which was not there")


async def test_definitions_of_a_newer_release_are_left_as_they_are(admin: Client, limited: Client) -> None:
    note = {"metadata": {"annotations": {RELEASE: "99.0.0"}}}
    await admin.patch(kinds.CUSTOM_RESOURCE_DEFINITIONS, TENANTS, note)
    await definitions.bring_up(limited)
    left = await admin.get(kinds.CUSTOM_RESOURCE_DEFINITIONS, TENANTS)
    assert not has_today(left)
    assert definitions.release_of(left) == "99.0.0"
    await admin.patch(kinds.CUSTOM_RESOURCE_DEFINITIONS, TENANTS, {"metadata": {"annotations": {RELEASE: None}}})


async def test_the_controller_has_no_right_to_other_definitions_and_to_delete_any(admin: Client, limited: Client) -> None:
    await admin.apply(kinds.CUSTOM_RESOURCE_DEFINITIONS, foreign("gadgets", "example.org"))
    with pytest.raises(Forbidden, match="cannot patch resource"):
        await limited.apply(kinds.CUSTOM_RESOURCE_DEFINITIONS, foreign("gadgets", "example.org"))
    with pytest.raises(Forbidden, match="cannot delete resource"):
        await limited.delete(kinds.CUSTOM_RESOURCE_DEFINITIONS, TENANTS)


async def test_the_policy_refuses_definitions_that_are_not_ours_bent_ones_and_every_deletion(
    mighty: Client, admin: Client
) -> None:
    assert "of Bulkhead's own kinds" in await refusal(mighty, foreign("others", "bulkhead.dev"))
    webhook = {
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://example.org/convert"}},
    }
    bent: dict[str, tuple[Obj, str]] = {
        "a webhook": ({"spec": {"conversion": webhook}}, "converts"),
        "a finalizer": ({"metadata": {"finalizers": ["example.org/stays"]}}, "finalizers"),
    }
    for patch, why in bent.values():
        with pytest.raises(ApiError, match=why):
            await mighty.patch(kinds.CUSTOM_RESOURCE_DEFINITIONS, TENANTS, patch)

    async def kept() -> bool:
        # Until the API server has found out that there are Tenants, another policy refuses for that reason alone.
        with pytest.raises(ApiError) as refused:
            await mighty.delete(kinds.CUSTOM_RESOURCE_DEFINITIONS, TENANTS)
        return "deletes none" in str(refused.value)

    await until(kept, "Tenants found out")
    await definitions.bring_up(mighty)
