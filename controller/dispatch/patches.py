"""Builds the bodies of the ledger's requests for pods and quotas. Pure.

    admission ──> gate removed, annotation, node selector, in one patch
    reclaim ──> annotation, condition, eviction    answers ──> verdict, standing

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
    """The value of the node's label by which a pod is pinned to it; "" if it should not be pinned, or if the label is missing.

    A pod that is not plain may not fit on the node that the placement check chose. With a flavor it is pinned anyway, because
    on another kind of node it would hold devices that it is not charged for. If it cannot be bound it is reclaimed, and the
    node is avoided. Devices from ResourceSlices are not pinned: only the scheduler knows which of them are free.
    """
    if node is None:
        return ""
    sure = admission.pod.plain and node.by_slices.isdisjoint(admission.pod.asks)
    return node.labels.get(HOSTNAME, "") if sure or admission.flavor else ""


def admission(admission: Admission, at: float, hostname: str) -> dict[str, Any]:
    """A strategic merge patch that removes the gate and records the admission, in one write."""
    fixed = bool(hostname) and any(key == HOSTNAME for key, _ in admission.pod.needs.selector)
    pod = as_admitted(admission)
    record = Admitted(
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
    return _annotated(admission.pod, {ledger.ADMITTED: ledger.write_admitted(record), ledger.VERDICT: None}) | {"spec": spec}


def verdict(pod: Pod, text: str | None) -> dict[str, Any]:
    """A patch that sets the annotation why a pod waits, or what will become of a running one; None removes it."""
    return _annotated(pod, {ledger.VERDICT: text})


def reclaim(pod: Pod, reclaimed: Reclaimed) -> dict[str, Any]:
    """A patch that records the reclaim of a pod: its deadline and its cause."""
    record = replace(reclaimed, message=reclaimed.message[:_LONGEST_MESSAGE])
    return _annotated(pod, {ledger.RECLAIM: ledger.write_reclaim(record)})


def spared(pod: Pod) -> dict[str, Any]:
    """A patch that removes the record of a reclaim."""
    return _annotated(pod, {ledger.RECLAIM: None})


def disruption(pod: Pod, reclaimed: Reclaimed, at: str) -> dict[str, Any]:
    """A strategic merge patch of a pod's status that sets condition DisruptionTarget, with the reason."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reclaimed.cause or "Reclaimed",
        "message": reclaimed.message,
        "lastTransitionTime": at,
    }
    return {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}


def undisrupted(pod: Pod, at: str) -> dict[str, Any]:
    """A strategic merge patch of a pod's status that resets condition DisruptionTarget.

    A kube-controller-manager does the same two minutes after the condition was set (KEP-3329).
    """
    condition = {"type": "DisruptionTarget", "status": "False", "reason": None, "message": None, "lastTransitionTime": at}
    return {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}


def eviction(pod: Pod) -> dict[str, Any]:
    """The Eviction of a pod; its own grace period applies."""
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }


def annotations(values: Mapping[str, str | None]) -> dict[str, Any]:
    """A patch of annotations; None removes one."""
    return {"metadata": {"annotations": dict(values)}}


def _annotated(pod: Pod, values: Mapping[str, str | None]) -> dict[str, Any]:
    return {"metadata": {"uid": pod.uid, "annotations": dict(values)}}
