"""Faults of the target's syncer: killed at the boundaries of its writes, stopped and resumed, and twice at the same time."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from e2e import machine, workloads
from e2e.api import Obj
from e2e.chaos.faults import parts
from e2e.chaos.faults.fault import Fault, Proof, Reversible, Scene, of_pod, tenant_works
from e2e.chaos.faults.naming import LABELS, SELECTOR, marker
from e2e.poll import NotYetError, until
from e2e.workloads import expect, is_ready

_VIRTUAL_NAME: Final = "bulkhead.dev/virtual-name"
Boundary = Literal["pod seen", "host pod created", "pod bound", "status written", "deletion seen", "host pod leaving"]
BOUNDARIES: Final[tuple[Boundary, ...]] = (
    "pod seen", "host pod created", "pod bound", "status written", "deletion seen", "host pod leaving",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class KillSyncerBeforeStatus(Fault):
    """SIGKILL to the target's syncer when its host pod appears, before the syncer writes the status of the virtual pod."""

    attempts: int = 5

    def inject(self, scene: Scene) -> Sequence[Proof]:
        proofs: list[Proof] = []
        for attempt in range(self.attempts):
            # The moment is short, so this process must not wait for a core.
            machine.stand(machine.Standing.PROBE)
            try:
                proofs = self._try(scene, f"between-{attempt}")
            finally:
                machine.stand(machine.Standing.LOAD)
            if all(proven for proven, _ in proofs):
                return proofs
            scene.note(f"attempt {attempt + 1}: {proofs[-1][1]}")
            until("the syncer to be back", partial(parts.syncer_ready, scene), seconds=180)
        return proofs

    def _try(self, scene: Scene, name: str) -> list[Proof]:
        host, target = scene.host, scene.target
        processes = parts.syncers(scene)
        version = host.collection_version("Pod", target.work)
        found: list[Proof] = []

        def strike() -> None:
            for event in host.watch("Pod", target.work, version=version, seconds=15):
                metadata = event["object"]["metadata"]
                if event["type"] == "ADDED" and (metadata.get("annotations") or {}).get(_VIRTUAL_NAME) == name:
                    found.append(machine.kill(processes, "syncer of the target"))
                    return

        watcher = threading.Thread(target=strike, daemon=True)
        watcher.start()
        target.api.create(workloads.pod(name))
        watcher.join(timeout=20)
        virtual = target.api.get("Pod", name, "default")
        status = virtual.get("status", {})
        untouched = not status.get("podIP") and not status.get("containerStatuses") and not virtual["spec"].get("nodeName")
        text = f"the host pod of {name} existed and the virtual pod had {'no' if untouched else 'a'} status and binding yet"
        return [*(found or [(False, f"no host pod of {name} appeared")]), (untouched, text)]

    def recovered(self, scene: Scene) -> None:
        pods = scene.target.api.list("Pod", "default")
        between = [pod for pod in pods if pod["metadata"]["name"].startswith("between-")]
        if not between:
            raise NotYetError("no pod is left that was created while the syncer died")
        for pod in between:
            if not is_ready(pod):
                raise NotYetError(workloads.describe(pod))
            workloads.host_pod_of(scene.host, pod, scene.target.work)
        tenant_works(scene.target)

    def over(self, scene: Scene) -> None:
        _remove(scene, "between-")


@dataclass(frozen=True, slots=True)
class KillSyncerAtBoundaries(Fault):
    """SIGKILL to the target's syncer at each boundary of its work on a pod, as a watch of its own sees the boundary."""

    boundaries: tuple[Boundary, ...] = BOUNDARIES

    def inject(self, scene: Scene) -> Sequence[Proof]:
        proofs: list[Proof] = []
        for number, boundary in enumerate(self.boundaries):
            until("the syncer to be ready", partial(parts.syncer_ready, scene), seconds=120)
            proofs.append(self._strike(scene, boundary, f"edge-{number}-{marker()}"))
            if number % 2:
                parts.fresh_pods(scene.host, scene.target.plane, "syncer")
        return proofs

    def _strike(self, scene: Scene, boundary: Boundary, name: str) -> Proof:
        on_host = boundary in {"host pod created", "host pod leaving"}
        api, space = (scene.host, scene.target.work) if on_host else (scene.target.api, "default")
        version, processes = api.collection_version("Pod", space), parts.syncers(scene)
        found: list[Proof] = []

        def watch() -> None:
            for event in api.watch("Pod", space, version=version, seconds=40):
                if _about(event["object"], name) and _REACHED[boundary](event):
                    found.append(machine.kill(processes, f"syncer of the target, when {boundary}"))
                    return

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        scene.target.api.create(workloads.pod(name, labels=LABELS))
        if boundary in {"deletion seen", "host pod leaving"}:
            workloads.wait_running(scene.target.api, name, seconds=60)
            scene.target.api.delete("Pod", name, "default")
        watcher.join(timeout=45)
        return found[0] if found else (False, f"the boundary was not seen: {boundary}")

    def recovered(self, scene: Scene) -> None:
        parts.syncer_ready(scene)
        for pod in scene.target.api.list("Pod", "default", labels=SELECTOR):
            expect(not pod["metadata"].get("deletionTimestamp"), workloads.describe(pod))
            expect(is_ready(pod), workloads.describe(pod))
            workloads.host_pod_of(scene.host, pod, scene.target.work)
        here = len(scene.target.api.list("Pod", "default", labels=SELECTOR))
        there = len(scene.host.list("Pod", scene.target.work, labels=SELECTOR))
        expect(here == there, f"{there} host pods for {here} virtual ones")
        tenant_works(scene.target)

    def over(self, scene: Scene) -> None:
        _remove(scene, "edge-")


def _about(pod: Obj, name: str) -> bool:
    metadata = pod["metadata"]
    return name in (metadata["name"], (metadata.get("annotations") or {}).get(_VIRTUAL_NAME))


_REACHED: Final[Mapping[Boundary, Callable[[Obj], bool]]] = {
    "pod seen": lambda event: event["type"] == "ADDED",
    "host pod created": lambda event: event["type"] == "ADDED",
    "pod bound": lambda event: bool(event["object"]["spec"].get("nodeName")),
    "status written": lambda event: bool(event["object"].get("status", {}).get("podIP")),
    "deletion seen": lambda event: bool(event["object"]["metadata"].get("deletionTimestamp")),
    "host pod leaving": lambda event: bool(event["object"]["metadata"].get("deletionTimestamp")),
}


def _remove(scene: Scene, prefix: str) -> None:
    left = [pod["metadata"]["name"] for pod in scene.target.api.list("Pod", "default")]
    mine = [name for name in left if name.startswith(prefix)]
    for name in mine:
        scene.target.api.delete("Pod", name, "default", grace=0)
    expect(not mine, f"{len(mine)} pods are left")


@dataclass(frozen=True, slots=True)
class FreezeSyncer(Reversible):
    """SIGSTOP to the target's syncer for a while; then it goes on with what it knew before."""

    seconds: float = 40.0

    def inject(self, scene: Scene) -> Sequence[Proof]:
        find = partial(parts.syncers, scene)
        self.undo.later("thaw the syncer", partial(parts.thaw, find))
        name = f"asleep-{marker()}"
        with parts.frozen(find, "syncer of the target") as seen:
            time.sleep(1)
            scene.target.api.create(workloads.pod(name, labels=LABELS))
            time.sleep(self.seconds)
            status = scene.target.api.get("Pod", name, "default").get("status", {})
        text = f"a pod created meanwhile had {'a' if status.get('podIP') else 'no'} address"
        return [seen.proof(), (not status.get("podIP"), text)]

    def recovered(self, scene: Scene) -> None:
        for pod in scene.target.api.list("Pod", "default", labels=SELECTOR):
            expect(is_ready(pod), workloads.describe(pod))
        tenant_works(scene.target)

    def over(self, scene: Scene) -> None:
        _remove(scene, "asleep-")


@dataclass(frozen=True, slots=True)
class TwoSyncers(Reversible):
    """A second syncer of the target beside the first; the first is stopped, the second works, and the first resumes.

    The second one is a pod with the same spec that no Deployment owns. So nothing but the experiment ends it.
    """

    together: float = 15.0
    apart: float = 20.0
    pods: int = 6

    def inject(self, scene: Scene) -> Sequence[Proof]:
        first = parts.pods_named(scene.host, scene.target.plane, "syncer-")[0]
        second = copy_of(first, "syncer2")
        find_first = partial(machine.processes_of_pod, of_pod(first), "syncer")
        self.undo.later("thaw the first syncer", partial(parts.thaw, find_first))
        self.undo.later("the second syncer", partial(remove_copy, scene))
        scene.host.create(second)
        until("the second syncer", partial(_second_ready, scene), seconds=90)
        both = len(parts.syncers(scene))
        self._churn(scene, "both", self.together)
        with parts.frozen(find_first, "first syncer of the target") as seen:
            time.sleep(1)
            written = self._churn(scene, "alone", self.apart)
        time.sleep(3)
        now = len(parts.syncers(scene))
        return [
            (both >= 2 and now >= 2, f"{both} syncers ran at the same time, and {now} after the first had resumed"),
            seen.proof(0.8),
            (written > 0, f"{written} pods ran that were created while the first stood still"),
        ]

    def _churn(self, scene: Scene, prefix: str, seconds: float) -> int:
        """Create pods, and delete every second one; returns how many of the others run at the end."""
        names = [f"twice-{prefix}-{number}-{marker()}" for number in range(self.pods)]
        for name in names:
            scene.target.api.create(workloads.pod(name, labels=LABELS))
        time.sleep(seconds / 2)
        for name in names[::2]:
            scene.target.api.delete("Pod", name, "default", grace=0)
        time.sleep(seconds / 2)
        found = {pod["metadata"]["name"]: pod for pod in scene.target.api.list("Pod", "default", labels=SELECTOR)}
        return sum(name in found and is_ready(found[name]) for name in names[1::2])

    def recovered(self, scene: Scene) -> None:
        virtual = scene.target.api.list("Pod", "default", labels=SELECTOR)
        for pod in virtual:
            expect(is_ready(pod), workloads.describe(pod))
            workloads.host_pod_of(scene.host, pod, scene.target.work)
        host = scene.host.list("Pod", scene.target.work, labels=SELECTOR)
        expect(len(host) == len(virtual), f"{len(host)} host pods for {len(virtual)} virtual ones")
        tenant_works(scene.target)

    def over(self, scene: Scene) -> None:
        _remove(scene, "twice-")
        expect(len(parts.syncers(scene)) == 1, f"{len(parts.syncers(scene))} syncers")


def copy_of(pod: Obj, name: str) -> Obj:
    """A pod with the same spec and labels that belongs to no ReplicaSet, and is not counted by one."""
    labels = {key: value for key, value in pod["metadata"]["labels"].items() if key != "pod-template-hash"}
    dropped = {"nodeName", "serviceAccount", "priority", "preemptionPolicy"}
    spec = {key: value for key, value in pod["spec"].items() if key not in dropped}
    spec["volumes"] = [item for item in spec["volumes"] if not item["name"].startswith("kube-api-access")]
    for container in spec["containers"]:
        mounts = container["volumeMounts"]
        container["volumeMounts"] = [item for item in mounts if not item["name"].startswith("kube-api-access")]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": pod["metadata"]["namespace"], "labels": labels},
        "spec": spec,
    }


def _second_ready(scene: Scene) -> None:
    pod = scene.host.get("Pod", "syncer2", scene.target.plane)
    expect(is_ready(pod), workloads.describe(pod))


def remove_copy(scene: Scene) -> None:
    scene.host.delete("Pod", "syncer2", scene.target.plane, grace=0)
    until("the second syncer to be gone", partial(_second_gone, scene), seconds=60)


def _second_gone(scene: Scene) -> None:
    expect(scene.host.find("Pod", "syncer2", scene.target.plane) is None, "syncer2 is there")
