"""Members of a plane that do not run because a node is gone: their own, or the one on which their volume is. Pure.

    pod with a node ──> that node does not answer ──> it starts elsewhere once an admin deletes the pod by force
                    └─> it answers, and is not ready ──> once an admin deletes the pod: its kubelet ends it
    pod without one, whose volume is elsewhere ──> the node of the volume does not answer, or no longer exists

A node that is silent may come back with the volume. One whose object was deleted was given up by an admin or by the cloud: of a
plane of three the member is replaced then, if every other one answers (`controller.plane.membership`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from bulkhead.api.claimnotes import SELECTED_NODE
from bulkhead.api.conditions import condition_of, timestamp
from bulkhead.api.podphase import is_ready, placed_on
from bulkhead.api.untrusted import mapping, text

_NODE: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
# What the scheduler says of nodes from which a volume cannot be reached, in Kubernetes 1.34 and since.
_ELSEWHERE: Final = re.compile(r"volume node affinity conflict|didn't match PersistentVolume's node affinity")


@dataclass(frozen=True, slots=True)
class Stranded:
    """A pod that cannot run.

    exists: whether the node still has an object.
    answers: whether its kubelet says that the node is not ready; one that is silent says nothing.
    has_volume: whether the pod's volume is there and nowhere else.
    """

    pod: str
    node: str
    exists: bool
    has_volume: bool
    answers: bool = False


@dataclass(frozen=True, slots=True)
class Strandings:
    """All of a plane, and its last whole snapshot."""

    found: tuple[Stranded, ...] = ()
    snapshot: str = ""
    taken: datetime | None = None

    def of(self, pod: str) -> Stranded | None:
        """That of one pod."""
        return next((found for found in self.found if found.pod == pod), None)


def node_of(pod: Mapping[str, Any], claim: Mapping[str, Any] | None) -> tuple[str, bool]:
    """The node without which a pod cannot run, and whether that is because of its volume; empty if it may run elsewhere."""
    node = placed_on(pod)
    if node:
        return (node, False) if _NODE.fullmatch(node) else ("", False)
    if not _ELSEWHERE.search(text(condition_of(pod, "PodScheduled").get("message"))):
        return "", False
    node = text(mapping(mapping((claim or {}).get("metadata")).get("annotations")).get(SELECTED_NODE))
    return (node, True) if _NODE.fullmatch(node) else ("", False)


def is_away(nodes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a node, looked for by its name, does not exist or does not answer."""
    return not any(is_ready(node) for node in nodes)


def answers(nodes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the kubelet of a node that is away says so itself. For a kubelet that is silent, Kubernetes writes `Unknown`."""
    return any(condition_of(node, "Ready").get("status") == "False" for node in nodes)


def of_the_only(tenant: str, namespace: str, strandings: Strandings) -> str:
    """What to say of a plane whose only member is stranded; empty if it is not."""
    for found in strandings.found:
        if not found.has_volume:
            return f"{_where(found)}. Bring the node back, and the plane goes on; {_elsewhere(found, namespace)}"
        gone = "Bring the node back, and the plane goes on. If it is gone for good with its disk, the data is lost"
        given_up = f"{_give_up(found, namespace)}, then "
        if not strandings.snapshot:
            empty = f"bulkhead tenant accept-data {tenant}: the plane begins empty"
            return f"{_where(found)}. {gone}, and there is no whole snapshot of it: {given_up}{empty}"
        taken = f" of {timestamp(strandings.taken)}" if strandings.taken else ""
        last = f"the last whole snapshot is {strandings.snapshot}{taken}"
        restore = f"bulkhead tenant restore {tenant} --from {strandings.snapshot} --key FILE"
        return f"{_where(found)}. {gone}, and {last}: {given_up}{restore}"
    return ""


def of_several(namespace: str, strandings: Strandings) -> str:
    """What to type for members of a plane of three that are stranded; empty if none is."""
    words = []
    for found in strandings.found:
        remedy = f"if it is gone for good: {_give_up(found, namespace)}" if found.has_volume else _elsewhere(found, namespace)
        words.append(f"{_where(found)}; {remedy}")
    return "; ".join(words)


def _where(found: Stranded) -> str:
    what = "no longer exists" if not found.exists else "is not ready" if found.answers else "does not answer"
    return f"{'the volume of ' if found.has_volume else ''}{found.pod} is on node {found.node}, which {what}"


def _elsewhere(found: Stranded, namespace: str) -> str:
    if found.answers:
        return f"to start it elsewhere, if its volume can be reached from there: kubectl delete pod {found.pod} -n {namespace}"
    return f"if it is off for good: kubectl delete pod {found.pod} -n {namespace} --grace-period=0 --force"


def _give_up(found: Stranded, namespace: str) -> str:
    claim = f"kubectl delete pvc data-{found.pod} -n {namespace} --wait=false"
    return f"{claim} && kubectl delete pod {found.pod} -n {namespace} --grace-period=0 --force"
