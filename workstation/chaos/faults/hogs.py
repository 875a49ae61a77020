"""Pods of the target that take CPU, memory or processes without end, within the limits of an ordinary pod."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings, text
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import KubeError, NotFound
from workstation.chaos import objects, observe
from workstation.chaos.faults.scene import Fault, Scene, emptied, works
from workstation.chaos.judge import Proof

_RUN_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.5
_LOG_BYTES: Final = 4096
_CPU: Final = """
import json, sys, time
end = time.monotonic() + json.loads(sys.argv[1])["seconds"]
last = 0.0
while time.monotonic() < end:
    for _ in range(100000):
        pass
    if time.process_time() - last >= 0.5:
        last = time.process_time()
        print("computed for %.1f s" % last)
time.sleep(600)
"""
_MEMORY: Final = """
import time
held = []
print("takes memory")
while True:
    held.append(bytearray(b"x" * (4 << 20)))
    time.sleep(0.01)
"""
_PROCESSES: Final = """
import json, os, sys, time
most, count, why = json.loads(sys.argv[1])["most"], 0, "the bound of this program"
while count < most:
    try:
        if os.fork() == 0:
            time.sleep(json.loads(sys.argv[1])["seconds"])
            os._exit(0)
    except OSError as error:
        why = str(error)
        break
    count += 1
print("started %d processes, then: %s" % (count, why))
time.sleep(600)
"""


@dataclass(frozen=True, slots=True)
class Hog(Fault):
    """One pod; `shown` says from the pod and its log whether it does its work."""

    source: str
    shown: Callable[[Obj, str], Proof]
    memory: str = "128Mi"

    async def inject(self, scene: Scene) -> list[Proof]:
        """Run it for the time of the fault, and read its status and its log."""
        name = scene.experiment.name
        await scene.will(f"runs pod {name}")
        order = {"seconds": scene.seconds + _RUN_SECONDS, "most": scene.experiment.amount}
        pod = objects.program_pod(scene.run, name, scene.image, self.source, order, memory=self.memory)
        started = await self._started(scene, pod)
        if not started.shown:
            return [started]
        await asyncio.sleep(scene.seconds)
        found = await scene.plane.get(kinds.PODS, name, scene.space)
        return [started, self.shown(found, await self._log(scene, name))]

    async def _started(self, scene: Scene, pod: Obj) -> Proof:
        clock = asyncio.get_running_loop().time
        end, why, name = clock() + _RUN_SECONDS, "", str(pod["metadata"]["name"])
        while clock() < end:
            try:
                found = await scene.plane.get(kinds.PODS, name, scene.space)
            except NotFound:
                try:
                    await scene.plane.create(kinds.PODS, pod)
                except KubeError as error:  # a new namespace has no ServiceAccount yet
                    why = str(error)
            except KubeError as error:
                why = str(error)
            else:
                if text(mapping(found.get("status")).get("phase")) == "Running" or observe.restarts_of(found):
                    return Proof(True, f"pod {name} runs on node {mapping(found.get('spec')).get('nodeName')}")
                why = trouble(found)
            await asyncio.sleep(_POLL_SECONDS)
        return Proof(False, f"pod {name} did not run within {_RUN_SECONDS:g} s: {why or 'no reason is given'}")

    async def _log(self, scene: Scene, name: str) -> str:
        path = f"{kinds.PODS.path(scene.space, name, 'log')}?tailLines=5&limitBytes={_LOG_BYTES}"
        with suppress(KubeError):
            return (await scene.plane.get_raw(path)).decode(errors="replace")
        return ""

    async def lift(self, scene: Scene) -> None:
        """Delete it."""
        await emptied(scene, kinds.PODS)

    async def recovered(self, scene: Scene) -> str:
        """It is gone, and the target works."""
        try:
            left = (await scene.plane.list_metadata(kinds.PODS, scene.space, label_selector=scene.selector)).items
        except KubeError as error:
            return str(error)
        return "its pod is still there" if left else await works(scene)


def trouble(pod: Mapping[str, Any]) -> str:
    """Why a pod does not run: what its container waits for, or what its scheduling says."""
    status = mapping(pod.get("status"))
    for container in mappings(status.get("containerStatuses"), 4):
        waiting = mapping(mapping(container.get("state")).get("waiting"))
        if waiting:
            return f"{text(waiting.get('reason'))}: {text(waiting.get('message'))[:200]}"
    for condition in mappings(status.get("conditions"), 16):
        if condition.get("status") == "False" and condition.get("message"):
            return f"{text(condition.get('reason'))}: {text(condition.get('message'))[:200]}"
    return ""


def computed(_: Obj, log: str) -> Proof:
    """Whether it computed."""
    last = log.strip().rpartition("\n")[2][:100]
    return Proof("computed for" in last, f"its log says: {last or 'nothing'}")


def killed_at_limit(pod: Obj, _: str) -> Proof:
    """Whether it was ended for its memory."""
    reasons = []
    for container in mappings(mapping(pod.get("status")).get("containerStatuses"), 4):
        for state in ("state", "lastState"):
            ended = mapping(mapping(container.get(state)).get("terminated"))
            reasons += [text(ended.get("reason"))] if ended else []
    times = observe.restarts_of(pod)
    return Proof("OOMKilled" in reasons, f"its container ended with {', '.join(reasons) or 'nothing'}, {times} restarts")


def started_many(_: Obj, log: str) -> Proof:
    """Whether it started processes."""
    line = next((line for line in log.splitlines() if line.startswith("started ")), "")[:150]
    count = line.split()[1] if line else "0"
    return Proof(count.isdecimal() and int(count) >= 50, f"its log says: {line or 'nothing'}")


CPU: Final = Hog(_CPU, computed)
MEMORY: Final = Hog(_MEMORY, killed_at_limit)
PROCESSES: Final = Hog(_PROCESSES, started_many, memory="512Mi")
