"""Partitions, loss, a narrow line and delay between the parts of the target, and a tenant without DNS or a registry."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

from e2e import workloads
from e2e.api import Obj
from e2e.chaos.faults import packets, parts
from e2e.chaos.faults.fault import (
    Fault,
    Proof,
    Reversible,
    Scene,
    quietly,
    tenant_ready,
    tenant_works,
    write,
    write_anew_fails,
    write_fails,
)
from e2e.chaos.faults.naming import LABELS, SELECTOR, marker
from e2e.poll import until
from e2e.workloads import expect, is_ready
from workstation.hostcluster.component import API_PORT, NODE_ADDRESS

Line = Literal["plane", "host"]
Direction = Literal["both", "there", "back"]
_PLANE_PORT: Final = 443
_PROXY_PORT: Final = 15443
_MARK: Final = 4919


def _syncer_pod(scene: Scene) -> Obj:
    return until("the target's syncer", lambda: _only(parts.pods_named(scene.host, scene.target.plane, "syncer-")), seconds=60)


def _only(pods: list[Obj]) -> Obj:
    living = [pod for pod in pods if pod.get("status", {}).get("podIP") and not pod["metadata"].get("deletionTimestamp")]
    expect(len(living) == 1, f"{len(living)} pods")
    return living[0]


@dataclass(frozen=True, slots=True)
class Partition(Reversible):
    """All packets between the target's syncer and its plane, or the host's API, are dropped; or those of one direction."""

    line: Line = "plane"
    direction: Direction = "both"
    seconds: float = 40.0

    def inject(self, scene: Scene) -> Sequence[Proof]:
        syncer = packets.address(_syncer_pod(scene))
        other = packets.address(parts.plane_pod(scene)) if self.line == "plane" else NODE_ADDRESS
        there, back = packets.between(syncer, other)
        if self.line == "host":  # the kubelet probes the syncer from the same address
            there, back = f"{there} tcp dport {API_PORT}", f"{back} tcp sport {API_PORT}"
        rules = {"both": (there, back), "there": (there,), "back": (back,)}[self.direction]
        before = _restarts_of_syncer(scene)
        self.undo.later("the table of drops", packets.clear)
        packets.drop(rules)
        name = f"apart-{marker()}"
        scene.target.api.create(workloads.pod(name, labels=LABELS))
        time.sleep(self.seconds)
        status = scene.target.api.get("Pod", name, "default").get("status", {})
        lost = packets.dropped()
        restarts = _restarts_of_syncer(scene) - before
        text = f"a pod created meanwhile had {'an' if status.get('podIP') else 'no'} address; {restarts} restarts of the syncer"
        return [(lost > 0, f"{lost} packets between {syncer} and {other} were dropped"), (not status.get("podIP"), text)]

    def recovered(self, scene: Scene) -> None:
        for pod in scene.target.api.list("Pod", "default", labels=SELECTOR):
            expect(is_ready(pod), workloads.describe(pod))
            workloads.host_pod_of(scene.host, pod, scene.target.work)
        tenant_works(scene.target)

    def over(self, scene: Scene) -> None:
        remove_labelled(scene)
        expect(not packets.present(), "the table of drops is there")


def remove_labelled(scene: Scene) -> None:
    left = [pod["metadata"]["name"] for pod in scene.target.api.list("Pod", "default", labels=SELECTOR)]
    for name in left:
        scene.target.api.delete("Pod", name, "default", grace=0)
    expect(not left, f"{len(left)} pods are left")


def _restarts_of_syncer(scene: Scene) -> int:
    pods = parts.pods_named(scene.host, scene.target.plane, "syncer-")
    return sum(sum(workloads.restarts(pod).values()) for pod in pods if pod["status"].get("containerStatuses"))


def _effort(scene: Scene, seconds: float, *, anew: bool = False) -> tuple[int, int, float]:
    """Writes of the target for a while: how many there were, how many failed, and the longest in seconds."""
    count, failed, longest, end = 0, 0, 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.monotonic()
        failed += bool(write_anew_fails(scene.target) if anew else write_fails(scene.target.api, timeout=10))
        longest = max(longest, time.monotonic() - begin)
        count += 1
        time.sleep(0.1)
    return count, failed, longest


@dataclass(frozen=True, slots=True)
class MemberApart(Reversible):
    """One of the target's three members is cut off from the other two; the majority serves on."""

    member: int = 2
    seconds: float = 30.0

    def unmet(self, scene: Scene) -> str:
        return parts.too_few_members(scene)

    def inject(self, scene: Scene) -> Sequence[Proof]:
        pods = {pod["metadata"]["name"]: pod for pod in parts.pods_named(scene.host, scene.target.plane, "plane-")}
        alone = packets.address(pods.pop(f"plane-{self.member}"))
        others = [packets.address(pod) for pod in pods.values()]
        self.undo.later("the table of drops", packets.clear)
        packets.drop([rule for other in others for rule in packets.between(alone, other)])
        count, failed, longest = _effort(scene, self.seconds, anew=True)
        lost = packets.dropped()
        text = f"{failed} of {count} writes failed, the longest took {longest:.1f} s"
        return [(lost > 0, f"{lost} packets between {alone} and {others} were dropped"), (failed < count / 2, text)]

    def recovered(self, scene: Scene) -> None:
        tenant_ready(scene)
        tenant_works(scene.target)

    def over(self, scene: Scene) -> None:  # noqa: ARG002 -- of this machine
        expect(not packets.present(), "the table of drops is there")


@dataclass(frozen=True, slots=True)
class Loss(Reversible):
    """A share of all packets from and to the target's plane is dropped at random."""

    percent: int = 20
    seconds: float = 30.0

    def inject(self, scene: Scene) -> Sequence[Proof]:
        plane = packets.address(parts.plane_pod(scene))
        self.undo.later("the table of drops", packets.clear)
        packets.drop((f"ip saddr {plane}", f"ip daddr {plane}"), percent=self.percent)
        count, failed, longest = _effort(scene, self.seconds)
        lost = packets.dropped()
        text = f"{count} writes of the target, {failed} of them failed, the longest took {longest:.1f} s"
        return [(lost > 0, f"{lost} packets of {plane} were dropped ({self.percent} %)"), (longest > 0.2 or failed > 0, text)]

    def over(self, scene: Scene) -> None:  # noqa: ARG002 -- of this machine
        expect(not packets.present(), "the table of drops is there")


@dataclass(frozen=True, slots=True)
class NarrowLine(Reversible):
    """The line to the target's plane has a rate of a few kbit/s."""

    rate: str = "256kbit"
    seconds: float = 30.0

    def inject(self, scene: Scene) -> Sequence[Proof]:
        device = packets.cable(parts.plane_pod(scene))
        self.undo.later(f"the limit of {device}", partial(packets.unlimit_rate, device))
        packets.limit_rate(device, self.rate)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "narrow", "namespace": "default"}}
        begin = time.monotonic()
        quietly(lambda: scene.target.api.apply(body | {"data": {"text": "x" * 300_000}}))
        took = time.monotonic() - begin
        _, failed, longest = _effort(scene, self.seconds)
        waited, lost = packets.overlimits(device)
        return [
            (waited + lost > 0, f"{waited} packets had to wait at {device}, {lost} were dropped"),
            (took > 2, f"a write of 300 kB took {took:.1f} s; small ones took up to {longest:.1f} s, and {failed} failed"),
        ]

    def over(self, scene: Scene) -> None:
        scene.target.api.delete("ConfigMap", "narrow", "default")
        expect(not packets.limited(), f"still limited: {packets.limited()}")


@dataclass(frozen=True, slots=True)
class Delay(Reversible):
    """Everything between the target's syncer and its plane arrives late, by a TCP proxy in the syncer's network."""

    delay: float = 0.5
    seconds: float = 20.0

    def inject(self, scene: Scene) -> Sequence[Proof]:
        pod = _syncer_pod(scene)
        process = packets.any_process(pod)
        address = scene.target.api.host
        log = Path(tempfile.mkdtemp(prefix="bulkhead-delay-")) / "passed"
        normal = self._time_to_address(scene)
        proxy = packets.start_proxy(process, _PROXY_PORT, _MARK, self.delay, log)
        # The proxy ends first: without the table, the end of its connections would not reach the syncer.
        self.undo.later("the proxy's log", partial(shutil.rmtree, log.parent, ignore_errors=True))
        self.undo.later("the detour", partial(packets.close_detour, process))
        self.undo.later("the proxy", partial(_end, proxy))
        until("the proxy to listen", lambda: expect(log.exists(), "no proxy"), seconds=20)
        packets.open_detour(process, address, _PLANE_PORT, _PROXY_PORT, _MARK)
        time.sleep(self.seconds / 2)
        slow = self._time_to_address(scene)
        time.sleep(self.seconds / 2)
        pieces, size = (int(word) for word in log.read_text().split())
        return [
            (pieces > 5, f"the proxy passed on {pieces} pieces ({size >> 10} KiB), each {self.delay * 1000:.0f} ms late"),
            (slow > normal + self.delay, f"a new pod had its address after {slow:.1f} s instead of {normal:.1f} s"),
        ]

    def _time_to_address(self, scene: Scene) -> float:
        name, begin = f"late-{marker()}", time.monotonic()
        scene.target.api.create(workloads.pod(name, labels=LABELS))

        def addressed() -> None:
            expect(bool(scene.target.api.get("Pod", name, "default").get("status", {}).get("podIP")), "no address")

        until(f"the address of {name}", addressed, seconds=60, interval=0.1)
        return time.monotonic() - begin

    def over(self, scene: Scene) -> None:
        remove_labelled(scene)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(timeout=10)


@dataclass(frozen=True, slots=True)
class WithoutNames(Reversible):
    """The target's DNS is away: all its packets are dropped, and its program stands still."""

    seconds: float = 20.0

    def inject(self, scene: Scene) -> Sequence[Proof]:
        pod = _only(parts.pods_named(scene.host, scene.target.plane, "dns-"))
        address = packets.address(pod)
        api = scene.target.api
        api.create(workloads.pod("asks", workloads.pod_spec(("sh", "-c", _ASKING)), labels=LABELS))
        workloads.wait_running(api, "asks", seconds=60)
        until("an answer", partial(self._said, scene, "answer"), seconds=60)
        self.undo.later("the table of drops", packets.clear)
        packets.drop((f"ip daddr {address} meta l4proto {{ tcp, udp }} th dport {{ 53, 10053 }}",))
        until("the pod to miss its DNS", partial(self._said, scene, "silence"), seconds=60)
        time.sleep(self.seconds)
        write(api)
        lost = packets.dropped()
        return [
            (lost > 0, f"{lost} packets to the target's DNS at {address} were dropped"),
            (True, "a pod of the target asked for a name in vain, and its API took writes meanwhile"),
        ]

    def _said(self, scene: Scene, word: str) -> None:
        query = {"tailLines": "1"}
        last = scene.target.api.text("/api/v1/namespaces/default/pods/asks/log", query).strip()
        expect(last == word, f"the pod wrote {last!r}")

    def recovered(self, scene: Scene) -> None:
        self._said(scene, "answer")
        tenant_works(scene.target)

    def over(self, scene: Scene) -> None:
        remove_labelled(scene)
        expect(not packets.present(), "the table of drops is there")


_ASKING: Final = (
    "while true; do if timeout 2 nslookup kubernetes.default.svc.cluster.local >/dev/null; "
    "then echo answer; else echo silence; fi; sleep 1; done"
)


@dataclass(frozen=True, slots=True)
class WithoutRegistry(Fault):
    """Pods of the target whose image comes from a registry that does not answer."""

    pods: int = 12
    seconds: float = 20.0

    def inject(self, scene: Scene) -> Sequence[Proof]:
        spec = workloads.pod_spec()
        spec["containers"][0] |= {"image": "registry.invalid:5000/absent:1", "imagePullPolicy": "Always"}
        for number in range(self.pods):
            scene.target.api.create(workloads.pod(f"absent-{number}", spec, labels=LABELS))
        told = until("the pods to be told", partial(self._told, scene), seconds=60)
        time.sleep(self.seconds)
        there = workloads.pod(f"cached-{marker()}", labels=LABELS)
        scene.target.api.create(there)
        workloads.wait_running(scene.target.api, there["metadata"]["name"], seconds=60)
        return [(told == self.pods, f"{told} pods wait for their image; a pod with an image of the node ran meanwhile")]

    def _told(self, scene: Scene) -> int:
        waiting = [_reason(pod) for pod in scene.target.api.list("Pod", "default", labels=SELECTOR)]
        told = sum(reason in {"ErrImagePull", "ImagePullBackOff"} for reason in waiting)
        expect(told == self.pods, f"{told} of {self.pods} pods say that their image cannot be pulled")
        return told

    def over(self, scene: Scene) -> None:
        remove_labelled(scene)


def _reason(pod: Obj) -> str:
    statuses = pod.get("status", {}).get("containerStatuses") or [{}]
    return str(statuses[0].get("state", {}).get("waiting", {}).get("reason") or "")
