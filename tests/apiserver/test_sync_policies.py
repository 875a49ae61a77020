"""NetworkPolicies and PodDisruptionBudgets between two real API servers."""

from typing import Any

from bulkhead.api.objects import Obj
from bulkhead.kube.resources import NETWORK_POLICIES, POD_DISRUPTION_BUDGETS, PODS
from syncer.translate.kinds.networkpolicy import EGRESS_ISOLATED, INGRESS_ISOLATED, MOST_TERMS_OF_TENANT
from tests.kit.syncerbed import SyncerBed, until


async def policy(bed: SyncerBed, name: str, **spec: Any) -> Obj:
    return await bed.plane.create(NETWORK_POLICIES, {"metadata": {"name": name}, "spec": spec}, bed.space)


def labelled(bed: SyncerBed, name: str, **labels: str) -> Obj:
    pod = bed.pod(name)
    pod["metadata"]["labels"] = labels
    return pod


async def test_item_82_a_policy_isolates_the_pods_that_it_selects_and_no_others(bed: SyncerBed) -> None:
    await bed.create(labelled(bed, "db", app="db"))
    await bed.create(labelled(bed, "web", app="web"))
    await bed.mirrored("db")
    await policy(bed, "db", podSelector={"matchLabels": {"app": "db"}}, policyTypes=["Ingress"])
    host = await bed.copied(NETWORK_POLICIES, "db")
    assert host["spec"]["policyTypes"] == ["Ingress"]
    assert "ingress" not in host["spec"]

    async def isolated() -> bool:
        labels = ((await bed.mirror("db")) or {})["metadata"]["labels"]
        return labels.get(INGRESS_ISOLATED) == "true" and EGRESS_ISOLATED not in labels

    await until(isolated, "label of the isolated pod")
    assert INGRESS_ISOLATED not in (await bed.mirrored("web"))["metadata"]["labels"]
    # A pod that comes later is isolated from its first moment.
    await bed.create(labelled(bed, "late", app="db"))
    assert (await bed.mirrored("late"))["metadata"]["labels"][INGRESS_ISOLATED] == "true"
    # A pod whose labels change is isolated by them.
    await bed.plane.patch(PODS, "web", {"metadata": {"labels": {"app": "db"}}}, bed.space)

    async def joined() -> bool:
        return INGRESS_ISOLATED in ((await bed.mirror("web")) or {})["metadata"]["labels"]

    await until(joined, "label follows the pod's")
    await bed.plane.delete(NETWORK_POLICIES, "db", bed.space)

    async def free() -> bool:
        labels = ((await bed.mirror("db")) or {})["metadata"]["labels"]
        return INGRESS_ISOLATED not in labels and await bed.copy(NETWORK_POLICIES, "db") is None

    await until(free, "isolation ends with the policy")


async def test_item_82_no_policy_opens_what_the_platform_closed(bed: SyncerBed) -> None:
    block = {"ipBlock": {"cidr": "0.0.0.0/0"}}
    rules = {"ingress": [{}, {"from": [block]}], "egress": [{"to": [block]}, {}]}
    await policy(bed, "open", podSelector={}, policyTypes=["Ingress", "Egress"], **rules)
    host = await bed.copied(NETWORK_POLICIES, "open")
    peers = [*host["spec"]["ingress"][0]["from"], *host["spec"]["egress"][0]["to"]]
    assert [len(host["spec"][way]) for way in ("ingress", "egress")] == [1, 1]
    assert all(peer["podSelector"]["matchLabels"]["bulkhead.dev/tenant"] == bed.tenant for peer in peers)
    assert "ipBlock" not in str(host)

    await bed.event("open", "ipBlock")


async def test_item_82_a_changed_policy_is_the_same_on_the_host(bed: SyncerBed) -> None:
    ports = [{"port": 80}]
    await policy(
        bed, "web", podSelector={}, ingress=[{"ports": ports}], egress=[{"ports": ports}], policyTypes=["Ingress", "Egress"]
    )
    await bed.copied(NETWORK_POLICIES, "web")
    change = {"spec": {"egress": None, "policyTypes": ["Ingress"], "ingress": [{"ports": [{"port": 443}]}]}}
    await bed.plane.patch(NETWORK_POLICIES, "web", change, bed.space)

    async def followed() -> bool:
        spec = ((await bed.copy(NETWORK_POLICIES, "web")) or {})["spec"]
        return "egress" not in spec and spec["ingress"][0]["ports"][0]["port"] == 443

    await until(followed, "the removed rules are gone on the host")


async def test_a_policy_that_selects_other_pods_selects_no_longer_by_what_it_did(bed: SyncerBed) -> None:
    both = {"matchLabels": {"app": "db"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}
    await policy(bed, "db", podSelector=both, policyTypes=["Ingress"])
    await bed.copied(NETWORK_POLICIES, "db")
    change = {"spec": {"podSelector": {"matchLabels": {"app": None, "role": "store"}, "matchExpressions": None}}}
    await bed.plane.patch(NETWORK_POLICIES, "db", change, bed.space)

    async def followed() -> Obj | None:
        selector = ((await bed.copy(NETWORK_POLICIES, "db")) or {})["spec"]["podSelector"]
        return selector if "role" in selector["matchLabels"] else None

    selector: Obj = await until(followed, "the new selector on the host")
    assert "app" not in selector["matchLabels"]
    assert "matchExpressions" not in selector


async def test_item_84_a_budget_counts_on_the_host_as_the_plane_computed_it(bed: SyncerBed) -> None:
    spec = {"maxUnavailable": "25%", "selector": {"matchLabels": {"app": "web"}}}
    await bed.plane.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": "web"}, "spec": spec}, bed.space)

    async def counted(healthy: int) -> None:
        """What the plane's controller writes."""
        status = {
            "observedGeneration": 1, "desiredHealthy": healthy, "currentHealthy": 8, "expectedPods": 8, "disruptionsAllowed": 2,
        }  # fmt: skip
        await bed.plane.patch(POD_DISRUPTION_BUDGETS, "web", {"status": status}, bed.space, subresource="status")

    for number in range(8):
        labelled = bed.pod(f"web-{number}")
        labelled["metadata"]["labels"] = {"app": "web"}
        await bed.create(labelled)
    for number in range(8):
        await bed.mirrored(f"web-{number}")

    async def becomes(healthy: int) -> Obj:
        async def followed() -> Obj | None:
            found = await bed.copy(POD_DISRUPTION_BUDGETS, "web")
            return found if found is not None and found["spec"]["minAvailable"] == healthy else None

        found: Obj = await until(followed, f"{healthy} on the host")
        return found

    await counted(6)
    host = await becomes(6)
    assert "maxUnavailable" not in host["spec"]
    assert host["spec"]["selector"]["matchLabels"]["bulkhead.dev/tenant"] == bed.tenant
    await counted(7)
    await becomes(7)
    # Whatever a tenant writes there: no more than there are.
    await counted(100_000)
    await becomes(8)


async def test_more_policies_than_there_is_room_for_wait_until_there_is(bed: SyncerBed) -> None:
    """All tenants share who enforces them; the oldest of a tenant's policies come first."""
    rule = {"ports": [{"port": port} for port in range(1, 201)]}
    big = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [rule] * 4}
    full = MOST_TERMS_OF_TENANT // 1602
    for number in range(full):
        await policy(bed, f"a{number:02}", **big)
    await policy(bed, "z-late", **big)
    await policy(bed, "z-much", podSelector={}, ingress=[rule] * 6)
    await bed.copied(NETWORK_POLICIES, f"a{full - 1:02}")

    async def reported() -> bool:
        listed = [each for name in ("z-late", "z-much") for each in await bed.events(name)]
        return {each["involvedObject"]["name"] for each in listed if each["reason"] == "TooLarge"} == {"z-late", "z-much"}

    await until(reported, "events of what is refused")
    assert await bed.copy(NETWORK_POLICIES, "z-late") is None
    await bed.plane.delete(NETWORK_POLICIES, "a00", bed.space)
    await bed.copied(NETWORK_POLICIES, "z-late")
    assert await bed.copy(NETWORK_POLICIES, "z-much") is None
