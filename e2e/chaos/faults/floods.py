"""Floods of objects: definitions, ConfigMaps, events, and pods beyond quota, written as fast as the target accepts them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from e2e import names, workloads
from e2e.api import Api, ApiError, Obj, UnreachableError, path_of
from e2e.chaos.faults.crashes import remove_pods
from e2e.chaos.faults.crew import each_of
from e2e.chaos.faults.fault import Fault, Proof, Reversible, Scene, quietly
from e2e.chaos.faults.naming import LABELS, SELECTOR
from e2e.poll import until
from e2e.workloads import expect

_NAMESPACE: Final = "flood"
_FLOOD: Final = {"labelSelector": SELECTOR}
_POUR_SECONDS: Final = 600.0


def insist(api: Api, obj: Obj) -> bool:
    """Create an object; an overloaded plane may refuse for a while, and the flood does not give up at once."""
    for _ in range(20):
        try:
            api.create(obj)
        except UnreachableError:
            time.sleep(0.5)
        except ApiError as exc:
            if exc.status == 409:
                return True
            if exc.status == 422:
                raise
            time.sleep(0.5)
        else:
            return True
    return False


def pour(api: Api, make: Callable[[int], Obj], count: int, writers: int) -> int:
    """Create that many objects in several threads. Returns how many were accepted."""
    return sum(each_of(range(count), lambda number: insist(api, make(number)), threads=writers, seconds=_POUR_SECONDS))


def make_room(api: Api) -> None:
    """The namespace of the flood, usable by pods; one that an earlier flood left is waited for until it is gone."""

    def made() -> None:
        api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}})
        phase = api.get("Namespace", _NAMESPACE)["status"]["phase"]
        expect(phase == "Active", f"namespace {_NAMESPACE} is {phase}")
        expect(api.find("ServiceAccount", "default", _NAMESPACE) is not None, "no default ServiceAccount")

    until(f"namespace {_NAMESPACE}", made, seconds=60)


def drain_away(api: Api, *kinds: str) -> None:
    """Delete what the flood left, with one request for each kind."""
    for kind in kinds:
        quietly(partial(api.request, "DELETE", path_of(kind, _NAMESPACE), query=_FLOOD, timeout=180))
    quietly(lambda: api.delete("Namespace", _NAMESPACE))


def _metadata(name: str) -> Obj:
    return {"name": name, "namespace": _NAMESPACE, "labels": dict(LABELS)}


@dataclass(frozen=True, slots=True)
class Flood(Fault):
    """Thousands of ConfigMaps and hundreds of CRDs."""

    config_maps: int = 5000
    definitions: int = 200
    writers: int = 4

    def inject(self, scene: Scene) -> Sequence[Proof]:
        api = scene.target.api
        make_room(api)
        begin = time.monotonic()
        accepted = pour(api, _definition, self.definitions, self.writers) + pour(
            api, _config_map, self.config_maps, self.writers
        )
        took = time.monotonic() - begin
        there = len(api.list("ConfigMap", _NAMESPACE, labels=SELECTOR))
        kinds = len(api.list("CustomResourceDefinition", labels=SELECTOR))
        proven = there >= self.config_maps and kinds >= self.definitions
        return [(proven, f"{there} ConfigMaps and {kinds} CRDs in the target after {took:.0f} s ({accepted} accepted)")]

    def lift(self, scene: Scene) -> None:
        drain_away(scene.target.api, "CustomResourceDefinition", "ConfigMap")

    def over(self, scene: Scene) -> None:
        """A plane that removes hundreds of definitions needs more time than others."""
        kinds = len(scene.target.api.list("CustomResourceDefinition", labels=SELECTOR))
        expect(not kinds, f"{kinds} CRDs")


def _config_map(number: int) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(f"flood-{number}"), "data": {"x": "y" * 200}}


def _definition(number: int) -> Obj:
    made = workloads.custom_resource(f"floods{number}", "flood.example.com", f"Flood{number}")
    made["metadata"]["labels"] = dict(LABELS)
    return made


@dataclass(frozen=True, slots=True)
class FloodOfEvents(Fault):
    """Thousands of Events. None of them may reach the host."""

    events: int = 10_000
    writers: int = 6

    def inject(self, scene: Scene) -> Sequence[Proof]:
        api = scene.target.api
        make_room(api)
        begin = time.monotonic()
        before = len(scene.host.list("Event", scene.target.work))
        accepted = pour(api, _event, self.events, self.writers)
        there = len(api.list("Event", _NAMESPACE, labels=SELECTOR))
        mirrored = len(scene.host.list("Event", scene.target.work)) - before
        took = time.monotonic() - begin
        return [
            (there >= self.events, f"{there} Events in the target after {took:.0f} s ({accepted} accepted)"),
            (mirrored < 200, f"the host has {mirrored} Events more in the tenant's namespace than before"),
        ]

    def lift(self, scene: Scene) -> None:
        drain_away(scene.target.api, "Event")

    def over(self, scene: Scene) -> None:
        expect(scene.target.api.find("Namespace", _NAMESPACE) is None, f"namespace {_NAMESPACE} is there")


def _event(number: int) -> Obj:
    about = {"kind": "Pod", "namespace": _NAMESPACE, "name": f"pod-{number % 50}"}
    body = {"involvedObject": about, "reason": "Flood", "message": "m" * 200, "type": "Warning", "count": 1}
    return {"apiVersion": "v1", "kind": "Event", "metadata": _metadata(f"flood-{number}"), **body}


@dataclass(frozen=True, slots=True)
class FloodOfPods(Fault):
    """More pods than the quota allows, each of which asks for GPUs that the tenant does not have."""

    pods: int = 1500
    gpus: int = 8
    writers: int = 6

    def inject(self, scene: Scene) -> Sequence[Proof]:
        api = scene.target.api
        spec = workloads.pod_spec(where=workloads.SIMULATED, gpus=self.gpus)
        accepted = pour(api, lambda number: workloads.pod(f"flood-{number}", spec, labels=LABELS), self.pods, self.writers)
        there = api.list("Pod", "default", labels=SELECTOR)
        until("the last pod to be told why it waits", partial(_told, scene, self.pods), seconds=60)
        host = scene.host.list("Pod", scene.target.work, labels=SELECTOR)
        quota = scene.host.get("ResourceQuota", names.POD_QUOTA, scene.target.work)["spec"]["hard"]
        most = int(str(quota.get("count/pods") or quota.get("pods") or 0).replace("k", "000"))
        return [
            (len(there) >= self.pods, f"{len(there)} pods in the target ({accepted} accepted), each with {self.gpus} GPUs"),
            (len(host) <= most, f"{len(host)} of them are on the host, whose quota allows {most}"),
        ]

    def over(self, scene: Scene) -> None:
        remove_pods(scene)


def _told(scene: Scene, pods: int) -> None:
    listed = scene.target.api.list("Pod", "default", labels=SELECTOR)
    told = [pod for pod in listed if (workloads.condition(pod, "PodScheduled") or {}).get("message")]
    expect(len(told) > pods * 0.9, f"{len(told)} of {len(listed)} pods have a reason")


@dataclass(frozen=True, slots=True)
class ManyTerms(Fault):
    """Hundreds of pods with as many affinity terms as one may have, which the scheduler compares with each new pod.

    They run before the fault's span begins and go after it: what as many pods cost without a term is measured by other faults.
    """

    pods: int = 400
    terms: int = 32
    writers: int = 4
    seconds: float = 25.0

    def prepare(self, scene: Scene) -> None:
        terms = [_term(number) for number in range(self.terms)]
        affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
        spec = workloads.pod_spec(where=workloads.SIMULATED, affinity=affinity)
        begin = time.monotonic()
        accepted = pour(
            scene.target.api, lambda number: workloads.pod(f"terms-{number}", spec, labels=LABELS), self.pods, self.writers
        )
        until("the pods to run, or to be refused", partial(_decided, scene, accepted), seconds=180, note=scene.note)
        scene.note(f"    {accepted} pods after {time.monotonic() - begin:.0f} s")

    def inject(self, scene: Scene) -> Sequence[Proof]:
        time.sleep(self.seconds)
        found = [
            _terms(pod) for pod in scene.host.list("Pod", scene.target.work, labels=SELECTOR) if pod["spec"].get("nodeName")
        ]
        text = f"{len(found)} pods of the target have a node of the host, with {sum(found)} affinity terms"
        return [(len(found) >= self.pods and sum(found) >= self.pods * self.terms, text)]

    def clear(self, scene: Scene) -> None:
        remove_pods(scene)


def _terms(pod: Obj) -> int:
    """The preferred terms about other pods."""
    terms = pod["spec"].get("affinity", {}).get("podAffinity", {})
    return len(terms.get("preferredDuringSchedulingIgnoredDuringExecution", []))


def _term(number: int) -> Obj:
    selector = {"matchLabels": {"app": f"friend-{number}"}}
    return {"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}}


def _decided(scene: Scene, pods: int) -> None:
    waiting = 0
    for pod in scene.target.api.list("Pod", "default", labels=SELECTOR):
        refused = (workloads.condition(pod, "PodScheduled") or {}).get("status") == "False"
        waiting += not workloads.is_ready(pod) and not refused
    expect(not waiting, f"{waiting} of {pods} pods are undecided")


@dataclass(frozen=True, slots=True)
class Unevictable(Reversible):
    """A disruption budget with `minAvailable: 100000` while an admin drains the node of its pods."""

    asked: int = 100_000
    replicas: int = 2
    seconds: float = 8.0

    def inject(self, scene: Scene) -> Sequence[Proof]:
        api, host = scene.target.api, scene.host
        self.undo.later("the Deployment", partial(api.delete, "Deployment", "unevictable", "default"))
        self.undo.later("the budget", partial(api.delete, "PodDisruptionBudget", "unevictable", "default"))
        budget = {"minAvailable": self.asked, "selector": {"matchLabels": {"app": "unevictable"}}}
        about = {"metadata": {"name": "unevictable", "namespace": "default"}, "spec": budget}
        api.apply({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", **about})
        api.apply(workloads.deployment("unevictable", self.replicas, workloads.pod_spec(where=workloads.SIMULATED)))
        until("the pods and their budget on the host", partial(self._there, scene), seconds=60)
        pod = host.list("Pod", scene.target.work, labels="app=unevictable")[0]
        node = pod["spec"]["nodeName"]
        self.undo.later(f"node {node}", partial(host.patch, "Node", node, {"spec": {"unschedulable": None}}))
        host.patch("Node", node, {"spec": {"unschedulable": True}})
        answers, end = set[int](), time.monotonic() + self.seconds
        while time.monotonic() < end:
            answers.add(_evict(host, pod))
            time.sleep(0.5)
        shown = bool(host.get("Node", node)["spec"].get("unschedulable"))
        here = host.list("PodDisruptionBudget", scene.target.work)
        most = max((int(item["spec"].get("minAvailable") or 0) for item in here), default=0)
        return [
            (shown, f"node {node} is cordoned"),
            (answers == {429}, f"its drain was answered with {sorted(answers)}"),
            (most <= self.replicas, f"the host's budget asks for {most} pods, not for {self.asked}"),
        ]

    def _there(self, scene: Scene) -> None:
        budgets = scene.host.list("PodDisruptionBudget", scene.target.work)
        healthy = [item.get("status", {}).get("currentHealthy") for item in budgets]
        expect(healthy == [self.replicas], f"the budgets count {healthy} healthy pods")

    def over(self, scene: Scene) -> None:
        left = scene.host.list("Pod", scene.target.work, labels="app=unevictable")
        expect(not left, f"{len(left)} pods are left")


def _evict(host: Api, pod: Obj) -> int:
    """The eviction that `kubectl drain` requests. Returns the status."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    try:
        host.request("POST", f"{path_of('Pod', namespace, name)}/eviction", body=body)
    except ApiError as error:
        return error.status
    return 201
