"""Pods that request more GPUs than any cluster has."""

import asyncio
from dataclasses import dataclass
from typing import Final

from bulkhead.api import labels
from bulkhead.api.conditions import condition_of
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import AlreadyExists, KubeError
from workstation.chaos import objects
from workstation.chaos.faults.scene import Fault, Scene, emptied, work, works
from workstation.chaos.judge import Proof

_GPUS: Final = 1_000_000
_POLL_SECONDS: Final = 0.5
_TRIES: Final = 40


@dataclass(frozen=True, slots=True)
class NeverFits(Fault):
    """They stay in the target, and say why."""

    async def inject(self, scene: Scene) -> list[Proof]:
        """Create them, and read on both sides what became of them."""
        amount = scene.experiment.amount
        await scene.will(f"creates up to {amount} pods")
        clock = asyncio.get_running_loop().time
        end = clock() + scene.seconds
        for number in range(amount):
            if refused := await self._refused(scene, f"never-{number}"):
                return [Proof(False, f"the target did not accept pod never-{number}: {refused[:200]}")]
        while True:
            proofs = await self._looked(scene, amount)
            if all(proof.shown for proof in proofs) or clock() >= end:
                return proofs
            await asyncio.sleep(_POLL_SECONDS)

    async def _refused(self, scene: Scene, name: str) -> str:
        """Create a pod: why it was not accepted; empty if it was. A new namespace takes none without its ServiceAccount."""
        why = ""
        for _ in range(_TRIES):
            try:
                await scene.plane.create(kinds.PODS, objects.gpu_pod(scene.run, name, _GPUS))
            except AlreadyExists:
                return ""
            except KubeError as error:
                why = str(error)
            else:
                return ""
            await asyncio.sleep(_POLL_SECONDS)
        return why

    async def _looked(self, scene: Scene, amount: int) -> list[Proof]:
        pods = (await scene.plane.list(kinds.PODS, scene.space, label_selector=scene.selector)).items
        waiting = [condition_of(pod, "PodScheduled") for pod in pods]
        told = [condition for condition in waiting if condition.get("status") == "False" and condition.get("message")]
        uids = {str(pod["metadata"]["uid"]) for pod in pods}
        host = (await scene.host.list_metadata(kinds.PODS, work(scene), label_selector=labels.VIRTUAL_UID)).items
        there = [item for item in host if (item["metadata"].get("labels") or {}).get(labels.VIRTUAL_UID) in uids]
        why = f", for example: {str(told[0].get('message'))[:150]}" if told else ""
        return [
            Proof(len(told) == amount, f"{len(told)} of {amount} pods say why they wait{why}"),
            Proof(not there, f"{len(there)} of them are on the host"),
        ]

    async def lift(self, scene: Scene) -> None:
        """Delete them."""
        await emptied(scene, kinds.PODS)

    async def recovered(self, scene: Scene) -> str:
        """The target works."""
        return await works(scene)
