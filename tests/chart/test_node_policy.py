"""The chart's admission policy over what the controller writes on nodes, on a real API server."""

import secrets
from typing import Any

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError
from bulkhead.kube.resources import (
    NODES,
)
from tests.kit.known import IN_FORCE
from tests.kit.servers import ApiServer
from tests.kit.syncerbed import until

CONTROLLER = "system:serviceaccount:bulkhead-system:bulkhead-controller"


@pytest.mark.apiserver
async def test_item_49_the_controller_changes_nothing_of_a_node_but_its_annotation(policed: ApiServer, admin: Client) -> None:
    name, held, alone = f"n-{secrets.token_hex(4)}", "bulkhead.dev/accelerators-held", "bulkhead.dev/tenant"
    others = {"key": "gpu", "value": "1", "effect": "NoSchedule"}
    who = policed.config_for(CONTROLLER, "system:masters")
    about = {"name": name, "annotations": {"x": "1"}, "labels": {"y": "1"}}
    made = await admin.create(NODES, {"metadata": about, "spec": {"taints": [others]}})
    there = made["spec"]["taints"]
    wrong: list[dict[str, Any]] = [
        {"metadata": {"annotations": {"x": "2"}}},
        {"metadata": {"annotations": {"x": None}}},
        {"metadata": {"annotations": {held: "{}", "z": "1"}}},
        {"metadata": {"labels": {"y": None}}},
        {"metadata": {"finalizers": ["example.com/x"]}},
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": [*there, {"key": "x", "effect": "NoSchedule"}]}},
        {"spec": {"taints": None}},
        {"spec": {"taints": [each | {"value": "2"} for each in there]}},
        {"spec": {"taints": there[1:]}},
        {"spec": {"taints": [*there, {"key": alone, "value": "red", "effect": "NoExecute"}]}},
        {"spec": {"taints": [*there, {"key": f"{alone}s", "value": "red", "effect": "NoSchedule"}]}},
        {"spec": {"podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"]}},
        {"spec": {"providerID": "x://y"}},
        {"metadata": {"labels": {"bulkhead.dev/tenants": "red"}}},
        {"metadata": {"labels": {alone: "red", "y": "2"}}},
    ]
    async with Client(who, user_agent="tests", field_manager="controller") as controller:

        async def no(body: dict[str, Any], subresource: str | None = None) -> str:
            """What the policy says; empty where it lets the change through."""
            try:
                await controller.patch(NODES, name, body, subresource=subresource)
            except ApiError as error:
                if "ValidatingAdmissionPolicy 'bulkhead-controller-nodes'" not in str(error):
                    raise
                return str(error).partition("denied request: ")[2]
            return ""

        await until(lambda: no({"metadata": {"labels": {"in-force": secrets.token_hex(4)}}}), "the policy in force", IN_FORCE)
        told = {True: "controller: changes nothing in a node's spec", False: "controller: changes nothing in a node's metadata"}
        assert [(body, said) for body in wrong if not (said := await no(body)).startswith(told["spec" in body])] == []
        status = await no({"status": {"allocatable": {"nvidia.com/gpu": "64"}}}, "status")
        assert status == "controller: creates and deletes no node, and writes no status"
        for text in ('{"nvidia.com/gpu":5}', '{"nvidia.com/gpu":6}', None):
            assert not await no({"metadata": {"annotations": {held: text}}})
        for tenant in ("red", "blue", None):
            taint = [{"key": alone, "value": tenant, "effect": "NoSchedule"}] if tenant else []
            assert not await no({"metadata": {"labels": {alone: tenant}}, "spec": {"taints": [*there, *taint]}})
        for write in (controller.delete(NODES, name), controller.create(NODES, {"metadata": {"name": f"{name}-b"}})):
            with pytest.raises(ApiError, match="controller: creates and deletes no node"):
                await write
    await admin.delete(NODES, name)
