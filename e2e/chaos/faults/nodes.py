"""A node that dies, hangs or loses its cable, and returns. It needs a host of several real nodes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from e2e import commands, machine, workloads
from e2e.api import Obj
from e2e.chaos.faults.fault import Proof, Reversible, Scene, tenant_works, write_fails
from e2e.chaos.faults.naming import LABELS, SELECTOR
from e2e.poll import until
from e2e.workloads import expect

How = Literal["killed", "paused", "cut"]


@dataclass(frozen=True, slots=True)
class LoseNode(Reversible):
    """The last real node is lost for a while, with a pod of the target on it."""

    how: How = "killed"
    seconds: float = 20.0

    def unmet(self, scene: Scene) -> str:
        nodes = [node for node in scene.host.list("Node") if node["metadata"]["name"].startswith(machine.NODE)]
        return "" if len(nodes) >= 3 else f"the host has {len(nodes)} real node; this needs `bulkhead host up --nodes 3`"

    def inject(self, scene: Scene) -> Sequence[Proof]:
        node = f"{machine.NODE}-3"
        until("what an experiment that failed has left to be gone", partial(self.over, scene), seconds=60)
        spec = workloads.pod_spec(where={"kubernetes.io/hostname": node})
        scene.target.api.create(workloads.pod("on-the-node", spec, labels=LABELS))
        workloads.wait_running(scene.target.api, "on-the-node", seconds=60)
        self.undo.later(f"the return of {node}", partial(commands.bulkhead, "host", "node", "return", node))
        commands.bulkhead("host", "node", "lose", node, "--how", self.how)
        until(f"{node} to be missed", partial(_missed, scene, node), seconds=60)
        failures, tries, end = 0, 0, time.monotonic() + self.seconds
        while time.monotonic() < end:
            failures += bool(write_fails(scene.target.api))
            tries += 1
            time.sleep(0.5)
        twins = scene.host.list("Pod", scene.target.work, labels=SELECTOR)
        return [
            (True, f"the host's API says that {node} is not ready ({self.how})"),
            (failures == 0, f"{failures} of {tries} writes to the target's API failed meanwhile"),
            (len(twins) == 1, f"{len(twins)} host pods for the pod on {node}: it runs nowhere else before the loss is certain"),
        ]

    def recovered(self, scene: Scene) -> None:
        node: Obj = scene.host.get("Node", f"{machine.NODE}-3")
        condition = workloads.condition(node, "Ready") or {}
        expect(condition.get("status") == "True", "the node is not ready")
        tenant_works(scene.target)

    def over(self, scene: Scene) -> None:
        scene.target.api.delete("Pod", "on-the-node", "default", grace=0)
        left = scene.host.list("Pod", scene.target.work, labels=SELECTOR)
        expect(not left, f"{len(left)} pods are left")


def _missed(scene: Scene, name: str) -> None:
    condition = workloads.condition(scene.host.get("Node", name), "Ready") or {}
    expect(condition.get("status") != "True", "it is ready")
