"""What the ledger writes to pods and quotas, as bodies of requests. Pure.

    admission ──> gate away, annotation, node selector, in one patch
    reclaim ──> note, condition, eviction          answers ──> verdict, standing

Each patch names the UID of the pod that was judged, so the API server refuses it for another pod of the same name.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from bulkhead.api import ledger
from bulkhead.api.labels import HOSTNAME
from bulkhead.api.ledger import Admitted, Reclaimed
from bulkhead.ledger.gangs import as_admitted
from bulkhead.ledger.model import Admission, Node, Pod

_LONGEST_MESSAGE: Final = 1024


def pinned(admission: Admission, node: Node | None) -> str:
    """The value of the node's label by which a pod is pinned to it; "" where it is not to be, or the node has no such label.

    One that is not plain may find no place on the node that the check named. With a flavor it is pinned all the same: on
    another kind of node it would hold what it is not charged for. Where it cannot be bound it goes back; that node is avoided.
    Of devices that are listed in slices the scheduler alone knows which are free.
    """
    if node is None:
        return ""
    sure = admission.pod.plain and node.by_slices.isdisjoint(admission.pod.asks)
    return node.labels.get(HOSTNAME, "") if sure or admission.flavor else ""


def admission(admission: Admission, at: float, hostname: str) -> dict[str, Any]:
    """A strategic merge patch that takes the gate away and notes where to, in one write."""
    fixed = bool(hostname) and any(key == HOSTNAME for key, _ in admission.pod.needs.selector)
    pod = as_admitted(admission)
    said = Admitted(
        at,
        admission.node,
        admission.flavor,
        pinned=bool(hostname),
        fixed=fixed,
        borrowed=dict(admission.borrowed) or None,
        unflavored=admission.unflavored,
        gang=pod.admitted_gang,
        shape=pod.shape,
        alone=pod.alone,
    )
    spec: dict[str, Any] = {"schedulingGates": [{"name": ledger.GATE, "$patch": "delete"}]}
    if hostname:
        spec["nodeSelector"] = {HOSTNAME: hostname}
    return _annotated(admission.pod, {ledger.ADMITTED: ledger.write_admitted(said), ledger.VERDICT: None}) | {"spec": spec}


def verdict(pod: Pod, text: str | None) -> dict[str, Any]:
    """A patch that says why a pod waits, or what becomes of one that runs; None takes that away."""
    return _annotated(pod, {ledger.VERDICT: text})


def reclaim(pod: Pod, reclaimed: Reclaimed) -> dict[str, Any]:
    """A patch that says until when a pod is taken back, and why."""
    said = replace(reclaimed, message=reclaimed.message[:_LONGEST_MESSAGE])
    return _annotated(pod, {ledger.RECLAIM: ledger.write_reclaim(said)})


def spared(pod: Pod) -> dict[str, Any]:
    """A patch that takes the note away."""
    return _annotated(pod, {ledger.RECLAIM: None})


def disruption(pod: Pod, reclaimed: Reclaimed, at: str) -> dict[str, Any]:
    """A strategic merge patch of a pod's status: it is about to be taken from its node, and whose doing that is."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reclaimed.cause or "Reclaimed",
        "message": reclaimed.message,
        "lastTransitionTime": at,
    }
    return {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}


def eviction(pod: Pod) -> dict[str, Any]:
    """What is posted to a pod's eviction; its own grace holds."""
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }


def annotations(said: Mapping[str, str | None]) -> dict[str, Any]:
    """A patch of annotations; None takes one away."""
    return {"metadata": {"annotations": dict(said)}}


def _annotated(pod: Pod, said: Mapping[str, str | None]) -> dict[str, Any]:
    return {"metadata": {"uid": pod.uid, "annotations": dict(said)}}
