"""A host whose pods are metered: namespaces of one tenant on a real API server, a clock that the test moves, clients that fail.

What it never does is to judge: it makes pods, lets time pass, and reads what is stored.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from bulkhead.api import labels, ledger, names
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Timeout
from bulkhead.metering import usagebook
from bulkhead.metering.usagebook import Page, Sums
from controller.metering.usage import Usage
from tests.kit import lag
from tests.kit.fakeclock import FakeClock
from tests.kit.syncerbed import until

GPU = "nvidia.com/gpu"
START = datetime(2026, 11, 1, 12, 0, 0, tzinfo=UTC)


class MeteredHost:
    """Namespaces of one tenant and of a system on a real API server, and a clock that the test moves."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.tenant = f"t{secrets.token_hex(4)}"
        self.work = names.work_namespace(self.tenant)
        self.system = f"system-{self.tenant}"
        self.clock = FakeClock(START)
        self.since: dict[str, float] = {}

    async def begin(self) -> None:
        for name in (self.work, self.system):
            await self.client.create(kinds.NAMESPACES, {"metadata": {"name": name}})

    async def clear(self) -> None:
        for pod in (await self.client.list(kinds.PODS, self.work)).items:
            await self.delete(pod["metadata"]["name"])
        for config_map in (await self.client.list(kinds.CONFIG_MAPS, self.system, label_selector=labels.USAGE)).items:
            await self.client.delete(kinds.CONFIG_MAPS, config_map["metadata"]["name"], self.system)

    def moment(self) -> float:
        return self.clock.now().timestamp()

    async def run(self, name: str, gpus: int = 1, **more: Any) -> None:
        """Bind a pod now, by the test's clock, which the stamps in its status go by; its container starts 10 s later."""
        noted = {labels.VIRTUAL_NAMESPACE: "ml", labels.VIRTUAL_NAME: name, labels.VIRTUAL_UID: f"{name}-virtual"}
        meta = {"name": name, "labels": {labels.SYNCED: "syncer"}, "annotations": noted}
        container = {"name": "c", "image": "x", "resources": {"limits": {GPU: gpus} if gpus else {}}}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0} | more
        await self.client.create(kinds.PODS, {"metadata": meta, "spec": spec}, self.work)
        self.since[name] = self.moment()
        await self.say(name, "Running", {"running": {"startedAt": whole(self.since[name] + 10)}})
        target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await self.client.create_subresource(kinds.PODS, name, "binding", binding, self.work)

    async def say(self, name: str, phase: str, state: Obj) -> None:
        bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": whole(self.since[name])}
        containers = [{"name": "c", "image": "x", "imageID": "", "ready": True, "restartCount": 0, "state": state}]
        status = {"phase": phase, "conditions": [bound], "containerStatuses": containers}
        await self.client.patch(kinds.PODS, name, {"status": status}, self.work, subresource="status")

    async def end(self, name: str) -> None:
        began = whole(self.since[name] + 10)
        await self.say(
            name, "Succeeded", {"terminated": {"exitCode": 0, "startedAt": began, "finishedAt": whole(self.moment())}}
        )

    async def delete(self, name: str) -> None:
        await self.client.delete(kinds.PODS, name, self.work, grace_seconds=0)

    def usage(self, client: Client | None = None, **more: Any) -> Usage:
        self.metered = Usage(client or self.client, self.system, clock=self.clock, **more)
        return self.metered

    async def caught_up(self) -> None:
        """Wait until the last one that was made has seen what there is: what it sees later it counts from then on."""
        usage = self.metered

        async def so() -> bool:
            copies = [usage._pods, *([usage._claims._informer] if usage._claims.watched else [])]
            return all([await lag.caught_up(copy) for copy in copies])

        await until(so, "what there is to be seen")

    async def pages(self) -> list[Page]:
        listed = await self.client.list(kinds.CONFIG_MAPS, self.system, label_selector=labels.USAGE)
        return usagebook.newest(usagebook.page_of(config_map) for config_map in listed.items)

    async def sums(self) -> dict[str, Sums]:
        """By owner, in whole seconds."""
        rows = [row for page in await self.pages() for row in page.rows()]
        found = usagebook.summed(rows, 0, lambda account: account)
        assert {account.tenant for account in found} <= {self.tenant}
        return {account.owner: Sums(*(round(amount / 1000) for amount in sums)) for account, sums in found.items()}

    async def sums_are(self, **owners: tuple[int, int]) -> None:
        wanted = {f"Pod/{name}": Sums(*both, 0) for name, both in owners.items()}

        async def so() -> bool:
            return await self.sums() == wanted

        try:
            await until(so, "sums")
        except AssertionError:
            assert await self.sums() == wanted

    async def pass_time(self, seconds: float, *, counted: bool = True) -> None:
        """Let time pass in steps at each of which the sleeping controller wakes."""
        while seconds > 0:
            step = min(seconds, 60.0)
            if counted:
                await until(self._sleeps, "the controller to sleep")
                await self.caught_up()
            self.clock.advance(step)
            seconds -= step
        if counted:
            await until(self._sleeps, "the controller to sleep")

    async def _sleeps(self) -> bool:
        return self.clock.sleepers > 0

    async def seen(self, usage: Usage, count: int) -> None:
        async def so() -> bool:
            return usage._meter is not None and len(usage._meter._known) == count

        await until(so, f"{count} pods to be seen")


def whole(at: float) -> str:
    return ledger.moment(at)[:19] + "Z"


class Dying:
    """A client whose controller is killed right before or right after the host did its Nth write."""

    def __init__(self, client: Client, fatal: int, *, after: bool) -> None:
        self._client = client
        self._fatal = fatal
        self._after = after
        self.writes = 0
        self.died = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        return self._deadly(found) if name in {"create", "patch", "delete"} else found

    def _deadly(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def write(*arguments: Any, **more: Any) -> Any:
            self.writes += 1
            if self.died.is_set() or (self.writes == self._fatal and not self._after):
                self.died.set()
                await asyncio.Event().wait()
            answer = await call(*arguments, **more)
            if self.writes == self._fatal:
                self.died.set()
                await asyncio.Event().wait()
            return answer

        return write


class Silent:
    """A client to whose Nth patch no answer comes, although the host did it."""

    def __init__(self, client: Client, lost: int) -> None:
        self._client = client
        self._lost = lost

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def patch(self, *arguments: Any, **more: Any) -> Any:
        answer = await self._client.patch(*arguments, **more)
        self._lost -= 1
        if self._lost == 0:
            raise Timeout("no answer")
        return answer


async def gone(usage: Usage) -> bool:
    assert usage._meter is not None
    return all(known.gone for known in usage._meter._known.values())
