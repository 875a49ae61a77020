"""`helm install`, `upgrade` and `uninstall` on a real API server: tenants lose nothing they run on, whatever helm is told."""

import copy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, NotFound
from bulkhead.kube.resources import resource_of
from controller.snapshots.schedule import FINALIZER
from tests.kit.crds import served
from tests.kit.helmchart import CHART, helm, rendered
from tests.kit.kubeconfigs import to_yaml
from tests.kit.servers import ApiServer, running
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import tenant

pytestmark = [pytest.mark.apiserver, pytest.mark.helm]
HERE = ("--namespace", "bulkhead-system")
PROBE: Obj = {"metadata": {"name": "bulkhead-uninstall", "namespace": "bulkhead-system", "labels": {"status": "uninstalling"}}}
TENANT = tenant("team-a") | {"metadata": {"name": "team-a"}}


class Installation:
    """A host with the chart, as its admin sees it."""

    def __init__(self, client: Client, config: Path) -> None:
        self.client = client
        self._config = config

    def helm(self, *arguments: str) -> str:
        return helm(*arguments, *HERE, "--kubeconfig", str(self._config))

    async def missing(self) -> set[tuple[str, str]]:
        """Which objects of the chart are not there."""
        found: set[tuple[str, str]] = set()
        for obj in rendered():
            if "helm.sh/hook" in obj["metadata"].get("annotations", {}):
                continue
            resource = resource_of(obj["apiVersion"], obj["kind"])
            try:
                await self.client.get(resource, obj["metadata"]["name"], obj["metadata"].get("namespace"))
            except NotFound:
                found.add((obj["kind"], obj["metadata"]["name"]))
        return found

    async def guarded(self) -> None:
        """Return when the API server knows the policy and the Tenant: it learns of both by watches."""

        async def bites() -> bool:
            probe: Obj = copy.deepcopy(PROBE)
            try:
                await self.client.create(kinds.CONFIG_MAPS, probe)
            except ApiError as error:
                return "nothing was uninstalled" in str(error)
            await self.client.delete(kinds.CONFIG_MAPS, "bulkhead-uninstall", "bulkhead-system")
            return False

        await until(bites, "the uninstallation guarded")

    async def forgotten(self) -> None:
        """Return when the API server has forgotten the last Tenant."""

        async def passes() -> bool:
            probe: Obj = copy.deepcopy(PROBE)
            try:
                await self.client.create(kinds.CONFIG_MAPS, probe)
            except ApiError:
                return False
            await self.client.delete(kinds.CONFIG_MAPS, "bulkhead-uninstall", "bulkhead-system")
            return True

        await until(passes, "the last Tenant forgotten")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with running("installed", tmp_path_factory.mktemp("installed")) as made:
        yield made


@pytest.fixture
async def host(server: ApiServer, tmp_path: Path) -> AsyncIterator[Installation]:
    config = tmp_path / "kubeconfig"
    config.write_bytes(to_yaml(server.admin))
    async with Client(server.admin, user_agent="tests", field_manager="tests") as client:
        made = Installation(client, config)
        made.helm("upgrade", "--install", "bulkhead", str(CHART), "--create-namespace")
        await served(client, kinds.TENANTS)
        yield made


async def test_an_uninstallation_under_tenants_is_refused_with_a_sentence_and_changes_nothing(host: Installation) -> None:
    await host.client.apply(kinds.TENANTS, TENANT)
    await host.guarded()
    with pytest.raises(AssertionError) as refused:
        host.helm("uninstall", "bulkhead")
    said = str(refused.value)
    assert "Tenant team-a is there" in said
    assert "`bulkhead tenant delete team-a`" in said
    assert await host.missing() == set()
    # Helm continues as if the check had not been requested.
    assert "deployed" in host.helm("status", "bulkhead")
    host.helm("upgrade", "bulkhead", str(CHART), "--set", "controller.replicas=2")
    with pytest.raises(ApiError, match=r"it needs tenants\.bulkhead\.dev"):
        await host.client.delete(kinds.CUSTOM_RESOURCE_DEFINITIONS, "tenants.bulkhead.dev")
    await gone(host)


async def gone(host: Installation) -> None:
    await host.client.delete(kinds.TENANTS, "team-a")
    await host.forgotten()


async def test_without_hooks_tenants_run_on_whole_and_the_next_installation_takes_them_over(host: Installation) -> None:
    made = await host.client.apply(kinds.TENANTS, TENANT)
    await host.guarded()
    host.helm("uninstall", "bulkhead", "--no-hooks")
    missing = await host.missing()
    assert ("Deployment", "bulkhead-controller") in missing
    # What goes with it, as docs/tasks.md says.
    assert {("ClusterRole", "bulkhead-login"), ("ClusterRole", "bulkhead-quota-view")} <= missing
    needed = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "PriorityClass"}
    assert not {kind for kind, _ in missing} & needed
    assert not [name for kind, name in missing if kind == "ClusterRole" and name.startswith("bulkhead-syncer")]
    assert (await host.client.get(kinds.TENANTS, "team-a"))["metadata"]["uid"] == made["metadata"]["uid"]
    host.helm("install", "bulkhead", str(CHART))
    assert await host.missing() == set()
    await gone(host)


async def test_without_tenants_it_goes_and_definitions_and_classes_stay(host: Installation) -> None:
    offer = {"metadata": {"name": "standard"}, "spec": {}}
    made = await host.client.apply(kinds.TENANT_CLASSES, offer)
    await host.forgotten()
    host.helm("uninstall", "bulkhead")
    assert ("Deployment", "bulkhead-controller") in await host.missing()
    assert (await host.client.get(kinds.TENANT_CLASSES, "standard"))["metadata"]["uid"] == made["metadata"]["uid"]
    # Nothing is left of the question.
    with pytest.raises(NotFound):
        await host.client.get(kinds.CONFIG_MAPS, "bulkhead-uninstall", "bulkhead-system")


async def test_definitions_without_objects_may_be_deleted_and_others_always(host: Installation) -> None:
    await host.client.apply(kinds.TENANTS, TENANT)
    await host.guarded()
    other: Obj = copy.deepcopy(await host.client.get(kinds.CUSTOM_RESOURCE_DEFINITIONS, "tenantclasses.bulkhead.dev"))
    spec = other["spec"] | {"group": "example.org"}
    await host.client.apply(
        kinds.CUSTOM_RESOURCE_DEFINITIONS, {"metadata": {"name": "tenantclasses.example.org"}, "spec": spec}
    )
    await host.client.delete(kinds.CUSTOM_RESOURCE_DEFINITIONS, "tenantclasses.example.org")
    # The policy does not touch other ConfigMaps and Secrets in the controller's namespace.
    probe: Obj = {"metadata": {"name": "x", "namespace": "bulkhead-system", "labels": {"status": "deployed"}}}
    await host.client.apply(kinds.CONFIG_MAPS, probe)
    await host.client.delete(kinds.CONFIG_MAPS, "x", "bulkhead-system")
    await gone(host)


async def test_the_definition_of_snapshots_stays_while_one_is_stored(host: Installation) -> None:
    """Else its finalizer waits for a controller, and the next installation deletes what is stored."""
    resource, definition = kinds.CUSTOM_RESOURCE_DEFINITIONS, "tenantsnapshots.bulkhead.dev"
    await served(host.client, kinds.TENANT_SNAPSHOTS)
    made = {"metadata": {"name": "red-1", "finalizers": [FINALIZER]}, "spec": {"tenant": "red"}}
    await host.client.apply(kinds.TENANT_SNAPSHOTS, made)

    async def refusal() -> str:
        try:
            await host.client.transport.request("DELETE", resource.path(None, definition), params={"dryRun": "All"})
        except ApiError as error:
            return str(error)
        return ""

    async def free() -> bool:
        return not await refusal()

    told = await until(refusal, "the definition kept")
    assert "TenantSnapshot red-1 is stored" in told
    with pytest.raises(ApiError, match="nothing was deleted"):
        await host.client.delete(resource, definition)
    # To keep what is stored; one that was asked for by hand has no finalizer.
    await host.client.patch(kinds.TENANT_SNAPSHOTS, "red-1", {"metadata": {"finalizers": None}})
    await until(free, "the definition free")
    await host.client.delete(kinds.TENANT_SNAPSHOTS, "red-1")


async def test_what_stays_does_no_harm_once_the_definitions_are_gone(host: Installation) -> None:
    await host.forgotten()
    host.helm("uninstall", "bulkhead")
    for name in ("tenantclasses.bulkhead.dev", "tenants.bulkhead.dev"):
        await host.client.delete(kinds.CUSTOM_RESOURCE_DEFINITIONS, name)
    await served(host.client, kinds.TENANTS, there=False)
    other = {"metadata": {"name": "gadgets.example.org"}, "spec": gadgets()}
    await host.client.apply(kinds.CUSTOM_RESOURCE_DEFINITIONS, other)
    await host.client.delete(kinds.CUSTOM_RESOURCE_DEFINITIONS, "gadgets.example.org")
    # Another chart of that namespace goes.
    for status in ("deployed", "uninstalling"):
        meta = {"name": "sh.helm.release.v1.x.v1", "namespace": "bulkhead-system", "labels": {"status": status}}
        await host.client.apply(kinds.SECRETS, {"metadata": meta})


def gadgets() -> Obj:
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {
        "group": "example.org",
        "scope": "Cluster",
        "names": {"plural": "gadgets", "kind": "Gadget"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
