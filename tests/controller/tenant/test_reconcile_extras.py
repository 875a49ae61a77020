"""Reconciles of tenants for which the host refuses an object, on a real API server: what continues and what must not.

Each refusal is the API server's own: an address that is taken, a policy of the host's, a field that cannot change, a kind that
is no longer served. The test deletes other objects and sees them return, which shows that the rest is reconciled.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from bulkhead.api.conditions import condition_of
from bulkhead.api.objects import Obj
from bulkhead.kube import codec
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, NotFound
from bulkhead.kube.objects import Key, Resource
from bulkhead.kube.resources import VALIDATING_ADMISSION_POLICIES as POLICIES
from bulkhead.kube.resources import VALIDATING_ADMISSION_POLICY_BINDINGS as BINDINGS
from controller.settings import Settings
from controller.tenant.reconcile import ReconcileFailed
from tests.kit.controllerhost import ControllerHost, ask, ready, take_down
from tests.kit.crds import install, served
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import tenant_class

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]
INSTALLED = Settings(exposure_domains=("k8s.example.org",), exposure_proxy=1, exposure_gateway="infra/public")
BALANCED = {"exposure": {"type": "LoadBalancer"}}
IN_FORCE = 60.0


@pytest.fixture
async def client(host_client: Client) -> AsyncIterator[Client]:
    """The host's API, with a class that is gone afterwards: other files on this server make theirs under the same name."""
    await install(host_client)
    offer = tenant_class(exposure={"allowedTypes": ["LoadBalancer", "Proxy", "Gateway"]})
    await host_client.apply(kinds.TENANT_CLASSES, offer | {"metadata": {"name": "standard"}})
    yield host_client
    await host_client.delete(kinds.TENANT_CLASSES, "standard")


def said(tenant: Obj) -> tuple[str, str, str]:
    found = condition_of(tenant, "Exposed")
    return str(found.get("status")), str(found.get("reason")), str(found.get("message"))


async def upkeep(client: Client, world: ControllerHost, name: str) -> None:
    """What protects a tenant, what it runs on and what it runs without: deleted, and there again."""
    for resource, each in ((kinds.NETWORK_POLICIES, "default-deny"), (kinds.STATEFUL_SETS, "plane")):
        await client.delete(resource, each, f"bh-{name}")
        await until(lambda r=resource, n=each: gone(world, r, n, f"bh-{name}"), f"{each} seen to be gone")
    await world.settle(name)
    for resource, each in ((kinds.NETWORK_POLICIES, "default-deny"), (kinds.STATEFUL_SETS, "plane")):
        await client.get(resource, each, f"bh-{name}")


async def gone(world: ControllerHost, resource: Any, name: str, namespace: str) -> bool:
    return world.owned.get(resource, Key(namespace, name)) is None


async def refuse(client: Client, name: str, expression: str, group: str, plural: str, *operations: str) -> None:
    """A policy of the host's own."""
    rule = {"apiGroups": [group], "apiVersions": ["*"], "operations": list(operations), "resources": [plural]}
    spec: Obj = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": expression, "message": f"{name} says no"}],
    }
    await client.apply(POLICIES, {"metadata": {"name": name}, "spec": spec})
    binding = {"policyName": name, "validationActions": ["Deny"]}
    await client.apply(BINDINGS, {"metadata": {"name": name}, "spec": binding})


PROBED = "!(object.metadata.namespace in ['elsewhere', 'bh-{}'])"


async def probed(client: Client, resource: Resource, spec: Obj) -> bool:
    """Whether a policy of `PROBED` is in force by now."""
    await client.apply(kinds.NAMESPACES, {"metadata": {"name": "elsewhere"}})
    body = codec.encode({"metadata": {"name": "x"}, "spec": spec})
    try:
        await client.transport.request("POST", resource.path("elsewhere"), params={"dryRun": "All"}, body=body)
    except ApiError as error:
        return "says no" in str(error)
    return False


async def withdraw(client: Client, name: str) -> None:
    await client.delete(BINDINGS, name)
    await client.delete(POLICIES, name)


async def balanced(client: Client, world: ControllerHost, name: str) -> Obj:
    """A tenant with a load balancer, and its Service."""
    await ask(client, name, **BALANCED)
    assert said(await world.settle(name))[:2] == ("False", "WaitingForAddress")
    return await client.get(kinds.SERVICES, "plane-public", f"bh-{name}")


async def test_an_address_that_a_service_of_the_tenants_took_first_stops_nothing_but_the_way_in(client: Client) -> None:
    await ask(client, "squatted")
    async with ControllerHost(client, settings=INSTALLED) as world:
        slice_ = (await world.settle("squatted"))["status"]["serviceSlice"]
        address = slice_.replace(".0/22", ".12")
        squatter = {"metadata": {"name": "mine"}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}}
        await client.create(kinds.SERVICES, squatter, "bh-squatted-work")
        await client.patch(kinds.TENANTS, "squatted", {"spec": BALANCED})
        tenant = await world.settle("squatted")
        status, reason, message = said(tenant)
        assert (status, reason) == ("False", "HostRefused")
        assert "provided IP is already allocated" in message
        assert f"kubectl get ipaddress {address}" in message
        # Its reason is that no plane runs here, and none of what was refused.
        assert ready(tenant) == ("False", "Provisioning")
        await upkeep(client, world, "squatted")
        outcome = await world.reconciler.reconcile("squatted")
        assert outcome.again == 30.0
        # After the admin has followed the message, the way in is open.
        await client.delete(kinds.SERVICES, "mine", "bh-squatted-work")

        async def freed() -> bool:
            return said(await world.settle("squatted"))[:2] == ("False", "WaitingForAddress")

        await until(freed, "the Service at its address", 60)
        assert (await client.get(kinds.SERVICES, "plane-public", "bh-squatted"))["spec"]["clusterIP"] == address
        await take_down(world, "squatted")


NAMED = "!(object.metadata.name in ['plane-public', 'plane-proxy'] && object.metadata.namespace == 'bh-{}')"


@pytest.mark.parametrize(("kind", "name"), [("LoadBalancer", "policed-balanced"), ("Proxy", "policed-proxied")])
async def test_a_policy_of_the_host_against_the_way_in_stops_nothing_else(client: Client, kind: str, name: str) -> None:
    await refuse(client, name, NAMED.format(name), "", "services", "CREATE", "UPDATE")
    service = {"metadata": {"name": "plane-proxy"}, "spec": {"clusterIP": "None", "ports": [{"port": 1}]}}
    async with ControllerHost(client, settings=INSTALLED) as world:
        await ask(client, name, exposure={"type": "None"})
        await world.settle(name)
        await until(lambda: denied(client, service, f"bh-{name}"), "the policy in force", IN_FORCE)
        await client.patch(kinds.TENANTS, name, {"spec": {"exposure": {"type": kind}}})
        tenant = await world.settle(name)
        assert said(tenant)[:2] == ("False", "HostRefused")
        assert f"{name} says no" in said(tenant)[2]
        assert "a policy or webhook of the host refuses it" in said(tenant)[2]
        assert ready(tenant)[1] == "Provisioning"
        await upkeep(client, world, name)
        await withdraw(client, name)

        async def let_in() -> bool:
            return said(await world.settle(name))[1] != "HostRefused"

        await until(let_in, "the way in, without the policy", IN_FORCE)
        await take_down(world, name)


async def denied(client: Client, service: Obj, namespace: str) -> bool:
    try:
        await client.create(kinds.SERVICES, service, namespace)
    except ApiError as error:
        return "says no" in str(error)
    await client.delete(kinds.SERVICES, service["metadata"]["name"], namespace)
    return False


async def test_annotations_that_the_host_does_not_take_stop_nothing_else(client: Client) -> None:
    # Past what the settings check: of a version of the host that is stricter than they are.
    settings = replace(INSTALLED, exposure_load_balancer_annotations='{"not a key": "x"}')
    await ask(client, "annotated", **BALANCED)
    async with ControllerHost(client, settings=settings) as world:
        tenant = await world.settle("annotated")
        assert said(tenant)[1] == "HostRefused"
        assert "fix the annotations of exposure.loadBalancer in the chart's values" in said(tenant)[2]
        await upkeep(client, world, "annotated")
    async with ControllerHost(client, settings=INSTALLED) as world:
        assert said(await world.settle("annotated"))[1] == "WaitingForAddress"
        await take_down(world, "annotated")


async def test_a_field_that_cannot_change_is_told_with_what_to_delete(client: Client) -> None:
    async with ControllerHost(client, settings=replace(INSTALLED, exposure_load_balancer_class="a.example.com/x")) as world:
        await balanced(client, world, "fixed")
    async with ControllerHost(client, settings=replace(INSTALLED, exposure_load_balancer_class="b.example.com/x")) as world:
        status, reason, message = said(await world.settle("fixed"))
        assert (status, reason) == ("False", "HostRefused")
        assert "may not change once set" in message
        assert "delete Service bh-fixed/plane-public" in message
        await upkeep(client, world, "fixed")
        await client.delete(kinds.SERVICES, "plane-public", "bh-fixed")
        assert said(await world.settle("fixed"))[1] == "WaitingForAddress"
        made = await client.get(kinds.SERVICES, "plane-public", "bh-fixed")
        assert made["spec"]["loadBalancerClass"] == "b.example.com/x"
        await take_down(world, "fixed")


def definition(kind: str, *versions: str) -> Obj:
    """A kind of Gateway API, of any shape; the last of its versions is stored."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    each = {"served": True, "schema": schema, "subresources": {"status": {}}}
    plural = f"{kind.lower()}s"
    spec = {
        "group": "gateway.networking.k8s.io",
        "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
        "scope": "Namespaced",
        "versions": [each | {"name": name, "storage": name == versions[-1]} for name in versions],
    }
    meta: Obj = {"name": f"{plural}.gateway.networking.k8s.io"}
    # Its group is the project's own, and says so.
    meta |= {"annotations": {"api-approved.kubernetes.io": "https://example.org/approved"}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": meta, "spec": spec}


@asynccontextmanager
async def serving(client: Client, kind: Resource, *versions: str) -> AsyncIterator[None]:
    made = definition(kind.kind, *versions)
    await client.apply(kinds.CUSTOM_RESOURCE_DEFINITIONS, made)
    await served(client, kind)
    try:
        yield
    finally:
        await client.delete(kinds.CUSTOM_RESOURCE_DEFINITIONS, made["metadata"]["name"])
        await served(client, kind, there=False)


@pytest.mark.parametrize(
    ("versions", "written"),
    [
        (["v1alpha2"], kinds.TLS_ROUTES_V1ALPHA2),
        (["v1alpha2", "v1alpha3"], kinds.TLS_ROUTES_V1ALPHA3),
        (["v1alpha3", "v1alpha2", "v1"], kinds.TLS_ROUTES),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, list) else "",
)
async def test_a_route_is_written_in_the_newest_version_that_the_host_serves(
    client: Client, versions: list[str], written: Resource
) -> None:
    name = f"of-{versions[-1]}"
    async with serving(client, written, *versions), ControllerHost(client, settings=INSTALLED) as world:
        await ask(client, name, exposure={"type": "Gateway"})
        assert said(await world.settle(name))[1] == "RouteRefused"
        found = await client.get(written, "plane", f"bh-{name}")
        assert {each["apiVersion"] for each in found["metadata"]["managedFields"]} == {str(found["apiVersion"])}
        assert found["apiVersion"] == f"gateway.networking.k8s.io/{written.version}"
        # And it goes again, whatever the versions in which it is seen.
        await client.patch(kinds.TENANTS, name, {"spec": {"exposure": {"type": "None"}}})
        assert said(await world.settle(name))[0] == "None"
        with pytest.raises(NotFound):
            await client.get(written, "plane", f"bh-{name}")
        await take_down(world, name)


async def test_a_gateway_that_goes_is_told_though_the_route_says_nothing(client: Client) -> None:
    await client.apply(kinds.NAMESPACES, {"metadata": {"name": "infra"}})
    gateway = {"metadata": {"name": "public", "namespace": "infra"}, "spec": {}}
    async with (
        serving(client, kinds.TLS_ROUTES, "v1"),
        serving(client, kinds.GATEWAYS, "v1"),
        ControllerHost(client, settings=INSTALLED) as world,
    ):
        await client.apply(kinds.GATEWAYS, gateway)
        await ask(client, "parted", exposure={"type": "Gateway"})
        assert "has not reported" in said(await world.settle("parted"))[2]
        ref = (await client.get(kinds.TLS_ROUTES, "plane", "bh-parted"))["spec"]["parentRefs"][0]
        taken = {"parentRef": ref, "controllerName": "x.io/y", "conditions": [{"type": "Accepted", "status": "True"}]}
        await client.patch(kinds.TLS_ROUTES, "plane", {"status": {"parents": [taken]}}, "bh-parted", subresource="status")

        async def told(words: str) -> bool:
            return words in " ".join(said(await world.settle("parted")))

        await until(lambda: told("the API server is reached at"), "the route taken", IN_FORCE)
        await client.delete(kinds.GATEWAYS, "public", "infra")
        await until(lambda: told("Gateway infra/public does not exist"), "the Gateway gone", IN_FORCE)
        await client.apply(kinds.GATEWAYS, gateway)
        await until(lambda: told("the API server is reached at"), "the Gateway back", IN_FORCE)
        await take_down(world, "parted")


async def test_routes_that_the_host_serves_no_more_stop_nothing_else(client: Client) -> None:
    await client.apply(kinds.CUSTOM_RESOURCE_DEFINITIONS, definition("TLSRoute", "v1"))
    await served(client, kinds.TLS_ROUTES)
    await ask(client, "routed", exposure={"type": "Gateway"})
    async with ControllerHost(client, settings=INSTALLED) as world:
        assert said(await world.settle("routed"))[1] == "RouteRefused"
        # The moment before the informer has received it.
        world.owned.route_version = lambda: "v1"  # type: ignore[method-assign]
        await client.delete(kinds.CUSTOM_RESOURCE_DEFINITIONS, "tlsroutes.gateway.networking.k8s.io")
        await served(client, kinds.TLS_ROUTES, there=False)
        world.applier.forget(("bh-routed",))
        tenant = await world.settle("routed")
        assert said(tenant)[:2] == ("False", "HostRefused"), said(tenant)
        assert "the host no longer serves TLSRoute" in said(tenant)[2]
        await upkeep(client, world, "routed")
        await take_down(world, "routed")


async def test_a_disruption_budget_that_the_host_refuses_stops_nothing_else(client: Client) -> None:
    await refuse(client, "no-budgets", PROBED.format("budgetless"), "policy", "poddisruptionbudgets", "CREATE")
    await until(lambda: probed(client, kinds.POD_DISRUPTION_BUDGETS, {"maxUnavailable": 1}), "the policy in force", IN_FORCE)
    await ask(client, "budgetless")
    async with ControllerHost(client, settings=INSTALLED) as world:
        await world.settle("budgetless")
        with pytest.raises(NotFound):
            await client.get(kinds.POD_DISRUPTION_BUDGETS, "plane", "bh-budgetless")
        assert said(await client.get(kinds.TENANTS, "budgetless"))[0] == "True"
        await upkeep(client, world, "budgetless")
        await withdraw(client, "no-budgets")
        await take_down(world, "budgetless")


async def test_a_way_in_that_the_host_does_not_let_go_is_told_and_stops_nothing_else(client: Client) -> None:
    async with ControllerHost(client, settings=INSTALLED) as world:
        await balanced(client, world, "kept")
        await refuse(client, "no-deletes", "oldObject.metadata.namespace != 'bh-kept'", "", "services", "DELETE")

        async def in_force() -> bool:
            try:
                await client.transport.request(
                    "DELETE", kinds.SERVICES.path("bh-kept", "plane-public"), params={"dryRun": "All"}
                )
            except ApiError as error:
                return "says no" in str(error)
            return False

        await until(in_force, "the policy in force", IN_FORCE)
        await client.patch(kinds.TENANTS, "kept", {"spec": {"exposure": {"type": "None"}}})
        tenant = await world.settle("kept")
        assert said(tenant)[:2] == ("False", "HostRefused")
        assert "should be deleted, but the host does not delete it" in said(tenant)[2]
        await upkeep(client, world, "kept")
        await withdraw(client, "no-deletes")

        async def went() -> bool:
            return said(await world.settle("kept"))[0] == "None"

        await until(went, "the way in gone", IN_FORCE)
        with pytest.raises(NotFound):
            await client.get(kinds.SERVICES, "plane-public", "bh-kept")
        await take_down(world, "kept")


async def test_what_protects_a_tenant_holds_up_everything_where_it_is_refused(client: Client) -> None:
    """The positive control of all above: no plane and no way in without its policies."""
    await refuse(client, "no-policies", PROBED.format("open"), "networking.k8s.io", "networkpolicies", "CREATE")
    await until(lambda: probed(client, kinds.NETWORK_POLICIES, {"podSelector": {}}), "the policy in force", IN_FORCE)
    await ask(client, "open", **BALANCED)
    async with ControllerHost(client, settings=INSTALLED) as world:
        with pytest.raises(ReconcileFailed, match="says no"):
            await world.reconciler.reconcile("open")
        tenant = await client.get(kinds.TENANTS, "open")
        assert ready(tenant) == ("False", "HostRefused")
        for resource, name in ((kinds.STATEFUL_SETS, "plane"), (kinds.SERVICES, "plane-public")):
            with pytest.raises(NotFound):
                await client.get(resource, name, "bh-open")
        await withdraw(client, "no-policies")
        await take_down(world, "open")
