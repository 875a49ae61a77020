"""Manifests of everything that a run creates. Pure. Each has the run's label, by which `undo` finds it, and nothing else."""

import json
from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api import labels, names
from bulkhead.api.objects import Obj
from workstation.chaos.plan import Plan
from workstation.chaos.record import KEY, Record, encode

# On everything that a run creates: the run's name.
RUN: Final = "bulkhead.dev/chaos"
# On the record: a request to the run to end, written by `chaos stop`.
STOP: Final = "bulkhead.dev/chaos-stop"
# On a run's tenants: the namespace of its record, which a `chaos stop` for another namespace does not read.
PLACE: Final = "bulkhead.dev/chaos-record"
LEASE: Final = "bulkhead-chaos"
PROBE: Final = "probe"
_PREFIX: Final = "bulkhead-"
_STORE: Final = "100Mi"
_USER: Final = 65532
# An address for documentation, which no network routes.
_NOWHERE: Final = "https://192.0.2.1/"
# A port of the API server's own machine on which nothing listens.
_CLOSED: Final = "https://127.0.0.1:9/"


def selector(run: str) -> str:
    """Selects what a run created."""
    return f"{RUN}={run}"


def record_name(run: str) -> str:
    """The ConfigMap that contains a run's record."""
    return f"{_PREFIX}{run}"


def space(run: str) -> str:
    """The namespace that a run has in each plane."""
    return f"{_PREFIX}{run}"


def record(made: Record, namespace: str) -> Obj:
    """The ConfigMap of a run's record."""
    metadata = {"name": record_name(made.run), "namespace": namespace, "labels": {RUN: made.run}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {KEY: encode(made)}}


def tenant(plan: Plan, name: str, namespace: str) -> Obj:
    """A Tenant of the run whose record is in this namespace; the target has a small store if it will be filled."""
    spec: Obj = {"class": plan.class_name}
    if name == plan.target and plan.small_store:
        spec["controlPlane"] = {"storage": {"quota": _STORE}}
    metadata = {"name": name, "labels": {RUN: plan.run}, "annotations": {PLACE: namespace}}
    return {"apiVersion": names.API_VERSION, "kind": "Tenant", "metadata": metadata, "spec": spec}


def namespace(run: str) -> Obj:
    """The run's namespace in a plane."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space(run), "labels": {RUN: run}}}


def config_map(run: str, name: str, text: str = "") -> Obj:
    """A ConfigMap in the run's namespace."""
    return _made("v1", "ConfigMap", run, name) | {"data": {"text": text}}


def event(run: str, name: str) -> Obj:
    """An event about the run's namespace."""
    about = {"apiVersion": "v1", "kind": "Namespace", "name": space(run), "namespace": space(run)}
    more = {"involvedObject": about, "reason": "Chaos", "message": "one of many", "type": "Normal"}
    return _made("v1", "Event", run, name) | more


def service(run: str, name: str) -> Obj:
    """A Service without a selector, by which a run sees whether the target's objects reach the host."""
    return _made("v1", "Service", run, name) | {"spec": {"ports": [{"port": 80}]}}


def definition(run: str, number: int) -> Obj:
    """A CustomResourceDefinition of a kind that no user has."""
    group = f"{run}.example.com"
    kinds = {
        "plural": f"floods{number}",
        "singular": f"flood{number}",
        "kind": f"Flood{number}",
        "listKind": f"Flood{number}List",
    }
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"floods{number}.{group}", "labels": {RUN: run}},
        "spec": {"group": group, "scope": "Namespaced", "names": kinds, "versions": [version]},
    }


def webhook(run: str, *, slow_seconds: int = 0) -> Obj:
    """A webhook for every write: it fails them all, or delays them by so many seconds and lets them pass.

    The writes of the platform's own accounts pass it too: it is a tenant's webhook like any other.
    """
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"], "scope": "*"}
    hook = {
        "name": "chaos.bulkhead.dev",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore" if slow_seconds else "Fail",
        "timeoutSeconds": slow_seconds or 2,
        "clientConfig": {"url": _NOWHERE if slow_seconds else _CLOSED},
        "rules": [rule],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": f"{_PREFIX}{run}", "labels": {RUN: run}},
        "webhooks": [hook],
    }


def gpu_pod(run: str, name: str, gpus: int) -> Obj:
    """A pod that requests so many GPUs; its image is never pulled, because it never gets a node."""
    container = {"name": "main", "image": "never-pulled", "resources": {"limits": {labels.GPU: str(gpus)}}}
    return _made("v1", "Pod", run, name) | {"spec": {"containers": [container]}}


def program_pod(run: str, name: str, image: str, source: str, order: Mapping[str, Any], *, memory: str) -> Obj:
    """A pod that runs a Python program without privileges; it ends by itself after ten minutes."""
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-u", "-c", source, json.dumps(dict(order))],
        "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": "1", "memory": memory}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "activeDeadlineSeconds": 600,
        "securityContext": {"runAsNonRoot": True, "runAsUser": _USER, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    return _made("v1", "Pod", run, name) | {"spec": spec}


def _made(version: str, kind: str, run: str, name: str) -> Obj:
    metadata = {"name": name, "namespace": space(run), "labels": {RUN: run}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}
