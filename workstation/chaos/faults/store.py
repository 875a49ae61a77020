"""A store that is full: the target was created with a small one."""

import asyncio
import base64
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from bulkhead.api.conditions import ConditionType, condition_of
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import AlreadyExists, KubeError
from workstation.chaos import objects
from workstation.chaos.faults.scene import Fault, Scene, emptied, works
from workstation.chaos.judge import Proof

_BYTES: Final = 900_000
_POLL_SECONDS: Final = 1.0
_TOLD_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class StoreFilled(Fault):
    """Large ConfigMaps, until the target accepts no more."""

    async def inject(self, scene: Scene) -> list[Proof]:
        """Fill it, and read from the Tenant on the host that it is full."""
        amount = scene.experiment.amount
        await scene.will(f"creates up to {amount} ConfigMaps of {_BYTES} bytes")
        refused = ""
        with suppress(TimeoutError):
            async with asyncio.timeout(scene.seconds + 30):
                for number in range(amount):
                    refused = await self._write(scene, number)
                    if "space" in refused:
                        break
        return [Proof("space" in refused, f"the target refused a write: {refused[:200] or 'no'}"), await self._told(scene)]

    async def _write(self, scene: Scene, number: int) -> str:
        text = base64.b64encode(os.urandom(_BYTES * 3 // 4)).decode()
        try:
            await scene.plane.create(kinds.CONFIG_MAPS, objects.config_map(scene.run, f"large-{number}", text))
        except AlreadyExists:
            return ""
        except KubeError as error:
            await asyncio.sleep(_POLL_SECONDS / 2)
            return str(error)
        return ""

    async def _told(self, scene: Scene) -> Proof:
        clock = asyncio.get_running_loop().time
        end = clock() + _TOLD_SECONDS
        message = "no condition"
        while clock() < end:
            with suppress(KubeError):
                condition = condition_of(await scene.host.get(kinds.TENANTS, scene.target), ConditionType.STORE_HAS_ROOM)
                message = str(condition.get("message"))[:200]
                if condition.get("status") == "False":
                    return Proof(True, f"the Tenant says: {message}")
            await asyncio.sleep(_POLL_SECONDS)
        return Proof(False, f"the Tenant does not say that its store is full: {message}")

    async def lift(self, scene: Scene) -> None:
        """Delete them, as its tenant would."""
        await emptied(scene, kinds.CONFIG_MAPS)

    async def recovered(self, scene: Scene) -> str:
        """It accepts writes again, and says so."""
        try:
            condition = condition_of(await scene.host.get(kinds.TENANTS, scene.target), ConditionType.STORE_HAS_ROOM)
        except KubeError as error:
            return str(error)
        if condition.get("status") == "False":
            return f"its store: {str(condition.get('message'))[:200]}"
        return await works(scene)
