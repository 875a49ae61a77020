"""Pods of the platform, deleted without grace: by the API, this is the nearest to a process that dies."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.api.podphase import serves
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import KubeError
from workstation.chaos import observe
from workstation.chaos.faults.scene import Fault, Scene, works
from workstation.chaos.judge import Proof

_GONE_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.3


@dataclass(frozen=True, slots=True)
class PodsDeleted(Fault):
    """Some pods of the platform; `pods` finds them."""

    what: str
    pods: Callable[[Scene], Awaitable[list[Obj]]]

    async def inject(self, scene: Scene) -> list[Proof]:
        """Delete the pods, and see in a later list that they are gone."""
        found = {str(pod["metadata"]["uid"]): pod["metadata"] for pod in await self.pods(scene)}
        if not found:
            return [Proof(False, f"{self.what}: there is no pod to delete")]
        await scene.will(f"deletes {', '.join(sorted(str(pod['name']) for pod in found.values()))}")
        for uid, pod in found.items():
            await scene.host.delete(kinds.PODS, str(pod["name"]), str(pod["namespace"]), grace_seconds=0, uid=uid)
        return [await self._gone(scene, set(found))]

    async def _gone(self, scene: Scene, uids: set[str]) -> Proof:
        clock = asyncio.get_running_loop().time
        end = clock() + _GONE_SECONDS
        left = uids
        while clock() < end:
            left = uids & {str(pod["metadata"]["uid"]) for pod in await self.pods(scene)}
            if not left:
                return Proof(True, f"{self.what}: pods with the UIDs {', '.join(sorted(uids))} are gone")
            await asyncio.sleep(_POLL_SECONDS)
        return Proof(False, f"{self.what}: {len(left)} of {len(uids)} pods were still there after {_GONE_SECONDS:g} s")

    async def lift(self, scene: Scene) -> None:
        """Nothing to undo: their controllers make others."""

    async def recovered(self, scene: Scene) -> str:
        """Other pods are ready, and the target works."""
        try:
            found = await self.pods(scene)
        except KubeError as error:
            return str(error)
        if not found or not all(serves(pod) for pod in found):
            return f"{self.what}: no new pod is ready"
        return await works(scene)


async def plane(scene: Scene) -> list[Obj]:
    """The first member of the target's plane."""
    pods = await observe.own_pods(scene.host, scene.target, "plane")
    return [pod for pod in pods if pod["metadata"]["name"] == "plane-0"]


async def syncer(scene: Scene) -> list[Obj]:
    """The target's syncer."""
    return await observe.own_pods(scene.host, scene.target, "syncer")


async def controller(scene: Scene) -> list[Obj]:
    """Bulkhead's controller."""
    return await observe.controllers(scene.host, scene.namespace)
