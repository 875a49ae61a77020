"""Two API servers: what a tenant cannot have is told at once by an event, and on pods by their condition."""

import asyncio
from typing import Any

from bulkhead.kube.resources import EVENTS, PODS, SERVICES
from tests.kit.syncerbed import SyncerBed, until
from tests.kit.translationsamples import HERE
from tests.kit.yamlfiles import load

CASES: Any = load(HERE / "alternatives.yaml")


async def test_item_99_what_is_not_allowed_is_told_with_the_alternative(bed: SyncerBed) -> None:
    for name, case in CASES["pods"].items():
        pod = bed.pod(name.lower(), **case["spec"])
        pod["metadata"]["labels"] = case.get("labels", {})
        if case["spec"].get("nodeName"):
            pod["spec"]["nodeName"] = bed.node
        await bed.plane.create(PODS, pod)
    for name, case in CASES["pods"].items():
        await bed.event(name.lower(), case["told"], reason="PodSecurityViolation")
        if not case["spec"].get("nodeName"):
            condition = await bed.condition(name.lower()) or {}
            assert (condition["reason"], condition["message"]) == ("PodSecurityViolation", case["told"])
    assert await bed.host_pods() == []


async def test_item_99_a_service_that_is_not_public_says_so_and_works_within(bed: SyncerBed) -> None:
    for name in ("load-balancer", "node-port"):
        case = CASES["services"][name]
        spec = case["spec"] | {"selector": {"app": "web"}, "ports": [{"port": 80}]}
        await bed.plane.create(SERVICES, {"metadata": {"name": name, "namespace": bed.space}, "spec": spec})
    for name in ("load-balancer", "node-port"):
        await bed.event(name, CASES["services"][name]["told"][0], reason="NotSupported")
        assert (await bed.copied(SERVICES, name))["spec"]["type"] == "ClusterIP"


async def test_item_99_many_such_services_get_one_event_each_at_a_bounded_rate(bed: SyncerBed) -> None:
    spec = {"type": "NodePort", "selector": {"app": "web"}, "ports": [{"port": 80}]}
    names = [f"s{number}" for number in range(30)]
    await asyncio.gather(
        *(bed.plane.create(SERVICES, {"metadata": {"name": name, "namespace": bed.space}, "spec": spec}) for name in names)
    )

    async def told() -> bool:
        return len(await of_services()) >= len(names)

    async def of_services() -> list[Any]:
        events = (await bed.plane.list(EVENTS, bed.space)).items
        return [event for event in events if event["involvedObject"]["kind"] == "Service" and event["reason"] == "NotSupported"]

    await until(told, "one event for each")
    written = {event["metadata"]["name"]: event["metadata"]["resourceVersion"] for event in await of_services()}
    # Each is changed ten times more, and reconciled as often: no further event, and no further write of it.
    for turn in range(10):
        label = {"metadata": {"labels": {"turn": str(turn)}}}
        await asyncio.gather(*(bed.plane.patch(SERVICES, name, label, bed.space) for name in names))
    await bed.patrolled()
    assert {event["metadata"]["name"]: event["metadata"]["resourceVersion"] for event in await of_services()} == written
