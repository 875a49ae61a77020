"""Pods, slices of GPUs, claims and workers of Slurm on the same nodes of an API server, and nodes that go, hang or come again.

An observer of its own sees every event. Whatever dies, goes or hangs: no GPU has two owners at any moment, no tenant uses more
than the cohort has, lenders get their quota back, and only Slurm ends its workers.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from bulkhead.api import labels, ledger, names
from bulkhead.api.objects import Obj
from bulkhead.kube.errors import NotFound
from bulkhead.kube.resources import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_QUOTAS
from bulkhead.ledger import books, given
from bulkhead.ledger.model import Share, Tenant
from controller.dispatch.loop import Ledger
from controller.slurm.board import Board
from tests.kit.background import background
from tests.kit.leading import leading
from tests.kit.ledgerhost import GPU, LINE, LedgerHost, Watched, gated, gpus, leads, lived
from tests.kit.syncerbed import until

pytestmark = pytest.mark.ledgers

MIG, CLASS = "nvidia.com/mig-1g.10gb", "gpu.example.com"
OWNERS = json.dumps([{"apiVersion": f"{names.SLURM_GROUP}/v1alpha1", "kind": "NodeSet", "name": "gpu", "controller": True}])
KEEP = "bulkhead.test/keep"
_WRITES = 80


async def running(host: LedgerHost, tenant: str, *, resource: str = GPU) -> int:
    """How many devices pods hold that run."""
    pods = await host.pods(tenant)
    return sum(gpus(pod, resource) for pod in pods if pod.get("status", {}).get("phase") == "Running" and not gated(pod))


async def slices(host: LedgerHost, node: str, number: int) -> None:
    room = {"capacity": {MIG: str(number)}, "allocatable": {MIG: str(number)}}
    await host.client.patch(NODES, node, {"status": room}, subresource="status")


async def give(host: LedgerHost, tenant: str, cohort: str, gpu: int, mig: int) -> None:
    shares = {LINE: Share(gpu, None), ("", MIG): Share(mig, None)}
    noted = given.write(Tenant(tenant, cohort, shares=shares, devices={CLASS: GPU}))
    body = {"metadata": {"annotations": {ledger.GIVEN: noted}}}
    await host.client.patch(RESOURCE_QUOTAS, names.POD_QUOTA, body, names.work_namespace(tenant))


async def mig(host: LedgerHost, tenant: str, name: str, number: int) -> None:
    pod = host.pod(tenant, name)
    pod["spec"]["containers"][0]["resources"] = {"limits": {MIG: str(number)}}
    await host.client.create(PODS, pod, names.work_namespace(tenant))


async def claim(host: LedgerHost, tenant: str, name: str, number: int) -> None:
    """As a syncer mirrors it."""
    asked = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": number}
    meta = {"name": name, "labels": {labels.SYNCED: "syncer"}}
    body = {"metadata": meta, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": asked}]}}}
    await host.client.create(RESOURCE_CLAIMS, body, names.work_namespace(tenant))


async def worker(host: LedgerHost, tenant: str, name: str, number: int) -> None:
    """A host pod of a worker of Slurm, as a syncer makes it."""
    made = host.pod(tenant, name, number)
    made["metadata"]["labels"] |= {"app.kubernetes.io/part-of": "slurm", "app.kubernetes.io/name": "slurmd"}
    noted = {labels.VIRTUAL_NAMESPACE: names.SLURM_NAMESPACE, labels.VIRTUAL_OWNERS: OWNERS, labels.VIRTUAL_UID: name}
    made["metadata"]["annotations"] |= noted
    await host.client.create(PODS, made, names.work_namespace(tenant))


@dataclass
class Slurm:
    """The cluster of one tenant, in whichever process leads: it vouches for its workers, and drains what is taken back."""

    host: LedgerHost
    tenant: str
    board: Board = field(default_factory=Board)

    @contextlib.asynccontextmanager
    async def reconciling(self) -> AsyncIterator["Slurm"]:
        async with background(self._run()):
            yield self

    def starts_again(self) -> Board:
        """In another process, which knows nothing."""
        self.board = Board()
        return self.board

    async def _run(self) -> None:
        space = names.work_namespace(self.tenant)
        while True:
            await asyncio.sleep(0.2)
            pods = await self.host.pods(self.tenant)
            mine = [pod for pod in pods if pod["metadata"]["annotations"].get(labels.VIRTUAL_OWNERS) == OWNERS]
            self.board.vouch(self.tenant, frozenset(pod["metadata"]["annotations"][labels.VIRTUAL_UID] for pod in mine))
            for name, there in (self.board.on_host(self.tenant) or {}).items():
                if there.by is not None:
                    with contextlib.suppress(NotFound):
                        await self.host.client.delete(PODS, name, space)


@dataclass
class WatchedToo(Watched):
    """In addition to what pods hold: only its Slurm ends a worker."""

    def _check(self, what: str) -> None:
        super()._check(what)
        for pod in self._pods.values():
            conditions = pod.get("status", {}).get("conditions") or []
            if pod["metadata"]["annotations"].get(labels.VIRTUAL_OWNERS) == OWNERS:
                self.broken += [f"{what}: a worker is disrupted" for each in conditions if each["type"] == "DisruptionTarget"]


@pytest.mark.crashes
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_at_each_write_with_all_kinds_of_work_on_the_same_nodes(ledger_host: LedgerHost, *, after: bool) -> None:
    host = ledger_host
    rooms = {await host.node(f"n{number}", 4): 4 for number in range(2)}
    sliced = dict.fromkeys(rooms, 3)
    for node in rooms:
        await slices(host, node, 3)
    cohort = await host.cohort("mixed", reclaim={"minRuntime": "0s", "within": "10s"})
    owner, borrower = [await host.tenant(name, 4, cohort, ceiling=8) for name in ("owner", "borrower")]
    # Of the owner's five GPUs a claim holds one, on no node here.
    await give(host, owner, cohort, 5, 6)
    await give(host, borrower, cohort, 4, 0)
    await claim(host, owner, "own", 1)
    spaces = tuple(map(names.work_namespace, (owner, borrower)))
    slurm = Slurm(host, borrower)

    async def lent() -> bool:
        return (await running(host, borrower), await running(host, borrower, resource=MIG)) == (8, 6)

    async def back() -> bool:
        mine = await running(host, owner), await running(host, owner, resource=MIG)
        return mine == (4, 6) and await running(host, borrower) == 4

    async with slurm.reconciling():
        for dies_at in range(1, _WRITES):
            watched = WatchedToo(host.client, together={spaces: 8}, room=rooms)
            sliced_too = Watched(host.client, together={spaces: 6}, room=sliced, resource=MIG)
            async with watched.watching(), sliced_too.watching():
                for number in range(2):
                    await worker(host, borrower, f"gpu-{dies_at}-{number}", 2)
                    await host.run(borrower, f"plain-{dies_at}-{number}", 2)
                    await mig(host, borrower, f"mig-{dies_at}-{number}", 3)
                assert not await lived(host, 0, lent, after=after, board=slurm.starts_again())
                for number in range(2):
                    await host.run(owner, f"mine-{dies_at}-{number}", 2)
                    await mig(host, owner, f"sliced-{dies_at}-{number}", 3)
                died = await lived(host, dies_at, back, after=after, board=slurm.starts_again())
                if died:
                    assert not await lived(host, 0, back, after=after, board=slurm.starts_again())
            await host.clear(owner, borrower)
            if not died:
                assert dies_at > 6, "it died at none of seven writes"
                return
    pytest.fail("a story without end")


async def test_a_node_that_is_deleted_and_made_again_has_what_runs_there_and_nothing_else_dies(ledger_host: LedgerHost) -> None:
    """The name is the same, and the GPUs are in use: slurm-bridge lost all pods of all nodes, or gave them out again."""
    host = ledger_host
    rooms = {await host.node(f"n{number}", 4): 4 for number in range(2)}
    team = await host.tenant("team", 12)
    space = names.work_namespace(team)
    async with leading(Ledger(host.client, leads)), Watched(host.client, room=rooms).watching():
        await host.run(team, "first", 4)
        (first,) = await host.admitted(team, 1)
        await until(lambda: _on(host, team, "first"), "the first is bound")
        node = await _on(host, team, "first")
        await host.client.delete(NODES, node)
        # Its pod is there still, and so is its GPUs' owner: what comes now goes to the other node.
        await host.run(team, "second", 4)
        await until(lambda: _on(host, team, "second"), "the second is bound")
        again = await host.node(node.removesuffix(f"-{host.mark}"), 4)
        assert again == node
        await host.run(team, "third", 4)
        await host.told(team, "third", "NoCapacity")
        found = await host.get(team, "first")
        assert found is not None
        assert (found["metadata"]["uid"], "deletionTimestamp" in found["metadata"]) == (first["metadata"]["uid"], False)
        assert await _on(host, team, "second") != node
        # What the host's garbage collector does with a pod whose node is gone.
        await host.client.delete(PODS, "first", space, grace_seconds=0)
        await until(lambda: _on(host, team, "third"), "the third is bound")
        assert await _on(host, team, "third") == node


async def _on(host: LedgerHost, tenant: str, name: str) -> str:
    pod = await host.get(tenant, name)
    return "" if pod is None else str(pod["spec"].get("nodeName") or "")


async def kept(host: LedgerHost, tenant: str, name: str, number: int) -> Obj:
    """A pod that ends only when the test lets it: its containers take that long."""
    made = host.pod(tenant, name, number)
    made["metadata"]["finalizers"] = [KEEP]
    return await host.client.create(PODS, made, names.work_namespace(tenant))


async def let_go(host: LedgerHost, tenant: str, name: str) -> None:
    body = {"metadata": {"finalizers": None}}
    with contextlib.suppress(NotFound):
        await host.client.patch(PODS, name, body, names.work_namespace(tenant))


async def test_while_a_pod_ends_with_grace_it_keeps_its_gpus(ledger_host: LedgerHost) -> None:
    host = ledger_host
    room = {await host.node("n0", 4): 4}
    team = await host.tenant("team", 8)
    space = names.work_namespace(team)
    async with leading(Ledger(host.client, leads)), Watched(host.client, room=room).watching():
        await kept(host, team, "ends", 4)
        await host.admitted(team, 1)
        await until(lambda: _on(host, team, "ends"), "it is bound")
        await host.client.delete(PODS, "ends", space)
        await host.run(team, "next", 4)
        await host.told(team, "next", "WaitingForReclaim")
        await let_go(host, team, "ends")
        await until(lambda: _on(host, team, "next"), "the next one is bound")


async def test_a_lender_does_not_wait_for_gpus_that_a_lost_node_never_gives_back(
    ledger_host: LedgerHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """slurm-bridge 49: a pod without a kubelet never ends.

    Another borrowed pod is evicted instead, and the lost one still counts.
    """
    monkeypatch.setattr(books, "OVERDUE_SECONDS", 2.0)
    host = ledger_host
    rooms = {await host.node(f"n{number}", 4): 4 for number in range(3)}
    cohort = await host.cohort("losing", reclaim={"minRuntime": "0s", "within": "10s"})
    owner, borrower = await host.tenant("owner", 8, cohort, ceiling=8), await host.tenant("borrower", 0, cohort, ceiling=8)
    spaces = tuple(map(names.work_namespace, (owner, borrower)))
    async with leading(Ledger(host.client, leads)), Watched(host.client, room=rooms, together={spaces: 8}).watching():
        await host.run(borrower, "older", 4)
        await host.admitted(borrower, 1)
        await until(lambda: _on(host, borrower, "older"), "the older one is bound")
        await kept(host, borrower, "lost", 4)
        await until(lambda: _on(host, borrower, "lost"), "the one that is lost is bound")
        gone = await _on(host, borrower, "lost")
        down = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": ""}
        down |= {"lastTransitionTime": "2026-01-01T00:00:00Z", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
        await host.client.patch(NODES, gone, {"status": {"conditions": [down]}}, subresource="status")
        await host.run(owner, "mine", 4)
        # First what was lent last, though its node is lost; then, as that never goes, the other one.
        await until(lambda: _on(host, owner, "mine"), "the owner has its own", 90)
        lost = await host.get(borrower, "lost")
        assert lost is not None
        assert "deletionTimestamp" in lost["metadata"]
        assert await host.get(borrower, "older") is None
        await let_go(host, borrower, "lost")
