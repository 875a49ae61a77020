"""A webhook of the target's own that every write must pass: it refuses them all, or delays each."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import KubeError
from workstation.chaos import objects
from workstation.chaos.faults.scene import Fault, Scene, works
from workstation.chaos.judge import Proof
from workstation.chaos.record import Entry

_SHOW_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.5
_LIFT_TRIES: Final = 20


@dataclass(frozen=True, slots=True)
class Webhook(Fault):
    """A webhook that fails closed, or with `slow_seconds` one that delays each write by so much."""

    slow_seconds: int = 0

    async def inject(self, scene: Scene) -> list[Proof]:
        """Create it, and see what it does to a write of another object."""
        await scene.will(
            "creates a webhook for every write of the target", Entry("ValidatingWebhookConfiguration", scene.target)
        )
        await scene.plane.create(kinds.VALIDATING_WEBHOOKS, objects.webhook(scene.run, slow_seconds=self.slow_seconds))
        clock = asyncio.get_running_loop().time
        end = clock() + min(_SHOW_SECONDS, max(scene.seconds, 10.0))
        proof = Proof(False, "no write was made")
        while clock() < end and not proof.shown:
            proof = await self._write(scene)
            await asyncio.sleep(_POLL_SECONDS)
        return [proof]

    async def _write(self, scene: Scene) -> Proof:
        begin, error = time.monotonic(), ""
        body = {"data": {"text": str(begin)}}
        try:
            await scene.plane.patch(kinds.CONFIG_MAPS, objects.PROBE, body, scene.space)
        except KubeError as failure:
            error = str(failure)
        took = time.monotonic() - begin
        if self.slow_seconds:
            return Proof(
                took >= self.slow_seconds * 0.8, f"a write to the target took {took:.1f} s{error and f': {error[:150]}'}"
            )
        return Proof("webhook" in error, f"a write to the target: {error[:200] or 'accepted'}")

    async def lift(self, scene: Scene) -> None:
        """Delete it; API servers ask no webhook about webhooks."""
        name = objects.webhook(scene.run)["metadata"]["name"]
        for _ in range(_LIFT_TRIES):
            with suppress(KubeError):
                await scene.plane.delete(kinds.VALIDATING_WEBHOOKS, name)
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def recovered(self, scene: Scene) -> str:
        """The target accepts writes again."""
        return await works(scene)
