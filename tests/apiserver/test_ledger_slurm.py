"""The ledger and workers of Slurm on a real API server: noted, never evicted, shown on the board, spared when no pod waits."""

import json
from typing import Any

from bulkhead.api import labels, ledger, names
from bulkhead.kube.resources import PODS
from controller.dispatch.loop import Ledger
from controller.slurm.board import Board
from tests.kit.leading import leading
from tests.kit.ledgerhost import LedgerHost, leads
from tests.kit.syncerbed import until

OWNERS = json.dumps([{"apiVersion": f"{names.SLURM_GROUP}/v1alpha1", "kind": "NodeSet", "name": "gpu", "controller": True}])


async def worker(host: LedgerHost, tenant: str, name: str, gpus: int) -> None:
    """A host pod of a worker, as a syncer makes it."""
    made = host.pod(tenant, name, gpus)
    made["metadata"]["labels"] |= {"app.kubernetes.io/part-of": "slurm", "app.kubernetes.io/name": "slurmd"}
    made["metadata"]["annotations"] |= {labels.VIRTUAL_NAMESPACE: names.SLURM_NAMESPACE, labels.VIRTUAL_OWNERS: OWNERS}
    made["metadata"]["annotations"][labels.VIRTUAL_UID] = name
    await host.client.create(PODS, made, names.work_namespace(tenant))


async def noted(host: LedgerHost, tenant: str) -> list[str]:
    pods = await host.pods(tenant)
    return [pod["metadata"]["name"] for pod in pods if ledger.read_reclaim(pod["metadata"]["annotations"])]


async def test_the_worker_with_which_the_least_is_lost_is_noted_left_to_its_slurm_and_spared(ledger_host: LedgerHost) -> None:
    host = ledger_host
    await host.node("n0", 4)
    cohort = await host.cohort("lending", reclaim={"minRuntime": "0s", "within": "2m"})
    owner = await host.tenant("owner", 4, cohort, ceiling=4)
    borrower = await host.tenant("borrower", 0, cohort, ceiling=4)
    board, woken = Board(), list[str]()
    board.listen(woken.append)
    async with leading(Ledger(host.client, leads, board=board)):
        for name in ("gpu-0", "gpu-1"):
            await worker(host, borrower, name, 2)

        async def running() -> bool:
            return [each.get("status", {}).get("phase") for each in await host.pods(borrower)] == ["Running"] * 2

        await until(running, "both workers to run")
        board.vouch(borrower, frozenset({"gpu-0", "gpu-1"}))
        board.rank(borrower, {"gpu-0": 1, "gpu-1": 2})
        await host.run(owner, "mine", 2)

        async def marked() -> Any:
            return await noted(host, borrower) == ["gpu-0"] and (board.on_host(borrower) or {})["gpu-0"].by

        await until(marked, "the cheapest worker to be noted")
        assert borrower in woken
        (pod,) = [each for each in await host.pods(borrower) if each["metadata"]["name"] == "gpu-0"]
        assert not any(each["type"] == "DisruptionTarget" for each in pod["status"].get("conditions") or [])
        assert "deletionTimestamp" not in pod["metadata"]
        await host.client.delete(PODS, "mine", names.work_namespace(owner), grace_seconds=0)

        async def spared() -> bool:
            return not await noted(host, borrower) and (board.on_host(borrower) or {})["gpu-0"].by is None

        await until(spared, "the worker to be spared")
        # Nor was it done a moment after it was noted.
        for each in await host.pods(borrower):
            assert not any(said["type"] == "DisruptionTarget" for said in each["status"].get("conditions") or [])
            assert "deletionTimestamp" not in each["metadata"]
        await host.run(owner, "mine-again", 2)
        await until(marked, "the worker to be noted again")
        # What its Slurm does then.
        await host.client.delete(PODS, "gpu-0", names.work_namespace(borrower))
        await host.admitted(owner, 1)
        assert [each["metadata"]["name"] for each in await host.pods(borrower)] == ["gpu-1"]
    assert board.on_host(borrower) is None


async def test_a_pod_that_only_looks_like_a_worker_is_evicted_like_any_other(ledger_host: LedgerHost) -> None:
    host = ledger_host
    await host.node("n0", 2)
    cohort = await host.cohort("forging", reclaim={"minRuntime": "0s", "within": "10m"})
    owner = await host.tenant("lender", 2, cohort, ceiling=2)
    borrower = await host.tenant("forger", 0, cohort, ceiling=2)
    board = Board()
    board.vouch(borrower, frozenset())
    async with leading(Ledger(host.client, leads, board=board)):
        await worker(host, borrower, "gpu-0", 2)
        await host.admitted(borrower, 1)

        async def running() -> bool:
            return [each.get("status", {}).get("phase") for each in await host.pods(borrower)] == ["Running"]

        await until(running, "the pod to run")
        await host.run(owner, "mine", 2)
        # Long before the deadline; no Slurm controller acts here.
        await host.admitted(owner, 1)
        assert await host.pods(borrower) == []
