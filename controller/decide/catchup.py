"""Restarts a plane's DNS after an outage of its API server: what an older CoreDNS knows may be a minute old. Pure.

A client-go client whose connection is refused retries at growing intervals, so that after an outage of 25 s it may reconnect a
minute later. Only a new process shortens that. So a DNS that started before the API server is replaced: the new process has
read everything before it is ready, and until then the old one answers everything that it knows.

    DNS older than the running API server ──> this API server's start on the pod template ──> rollout ──> DNS is younger

The annotation on the template stays until the next time, so that no other controller and no upgrade causes a restart. In a
plane of three members, one answers while another is away: such planes are left alone.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import is_pending_deletion
from bulkhead.api.untrusted import mapping, mappings, text
from controller.existing import Existing, slot_of
from controller.plane.spec import API_SERVER, COREDNS, DNS, PLANE, SINCE_ANNOTATION, PlaneSpec


def caught_up(deployment: Obj, spec: PlaneSpec, existing: Existing, *, plane_answers: bool) -> Obj:
    """The DNS's Deployment, annotated with the start of the API server that its process must follow."""
    running = existing.get(slot_of(deployment))
    if running is None or spec.control_plane.replicas != 1:
        return deployment
    since = text(_annotations(running["spec"]["template"]).get(SINCE_ANNOTATION))
    if plane_answers:
        began = max(_starts(existing, spec, PLANE, API_SERVER), default="")
        # RFC 3339 with whole seconds in UTC, as kubelets write it, so that earlier compares as smaller.
        if any(start < began for start in _starts(existing, spec, DNS, COREDNS)):
            since = began
    return _marked(deployment, since) if since else deployment


def _starts(existing: Existing, spec: PlaneSpec, component: str, container: str) -> Iterable[str]:
    """The start time of this container in each pod of a component in which it runs."""
    for slot, pod in existing.items():
        own = mapping(pod["metadata"].get("labels"))
        if slot.kind != "Pod" or slot.namespace != spec.namespace or own.get(labels.COMPONENT) != component:
            continue
        for status in mappings(mapping(pod.get("status")).get("containerStatuses")):
            start = text(mapping(mapping(status.get("state")).get("running")).get("startedAt"))
            if status.get("name") == container and start and not is_pending_deletion(pod):
                yield start


def _annotations(template: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(template.get("metadata")).get("annotations"))


def _marked(deployment: Obj, since: str) -> Obj:
    template = deployment["spec"]["template"]
    meta = template["metadata"]
    marked = template | {"metadata": meta | {"annotations": {**meta["annotations"], SINCE_ANNOTATION: since}}}
    return deployment | {"spec": deployment["spec"] | {"template": marked}}
