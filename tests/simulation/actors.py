"""All actors that the syncer does not control.

On the host a scheduler, kubelets, storage and the garbage collector; in the plane the namespace controller; on both what
protects claims in use. Each `step` does what is due, at once, directly in the store, and never fails.
"""

import contextlib
from typing import Any, Final

from bulkhead.api.objects import Obj
from bulkhead.kube.objects import Key, key_of
from bulkhead.kube.resources import NAMESPACES, NODES, PODS, SECRETS
from tests.simulation import claims, ledgeractor
from tests.simulation.api import Api, Refused
from tests.simulation.store import kind_of
from tests.simulation.virtualtime import stamp

_MERGE: Final = "application/merge-patch+json"
_STRATEGIC: Final = "application/strategic-merge-patch+json"


def collect(api: Api, r: Any, user: str) -> None:
    """Delete what is owned by objects that are gone."""
    alive = {each["metadata"]["uid"] for held in api.store.objects.values() for each in held.values()}
    for each in api.store.all(r):
        owners = each["metadata"].get("ownerReferences") or ()
        if owners and not any(owner["uid"] in alive for owner in owners):
            with contextlib.suppress(Refused):
                api.do("DELETE", r, {}, namespace=key_of(each).namespace, name=key_of(each).name, user=user)


class HostActors:
    """The host beside the syncer."""

    def __init__(self, api: Api, work: str, pool: str) -> None:
        self.api = api
        self.work = work
        self.pool = pool
        # A kubelet that does not answer: its pods keep their state.
        self.frozen: set[str] = set()
        self.idle = False
        # The scheduler places nothing meanwhile.
        self.schedules = True
        self._addresses = 0
        self.ledger = ledgeractor.Ledger(api, work)

    @property
    def mood(self) -> object:
        """What they do follows from this and from what the API servers have."""
        return frozenset(self.frozen), self.schedules, self.ledger.idle, self.ledger.gpus

    def add_node(self, name: str) -> None:
        """A node of the tenant's pool, ready."""
        self.api.do("POST", NODES, {"metadata": {"name": name, "labels": {"pool": self.pool}}})
        resources = {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "8"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastTransitionTime": stamp(0)}
        status = {"capacity": resources, "allocatable": resources, "conditions": [ready]}
        self.api.do("PATCH", NODES, {"status": status}, name=name, subresource="status", content_type=_MERGE)
        self.api.do("PATCH", NODES, {"spec": {"taints": None}}, name=name, content_type=_MERGE)

    def remove_node(self, name: str) -> None:
        """The node dies: its pods are deleted by force, as the pod garbage collector does."""
        with contextlib.suppress(Refused):
            self.api.do("DELETE", NODES, {}, name=name)
        for pod in self.pods():
            if pod["spec"].get("nodeName") == name:
                self.delete(pod, grace=0)

    def cordon(self, name: str, wish: bool) -> None:
        """`kubectl cordon` and `kubectl uncordon` on the host."""
        self.api.do("PATCH", NODES, {"spec": {"unschedulable": wish or None}}, name=name, content_type=_MERGE)

    def pods(self) -> list[Obj]:
        return self.api.store.all(PODS, self.work)

    def step(self) -> None:
        """One round of all actors."""
        if self.idle:
            return
        claims.provision(self.api, self.work)
        claims.unprotect(self.api)
        self.ledger.step()
        for pod in self.pods() if self.schedules else ():
            self.schedule(pod)
        for pod in self.pods():
            self.kubelet(pod)
        collect(self.api, SECRETS, "gc")

    def schedule(self, pod: Obj) -> None:
        """Bind a pod to the first node that is not cordoned and that its affinity does not exclude."""
        spec = pod["spec"]
        nodes = [key_of(each).name for each in self.api.store.all(NODES) if not each.get("spec", {}).get("unschedulable")]
        nodes = [name for name in nodes if name not in _excluded(spec) and name in (_only(spec) or nodes)]
        if spec.get("nodeName") or spec.get("schedulingGates") or pod["metadata"].get("deletionTimestamp") or not nodes:
            return
        if not claims.usable(self.api, pod):
            return
        body = {"metadata": {"name": key_of(pod).name}, "target": {"kind": "Node", "name": nodes[0]}}
        self.api.do("POST", PODS, body, namespace=self.work, name=key_of(pod).name, subresource="binding", user="scheduler")

    def kubelet(self, pod: Obj) -> None:
        """Run a bound pod; end one that is being deleted."""
        node = pod["spec"].get("nodeName")
        if not node or node in self.frozen:
            return
        if pod["metadata"].get("deletionTimestamp"):
            self.delete(pod, grace=0)
        elif pod["status"]["phase"] == "Pending":
            self._addresses += 1
            self.report(pod, "Running", f"10.244.{self._addresses // 250}.{self._addresses % 250 + 1}")
        elif pod["status"]["phase"] == "Running" and pod["status"].get("observedGeneration") != pod["metadata"]["generation"]:
            self.report(pod, "Running")

    def report(self, pod: Obj, phase: str, address: str | None = None) -> None:
        """The kubelet's word about a pod."""
        now = stamp(self.api.now())
        before = pod.get("status") or {}
        address = address or before.get("podIP")
        running = phase == "Running"
        ended = {"terminated": {"exitCode": 0 if phase == "Succeeded" else 1, "startedAt": now, "finishedAt": now}}
        status = {
            "phase": phase,
            "observedGeneration": pod["metadata"]["generation"],
            "startTime": before.get("startTime") or now,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "hostIP": "172.31.255.1",
            "hostIPs": [{"ip": "172.31.255.1"}],
            "conditions": [{"type": "Ready", "status": "True" if running else "False", "lastTransitionTime": now}],
            "containerStatuses": [
                {"name": "main", "image": "busybox:1.36", "imageID": "x", "ready": running, "restartCount": 0,
                 "state": {"running": {"startedAt": now}} if running else ended}
            ],
        }  # fmt: skip
        with contextlib.suppress(Refused):
            self.api.do("PATCH", PODS, {"status": status}, namespace=self.work, name=key_of(pod).name, subresource="status",
                        content_type=_STRATEGIC, user="kubelet")  # fmt: skip

    def finish(self, pod: Obj, phase: str) -> None:
        """A running pod ends by itself."""
        if pod["status"].get("phase") == "Running":
            self.report(pod, phase)

    def delete(self, pod: Obj, grace: int | None = None) -> None:
        """A client on the host deletes a pod: a drain, a preemption, or the kubelet at its end."""
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        with contextlib.suppress(Refused):
            self.api.do("DELETE", PODS, options, namespace=self.work, name=key_of(pod).name, user="host")


class PlaneActors:
    """The controllers in the plane."""

    def __init__(self, api: Api) -> None:
        self.api = api
        # Pods of nodes that are gone are deleted.
        self.collects = False

    def step(self) -> None:
        """Empty namespaces that end; take them away when they are empty. Let go of claims and volumes."""
        claims.unprotect(self.api)
        if self.collects:
            self._collect_pods()
        for space in self.api.store.all(NAMESPACES):
            if space["metadata"].get("deletionTimestamp"):
                self._empty(key_of(space).name)

    def _collect_pods(self) -> None:
        nodes = {"", *(key_of(each).name for each in self.api.store.all(NODES))}
        for pod in self.api.store.all(PODS):
            if (pod["spec"].get("nodeName") or "") not in nodes:
                with contextlib.suppress(Refused):
                    self.api.do("DELETE", PODS, {"gracePeriodSeconds": 0}, namespace=key_of(pod).namespace,
                                name=key_of(pod).name, user="pod-garbage-collector")  # fmt: skip

    def _empty(self, space: str) -> None:
        left = False
        for kind, held in list(self.api.store.objects.items()):
            for key in [each for each in held if each.namespace == space]:
                left = True
                r = _resource(kind)
                with contextlib.suppress(Refused):
                    self.api.do("DELETE", r, {}, namespace=space, name=key.name, user="namespace-controller")
        if not left:
            self.api.store.remove(NAMESPACES, Key("", space), "namespace-controller")


def _excluded(spec: Obj) -> set[str]:
    """The nodes that the one term of a required node affinity excludes."""
    return {value for field in _fields(spec) if field["operator"] == "NotIn" for value in field["values"]}


def _only(spec: Obj) -> set[str]:
    """The node that it pins a pod to; empty for any."""
    return {value for field in _fields(spec) if field["operator"] == "In" for value in field["values"]}


def _fields(spec: Obj) -> list[Obj]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {"nodeSelectorTerms": [{}]}
    return list(required["nodeSelectorTerms"][0].get("matchFields", ()))


def _resource(kind: tuple[str, str]) -> Any:
    from bulkhead.kube.resources import all_resources

    return next(each for each in all_resources() if kind_of(each) == kind)
