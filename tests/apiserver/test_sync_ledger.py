"""The ledger's gate between two real API servers: the test plays the ledger, which admits, judges and takes back."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bulkhead.api import ledger
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.resources import (
    COSCHEDULING_GROUPS,
    EVENTS,
    NODES,
    POD_GROUPS,
    PODS,
    RESOURCE_QUOTAS,
)
from syncer.translate.kinds import gate
from tests.kit.coscheduling import coscheduling
from tests.kit.servers import ApiServer, by_token
from tests.kit.syncerbed import SyncerBed, until

pytestmark = pytest.mark.ledgers

GPU = "nvidia.com/gpu"
STRATEGIC = "application/strategic-merge-patch+json"
GATED: dict[str, Any] = {"gatedResources": [GPU], "gatedGangs": True}


class Gated(SyncerBed):
    """A tenant whose GPUs are lent, and what the ledger does with its host pods."""

    def gang_pod(self, name: str, of: str, size: int, gpus: int = 1, **meta: Any) -> Obj:
        made = self.gpu_pod(name, gpus)
        made["metadata"] |= {
            "labels": {"kueue.x-k8s.io/pod-group-name": of},
            "annotations": {"kueue.x-k8s.io/pod-group-total-count": str(size)} | meta,
        }
        return made

    async def gated(self, name: str) -> Obj:
        host = await self.mirrored(name)
        assert gate.is_gated(host)
        return host

    async def judge(self, host: Obj, reason: str, message: str) -> None:
        note = {"metadata": {"annotations": {ledger.VERDICT: ledger.write_verdict(reason, message)}}}
        await self.host.patch(PODS, host["metadata"]["name"], note, self.work)

    async def admit(self, host: Obj) -> Obj:
        """One patch: the gate away, the node pinned, when and where to noted."""
        admitted = ledger.write_admitted(ledger.Admitted(1_800_000_000.0, self.node, pinned=True))
        spec: Obj = {"schedulingGates": [{"name": ledger.GATE, "$patch": "delete"}]}
        spec["nodeSelector"] = {"kubernetes.io/hostname": self.node}
        body = {"metadata": {"annotations": {ledger.ADMITTED: admitted}}, "spec": spec}
        return await self.host.patch(PODS, host["metadata"]["name"], body, self.work, content_type=STRATEGIC)

    async def announce(self, host: Obj, cause: str, message: str) -> None:
        note = {ledger.RECLAIM: ledger.write_reclaim(ledger.Reclaimed(1_800_000_000.0, cause, message))}
        await self.host.patch(PODS, host["metadata"]["name"], {"metadata": {"annotations": note}}, self.work)

    async def says(self, name: str, reason: str, text: str = "") -> None:
        async def so() -> bool:
            found = await self.condition(name) or {}
            return found.get("reason") == reason and text in found.get("message", "")

        await until(so, f"{name} says {reason}: {text}")

    async def another(self, name: str, before: Obj) -> Obj:
        """The host pod that was made after an earlier one."""

        async def made() -> Obj | None:
            found = await self.mirror(name)
            return found if found is not None and found["metadata"]["uid"] != before["metadata"]["uid"] else None

        found: Obj = await until(made, f"{name} made again")
        return found

    async def stays_away(self, name: str) -> None:
        """Everything was reconciled once more, and the host has no such pod."""
        await self.patrolled()
        assert await self.mirror(name) is None


@pytest.fixture
async def bed(host_client: Client, plane_client: Client) -> AsyncIterator[Gated]:
    async with Gated.open(host_client, plane_client, limits={GPU: 8}, **GATED) as opened:
        assert isinstance(opened, Gated)
        yield opened


async def test_item_94_95_a_pod_waits_at_the_gate_says_why_and_goes_on_when_it_is_admitted(bed: Gated) -> None:
    await bed.create(bed.gpu_pod("train"))
    host = await bed.gated("train")
    await bed.says("train", "SchedulingGated")
    await bed.judge(host, "CohortExhausted", f"asks 1, nobody of {bed.work} has any left")
    await bed.says("train", "CohortExhausted", f"asks 1, nobody of {bed.space} has any left")
    await bed.event("train", "asks 1, nobody", reason="CohortExhausted")
    await bed.judge(host, "BehindInQueue", "2 pods come before it")
    await bed.says("train", "BehindInQueue")
    await bed.event("train", "2 pods come before it", reason="BehindInQueue")
    pinned = await bed.admit(host)
    # Neither the pin nor the notes are a difference; a label of the tenant's still reaches the pod.
    await bed.quiet()
    await bed.plane.patch(PODS, "train", {"metadata": {"labels": {"step": "2"}}}, bed.space)

    async def labelled() -> bool:
        return ((await bed.mirror("train")) or {})["metadata"]["labels"].get("step") == "2"

    await until(labelled, "the label on the host pod")
    now = await bed.mirror("train") or {}
    assert now["metadata"]["uid"] == host["metadata"]["uid"]
    assert now["spec"]["nodeSelector"] == pinned["spec"]["nodeSelector"]
    assert not gate.is_gated(now)
    assert set(ledger.BY_LEDGER[:2]) <= set(now["metadata"]["annotations"])
    await bed.bind(now)
    await bed.run(now)

    async def runs() -> bool:
        return (await bed.virtual("train") or {})["status"]["phase"] == "Running"

    await until(runs, "it runs")
    events = [each["reason"] for each in (await bed.plane.list(EVENTS, bed.space)).items]
    assert sorted(each for each in events if each in {"CohortExhausted", "BehindInQueue"}) == [
        "BehindInQueue",
        "CohortExhausted",
    ]


async def test_item_94_the_tenants_own_gate_goes_and_the_ledgers_stays(bed: Gated) -> None:
    made = bed.gpu_pod("train")
    made["spec"]["schedulingGates"] = [{"name": "example.com/review"}, {"name": ledger.GATE}]
    await bed.create(made)
    host = await bed.gated("train")
    assert len(host["spec"]["schedulingGates"]) == 3
    await bed.plane.patch(PODS, "train", {"spec": {"schedulingGates": []}}, bed.space)

    async def alone() -> bool:
        gates = ((await bed.mirror("train")) or {})["spec"].get("schedulingGates")
        return bool(gates == [{"name": ledger.GATE}])

    await until(alone, "only the ledger's gate is left")


async def test_item_37_94_a_pod_that_is_made_again_for_other_cordons_is_gated_again(bed: Gated) -> None:
    await bed.create(bed.gpu_pod("train"))
    first = await bed.admit(await bed.gated("train"))

    async def shown() -> bool:
        return await bed.virtual_node() is not None

    await until(shown, "the node in the plane")
    await bed.plane.patch(NODES, bed.node, {"spec": {"unschedulable": True}})
    again = await bed.another("train", first)
    assert gate.is_gated(again)
    assert ledger.ADMITTED not in again["metadata"]["annotations"]


async def test_item_96_a_better_pod_takes_the_place_of_a_worse_one_that_waits(bed: Gated) -> None:
    # The limit comes from the settings: no controller here subtracts deleted pods from a ResourceQuota. Times of creation are
    # whole seconds, so priorities decide the order here.
    usual = await bed.priority("usual", 3)
    for number in range(2):
        made = bed.gang_pod(f"low-{number}", "low", 2, 4)
        made["spec"]["priorityClassName"] = usual
        await bed.create(made)
    low = [await bed.gated(f"low-{number}") for number in range(2)]
    for each in low:
        await bed.judge(each, "NoCapacity", "no node has room")
    await bed.says("low-0", "NoCapacity")
    # A worse one waits.
    await bed.create(bed.gpu_pod("later", 4))
    await bed.says("later", "QuotaExceeded", "asked for 4 nvidia.com/gpu, 8 of 8 are in use")
    urgent = await bed.priority("urgent", 7)
    high = bed.gpu_pod("high", 4)
    high["spec"]["priorityClassName"] = urgent
    await bed.create(high)
    found = await bed.gated("high")
    assert found["metadata"]["annotations"][ledger.OWN_PRIORITY] == "7"
    assert "priorityClassName" not in found["spec"]
    # The gang went whole, and waits with what came before it in the order still before it.
    for number in range(2):
        await bed.says(f"low-{number}", "QuotaExceeded")
        await bed.stays_away(f"low-{number}")
    assert await bed.mirror("high") is not None
    # An admitted pod is not evicted, whichever pods wait.
    await bed.admit(found)
    higher = bed.gpu_pod("higher", 8)
    higher["spec"]["priorityClassName"] = urgent
    await bed.create(higher)
    await bed.says("higher", "QuotaExceeded")
    await bed.patrolled()
    assert ((await bed.mirror("high")) or {})["metadata"]["uid"] == found["metadata"]["uid"]
    # When it ends the gang that waits since before is whole again: its own place in the order counts.
    await bed.plane.delete(PODS, "higher", bed.space)
    await bed.plane.delete(PODS, "high", bed.space)
    for number in range(2):
        await bed.gated(f"low-{number}")
    await bed.stays_away("later")


async def test_item_95_96_beyond_the_ceiling_and_a_gang_larger_than_it_say_so_at_once(bed: Gated) -> None:
    await bed.quota(8)
    counts = {"nominal": 6, "ceiling": 8, "used": 0, "borrowed": 0, "lent": 0, "borrowable": 2}
    note = {"metadata": {"annotations": {ledger.STANDING: ledger.write_standing({("", GPU): counts})}}}
    await bed.host.patch(RESOURCE_QUOTAS, "tenant-quota", note, bed.work)
    await bed.idle()
    await bed.create(bed.gpu_pod("huge", 9))
    await bed.says("huge", "QuotaExceeded", "(your own quota is 6, pods that have started hold 0, 2 more can be borrowed now)")
    for number in range(3):
        await bed.create(bed.gang_pod(f"gang-{number}", "big", 3, 3))
    await bed.says("gang-0", "QuotaExceeded", "the 3 pods of its gang ask for 9 nvidia.com/gpu")
    for number in range(3):
        await bed.stays_away(f"gang-{number}")
    # A positive control: neither holds up what fits.
    await bed.create(bed.gpu_pod("fits", 8))
    await bed.gated("fits")


async def test_item_97_what_runs_is_announced_and_then_ended_with_its_reason(bed: Gated) -> None:
    await bed.create(bed.gpu_pod("train"))
    host = await bed.admit(await bed.gated("train"))
    await bed.bind(host)
    await bed.run(host)
    await bed.announce(host, "ReclaimedBorrowed", "Another tenant needs its quota.")
    await bed.event("train", "it ends by 2027-01-15T08:00:00.000Z at the latest", reason="ReclaimedBorrowed")
    await bed.plane.patch(PODS, "train", {"metadata": {"finalizers": ["example.com/watch"]}}, bed.space)
    await bed.host.delete(PODS, host["metadata"]["name"], bed.work, grace_seconds=20)

    async def ending() -> Obj | None:
        found = await bed.virtual("train") or {}
        return found if found["metadata"].get("deletionTimestamp") else None

    found = await until(ending, "the virtual pod is evicted")
    target = next(each for each in found["status"]["conditions"] if each["type"] == "DisruptionTarget")
    assert (target["status"], target["reason"], target["message"]) == (
        "True", "ReclaimedBorrowed", "Another tenant needs its quota.",
    )  # fmt: skip
    assert found["metadata"]["deletionGracePeriodSeconds"] == 20
    await bed.kubelet_ends(host)
    await bed.plane.patch(PODS, "train", {"metadata": {"finalizers": None}}, bed.space)


@pytest.mark.parametrize("held", [False, True])
async def test_item_97_what_never_had_a_node_waits_at_the_gate_again(bed: Gated, held: bool) -> None:
    await bed.create(bed.gang_pod("train", "pair", 2))
    host = await bed.admit(await bed.gated("train"))
    name, virtual = host["metadata"]["name"], await bed.virtual("train") or {}
    if held:
        await bed.host.patch(PODS, name, {"metadata": {"finalizers": ["example.com/held"]}}, bed.work)
    await bed.announce(host, "GangNotBound", "not all pods of its gang had a node in time.")
    await bed.host.delete(PODS, name, bed.work)
    if held:
        await bed.idle()
        assert not (await bed.virtual("train") or {})["metadata"].get("deletionTimestamp")
        await bed.host.patch(PODS, name, {"metadata": {"finalizers": None}}, bed.work)
    again = await bed.another("train", host)
    assert gate.is_gated(again)
    assert again["metadata"]["annotations"][ledger.GANG] == "pair"
    assert (await bed.virtual("train") or {})["metadata"]["uid"] == virtual["metadata"]["uid"]


# -- gangs


async def test_item_93_pods_that_say_different_sizes_or_nonsense_are_refused_where_their_tenant_reads_it(bed: Gated) -> None:
    await bed.create(bed.gang_pod("a0", "a", 3))
    host = await bed.gated("a0")
    assert (host["metadata"]["annotations"][ledger.GANG], host["metadata"]["annotations"][ledger.GANG_SIZE]) == ("a", "3")
    await bed.create(bed.gang_pod("a1", "a", 4))
    await bed.says("a1", "Malformed", "gives the gang 3 pods, but this pod gives it 4 pods")
    other = bed.gang_pod("b0", "b", 2)
    other["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] = "1k"
    await bed.create(other)
    await bed.says("b0", "Malformed", "'1k', but must be a number of pods")
    await bed.create(bed.gang_pod("c0", "c", 2, **{"kueue.x-k8s.io/podset-required-topology": "example.com/hidden"}))
    await bed.says("c0", "NotAllowed", "is not a label that nodes show")


async def test_item_93_a_group_of_the_coscheduling_plugin_is_read_from_the_plane(
    host_client: Client, plane_client: Client
) -> None:
    async with coscheduling(plane_client), Gated.open(host_client, plane_client, limits={GPU: 8}, **GATED) as bed:
        assert isinstance(bed, Gated)
        made = bed.pod("rank-0")
        made["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "mpi"}
        await bed.create(made)
        await bed.says("rank-0", "ReferenceMissing", "waiting for the PodGroup 'mpi' of scheduling.x-k8s.io")
        group = {"apiVersion": COSCHEDULING_GROUPS.api_version, "kind": "PodGroup", "metadata": {"name": "mpi"}}
        await bed.plane.create(COSCHEDULING_GROUPS, group | {"spec": {"minMember": 2}}, bed.space)
        host = await bed.gated("rank-0")
        assert host["metadata"]["annotations"][ledger.GANG_SIZE] == "2"
        # Made again, it is another gang: with the later pods the ledger would never have all of either.
        await bed.plane.delete(COSCHEDULING_GROUPS, "mpi", bed.space)
        await bed.plane.create(COSCHEDULING_GROUPS, group | {"spec": {"minMember": 3}}, bed.space)
        again = await bed.another("rank-0", host)
        assert again["metadata"]["annotations"][ledger.GANG_SIZE] == "3"
        late = bed.pod("rank-1")
        late["metadata"]["labels"] = made["metadata"]["labels"]
        await bed.create(late)
        names = {(await bed.gated(name))["metadata"]["annotations"][ledger.GANG] for name in ("rank-0", "rank-1")}
        assert names == {again["metadata"]["annotations"][ledger.GANG]}
        # One that the ledger has admitted stays.
        admitted, before = await bed.admit(again), await bed.gated("rank-1")
        await bed.plane.delete(COSCHEDULING_GROUPS, "mpi", bed.space)
        await bed.plane.create(COSCHEDULING_GROUPS, group | {"spec": {"minMember": 4}}, bed.space)
        await bed.another("rank-1", before)
        await bed.patrolled()
        assert (await bed.mirrored("rank-0"))["metadata"]["uid"] == admitted["metadata"]["uid"]
        await bed.plane.delete(COSCHEDULING_GROUPS, "mpi", bed.space)


async def test_item_91_93_a_pod_group_goes_to_the_host_and_is_a_gang_to_the_ledger(
    host_client: Client, plane_client: Client
) -> None:
    async with Gated.open(host_client, plane_client, limits={GPU: 8}, podGroups=True, **GATED) as bed:
        assert isinstance(bed, Gated)
        host = await grouped(bed)
        assert host["spec"]["schedulingGroup"]["podGroupName"].startswith("train-")


async def test_item_91_93_a_host_without_pod_groups_leaves_the_gang_to_the_ledger(
    own_server: ApiServer, plane_client: Client
) -> None:
    async with (
        Client(by_token(own_server.admin), user_agent="tests", field_manager="tests") as host_client,
        Gated.open(host_client, plane_client, limits={GPU: 8}, podGroups=True, **GATED) as bed,
    ):
        assert isinstance(bed, Gated)
        host = await grouped(bed)
        assert "schedulingGroup" not in host["spec"]
        await bed.idle()
        # A group that is made again while the syncer is away is another gang.
        await bed.stop()
        await bed.plane.delete(POD_GROUPS, "train", bed.space)
        await bed.plane.patch(POD_GROUPS, "train", {"metadata": {"finalizers": None}}, bed.space)
        await bed.plane.create(POD_GROUPS, {"metadata": {"name": "train"}, "spec": spec_of(2)}, bed.space)
        await bed.start()
        again = await bed.another("train-0", host)
        assert again["metadata"]["annotations"][ledger.GANG] != host["metadata"]["annotations"][ledger.GANG]
        events = (await bed.plane.list(EVENTS, bed.space)).items
        assert not [each for each in events if each["reason"] == "NotSupported"], json.dumps(events)


def spec_of(minimum: int) -> Obj:
    return {
        "schedulingPolicy": {"gang": {"minCount": minimum}},
        "schedulingConstraints": {"topology": [{"key": "bulkhead.dev/rack"}]},
    }


async def grouped(bed: Gated) -> Obj:
    """A pod of a PodGroup, on the host."""
    await bed.plane.create(POD_GROUPS, {"metadata": {"name": "train"}, "spec": spec_of(2)}, bed.space)
    await bed.create(bed.pod("train-0", schedulingGroup={"podGroupName": "train"}))
    host = await bed.gated("train-0")
    noted = host["metadata"]["annotations"]
    assert noted[ledger.GANG].startswith("train.")
    assert (noted[ledger.GANG_SIZE], noted[ledger.GANG_TOPOLOGY]) == ("2", "required:bulkhead.dev/rack")
    return host
