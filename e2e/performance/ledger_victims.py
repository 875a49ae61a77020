"""A lender reclaims quota from hundreds of pods at once. The control: the borrower deletes as many pods itself.

    borrower: 704 pods with a GPU each ──> lender: one gang that needs them all ──> noted ──> evicted ──> gang admitted
                                      └──> control: their owner deletes them, then the gang comes ──> gang admitted

Kueue's issue 13148 describes a scheduler that stopped for 700 victims. Both parts run on the same nodes. The control runs
before and after the reclaim, and its mean counts, so that other load of the machine slows both.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bulkhead.api import ledger, names
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.resources import PODS
from bulkhead.kube.watch import WatchEvent
from controller.dispatch.apply import run_bounded
from e2e.performance import ledger_process
from tests.kit.background import background
from tests.kit.ledgerhost import LedgerHost, gated

LENT: Final = "bulkhead.dev/lent"
_WAIT: Final = 240.0


@dataclass
class Times:
    """When pods of one namespace first reached a state, by name; in seconds of the monotonic clock."""

    client: Client
    space: str
    looks: Mapping[str, Callable[[Obj], bool]]
    first: dict[str, dict[str, float]] = field(default_factory=dict)
    gone: dict[str, float] = field(default_factory=dict)
    _task: asyncio.Task[None] = field(init=False)

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        listed = await self.client.list(PODS, self.space, limit=5000)
        self.first = {what: {} for what in self.looks}
        async with background(self._watch(listed.resource_version)) as self._task:
            yield

    async def _watch(self, version: str) -> None:
        # The server ends a watch that cannot keep up with it.
        while True:
            async for event in self.client.watch(PODS, self.space, resource_version=version, timeout_seconds=3600):
                version = event.meta.resource_version
                if event.type != "BOOKMARK":
                    self._note(event)

    def _note(self, event: WatchEvent) -> None:
        now, pod = time.monotonic(), event.object()
        name = pod["metadata"]["name"]
        for what, look in self.looks.items():
            if look(pod):
                self.first[what].setdefault(name, now)
        if event.type == "DELETED":
            self.gone.setdefault(name, now)

    async def all(self, what: str, number: int) -> float:
        """Wait until this number of pods have reached the state. Returns when the last one did."""
        deadline = time.monotonic() + _WAIT
        found = self.gone if what == "gone" else self.first[what]
        while len(found) < number:
            if self._task.done():
                await self._task
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.space}: {len(found)} of {number} pods are {what}")
            await asyncio.sleep(0.02)
        return sorted(found.values())[number - 1]


class Victims:
    """Both parts."""

    def __init__(self, client: Client, host: LedgerHost, kubeconfig: Path, *, victims: int, gpus: int) -> None:
        """`victims` pods with one GPU on nodes of `gpus`, which have the label `LENT`."""
        self._client = client
        self._host = host
        self._kubeconfig = kubeconfig
        self._victims = victims
        self._gpus = gpus
        self._pods = victims // gpus
        self._where = {"pool": host.mark, LENT: "yes"}

    async def measure(self, note: Callable[[str], None]) -> dict[str, Any]:
        cohort = await self._host.cohort("lent", reclaim={"minRuntime": "0s", "within": "60s"})
        self._lender = await self._host.tenant("lender", self._victims, cohort, ceiling=1_000_000)
        self._borrower = await self._host.tenant("borrower", 0, cohort, ceiling=1_000_000)
        await self._host.member()
        async with ledger_process.running(self._kubeconfig) as process:
            before = await self._control()
            found = await self._taken_back()
            controls = [before, await self._control()]
        control = round(sum(controls) / 2, 2)
        largest, written = process.spent["largest_reclaim"], process.spent["writes"]
        found |= {**largest, "writes": written, "controls_s": controls, "control_s": control}
        found["times_control"] = round(found["admitted_s"] / control, 2)
        note(
            f"{found['victims']} victims: decided in {found['decide_s']:.2f} s, all noted after {found['all_noted_s']:.1f} s, "
            f"the lender's gang admitted after {found['admitted_s']:.1f} s; if their owner deletes them: {controls[0]:.1f} s "
            f"before, {controls[1]:.1f} s after"
        )
        return {"victims": found}

    async def _control(self) -> float:
        """Seconds from the first deletion by the owner until the gang, which is created after the last one, is admitted."""
        victims = await self._lend("own")
        lender = Times(self._client, names.work_namespace(self._lender), {"admitted": _is_admitted})
        async with lender.watching():
            begin = time.monotonic()
            space = names.work_namespace(self._borrower)
            await run_bounded(victims, lambda name: self._client.delete(PODS, name, space))
            await self._ask("after")
            admitted = await lender.all("admitted", self._pods)
        await self._clear()
        return round(admitted - begin, 2)

    async def _taken_back(self) -> dict[str, Any]:
        """All figures count from the beginning of the gang's creation, except the first note.

        The first note counts from the end of the creation, when the ledger knows the whole gang.
        """
        await self._lend("lent")
        looks = {"noted": _is_noted, "evicted": _is_ending}
        borrower = Times(self._client, names.work_namespace(self._borrower), looks)
        lender = Times(self._client, names.work_namespace(self._lender), {"admitted": _is_admitted, "running": _runs})
        async with borrower.watching(), lender.watching():
            begin = time.monotonic()
            await self._ask("wants")
            created = time.monotonic()
            running = await lender.all("running", self._pods)
            admitted = await lender.all("admitted", self._pods)
            times = {
                "gang_created_s": created,
                "all_noted_s": await borrower.all("noted", self._victims),
                "all_evicted_s": await borrower.all("evicted", self._victims),
                "all_gone_s": await borrower.all("gone", self._victims),
                "admitted_s": admitted,
                "running_s": running,
            }
            first = await borrower.all("noted", 1)
        await self._clear()
        return {"first_noted_s": round(first - created, 2)} | {what: round(at - begin, 2) for what, at in times.items()}

    async def _lend(self, prefix: str) -> list[str]:
        """The borrower runs on all quota of the lender. Returns the names of its pods."""
        victims = [f"{prefix}{number}" for number in range(self._victims)]
        space = names.work_namespace(self._borrower)
        seen = Times(self._client, space, {"running": _runs})
        async with seen.watching():
            await run_bounded(victims, lambda name: self._host.run(self._borrower, name, 1, nodeSelector=self._where))
            await seen.all("running", self._victims)
        return victims

    async def _ask(self, gang: str) -> None:
        """The lender's gang: whole nodes, as many as there are."""
        pods = [f"{gang}{number}" for number in range(self._pods)]
        more = {"gang": (gang, self._pods), "nodeSelector": self._where}
        await run_bounded(pods, lambda name: self._host.run(self._lender, name, self._gpus, **more))

    async def _clear(self) -> None:
        """Delete all pods and wait until none is left."""
        for tenant in (self._lender, self._borrower):
            space = names.work_namespace(tenant)
            left = [pod["metadata"]["name"] for pod in await self._host.pods(tenant)]
            await run_bounded(left, lambda name, space=space: self._client.delete(PODS, name, space))  # type: ignore[misc]
        deadline = time.monotonic() + _WAIT
        while await self._host.pods(self._lender) or await self._host.pods(self._borrower):
            if time.monotonic() > deadline:
                raise TimeoutError("pods are left")
            await asyncio.sleep(0.5)


def _is_noted(pod: Obj) -> bool:
    return ledger.RECLAIM in (pod["metadata"].get("annotations") or {})


def _is_ending(pod: Obj) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _is_admitted(pod: Obj) -> bool:
    return not gated(pod)


def _runs(pod: Obj) -> bool:
    return bool(pod.get("status", {}).get("phase") == "Running")
