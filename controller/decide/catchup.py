"""Starts a plane's DNS afresh once its API server was away: what a CoreDNS that ran before it knows may be a minute old. Pure.

A client of client-go that is refused asks again at growing intervals, after an outage of 25 s up to a minute later, and nothing
shortens that but a new process. So one that began before the API server is replaced: its successor has read everything before
it is ready, and answers for all that the former knew until then are given by the former.

    DNS older than the API server that runs ──> this API server's start on the pod template ──> rollout ──> DNS is younger

What stands on the template stays there until the next time, so that nothing restarts because of another controller or an
upgrade. Of three members one answers while another is away: those are left alone.
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
    """The DNS's Deployment, marked with the start of the API server that its process is to follow."""
    running = existing.get(slot_of(deployment))
    if running is None or spec.control_plane.replicas != 1:
        return deployment
    since = text(_annotations(running["spec"]["template"]).get(SINCE_ANNOTATION))
    if plane_answers:
        began = max(_starts(existing, spec, PLANE, API_SERVER), default="")
        # In RFC 3339 with whole seconds and in UTC, as kubelets write it: earlier is smaller.
        if any(start < began for start in _starts(existing, spec, DNS, COREDNS)):
            since = began
    return _marked(deployment, since) if since else deployment


def _starts(existing: Existing, spec: PlaneSpec, component: str, container: str) -> Iterable[str]:
    """When this container began in each pod of a component in which it runs."""
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
