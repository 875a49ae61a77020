"""Which requests of metrics.k8s.io the syncer answers, and what discovery says of them. Pure.

What is not listed does not exist.

/apis/metrics.k8s.io[/v1beta1]                        discovery
/apis/metrics.k8s.io/v1beta1/pods                     pods of all namespaces
/apis/metrics.k8s.io/v1beta1/namespaces/{ns}/pods[/{name}]
/apis/metrics.k8s.io/v1beta1/nodes[/{name}]
"""

from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from syncer.http1 import BadRequestError, Request
from syncer.kubelet.routes import SEGMENT
from syncer.translate.kinds.podmetrics import API_VERSION

GROUP, VERSION = API_VERSION.split("/")

# What clients send with every list and what changes nothing here: an answer is always whole and always now.
_IGNORED: Final = frozenset(
    {"limit", "continue", "resourceVersion", "resourceVersionMatch", "timeout", "timeoutSeconds", "pretty", "watch"}
)
_SELECTOR_LIMIT: Final = 4096

GROUP_DOCUMENT: Final[dict[str, Any]] = {
    "kind": "APIGroup",
    "apiVersion": "v1",
    "name": GROUP,
    "versions": [{"groupVersion": API_VERSION, "version": VERSION}],
    "preferredVersion": {"groupVersion": API_VERSION, "version": VERSION},
}
RESOURCE_DOCUMENT: Final[dict[str, Any]] = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": API_VERSION,
    "resources": [
        {"name": "nodes", "singularName": "", "namespaced": False, "kind": "NodeMetrics", "verbs": ["get", "list"]},
        {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]},
    ],
}


@dataclass(frozen=True, slots=True)
class Question:
    """One request understood. An empty name asks for a list, an empty namespace for all of them."""

    about: Literal["group", "resources", "pods", "nodes"]
    namespace: str = ""
    name: str = ""
    label_selector: str = ""
    field_selector: str = ""


def question(request: Request) -> Question:
    """Understand a request, or raise BadRequestError with the status to answer."""
    if request.method != "GET":
        raise BadRequestError(405, "metrics: only GET")
    parts = request.path.split("/")[1:]
    if parts == ["apis", GROUP]:
        return Question("group")
    if parts == ["apis", GROUP, VERSION]:
        return Question("resources")
    found = _subject(parts[3:]) if parts[:3] == ["apis", GROUP, VERSION] else None
    if found is None or not all(SEGMENT.match(name) for name in (found.namespace, found.name) if name):
        raise BadRequestError(404, "not found")
    labels, fields = _selectors(request)
    return found if found.name else replace(found, label_selector=labels, field_selector=fields)


def _subject(rest: list[str]) -> Question | None:
    match rest:
        case ["pods"] | ["nodes"]:
            return Question("pods" if rest[0] == "pods" else "nodes")
        case ["nodes", name]:
            return Question("nodes", name=name)
        case ["namespaces", namespace, "pods"]:
            return Question("pods", namespace)
        case ["namespaces", namespace, "pods", name]:
            return Question("pods", namespace, name)
    return None


def _selectors(request: Request) -> tuple[str, str]:
    found: dict[str, str] = {}
    for name, value in request.query:
        if name in found or name not in _IGNORED | {"labelSelector", "fieldSelector"}:
            raise BadRequestError(400, f"query: {name[:40]} is not known, or twice")
        if name == "watch" and value not in {"", "false", "0"}:
            raise BadRequestError(405, "metrics: watch is not supported")
        if len(value) > _SELECTOR_LIMIT:
            raise BadRequestError(400, f"query: {name} is too long")
        found[name] = value
    return found.get("labelSelector", ""), found.get("fieldSelector", "")
