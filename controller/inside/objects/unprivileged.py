"""A policy inside a plane that removes from new pods of some kinds the privileges for which the host would refuse them. Pure.

    pods that a NodeSet of slinky.slurm.net controls ──> without `privileged`, without capabilities beyond Pod Security baseline

It only removes, and only from these pods. It protects nothing: a tenant may change it, and the host refuses such pods in any
case. So if it fails, the pod is created unchanged, and its refusal tells the tenant what to do.
"""

from typing import Final

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.api.privileges import BASELINE_CAPABILITIES, SLINKY_GROUP, SLINKY_KIND, SLINKY_WORKERS
from controller.plane.spec import PlaneSpec

NAME: Final = "bulkhead-drop-privileges"
# The first minor version of Kubernetes 1 whose API servers have such policies without a flag.
LEAST_MINOR: Final = 36
_API: Final = "admissionregistration.k8s.io/v1"
_LISTS: Final = ("initContainers", "containers")
_ALLOWED: Final = ", ".join(f"'{capability}'" for capability in sorted(BASELINE_CAPABILITIES))
_WORKER: Final = (
    f"object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false) && o.kind == '{SLINKY_KIND}' && "
    f"o.apiVersion.startsWith('{SLINKY_GROUP}/'))"
)


def served_by(version: str) -> bool:
    """Whether planes of a version of Kubernetes, such as v1.36.3, have such policies."""
    _, minor, _ = version.split(".")
    return int(minor) >= LEAST_MINOR


def objects(spec: PlaneSpec) -> tuple[Obj, ...]:
    """The policy and its binding, if the tenant has set that."""
    return _both() if spec.isolation.drop_privileges == SLINKY_WORKERS else ()


def withdrawn(spec: PlaneSpec) -> tuple[Obj, ...]:
    """Objects of an earlier choice that must be deleted."""
    return () if objects(spec) else _both()


def _both() -> tuple[Obj, ...]:
    policy = {
        "failurePolicy": "Ignore",
        # Runs again if a webhook of the tenant has added privileges; pods without any stay unchanged.
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {
            "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
        },
        "matchConditions": [{"name": "is-a-worker", "expression": _WORKER}],
        "variables": [{"name": "allowed", "expression": f"[{_ALLOWED}]"}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": _PATCH}}],
    }
    return (
        _object("MutatingAdmissionPolicy", policy),
        _object("MutatingAdmissionPolicyBinding", {"policyName": NAME}),
    )


def _object(kind: str, spec: Obj) -> Obj:
    meta = {"name": NAME, "labels": {labels.PLATFORM: "true", labels.MANAGED_BY: labels.MANAGED_BY_BULKHEAD}}
    return {"apiVersion": _API, "kind": kind, "metadata": meta, "spec": spec}


def _patch_of(field: str) -> str:
    """The patches of one list of containers. Names of containers are unique, so a name has one index."""
    listed = f"object.spec.?{field}.orValue([])"
    at = f"'/spec/{field}/' + string({listed}.map(e, e.name).indexOf(c.name)) + '/securityContext"
    added = "c.?securityContext.?capabilities.?add.orValue([])"
    privileged = (
        f"{listed}.filter(c, c.?securityContext.?privileged.orValue(false)).map(c, "
        f"JSONPatch{{op: 'remove', path: {at}/privileged'}})"
    )
    capabilities = (
        f"{listed}.filter(c, !{added}.all(a, a in variables.allowed)).map(c, "
        f"JSONPatch{{op: 'replace', path: {at}/capabilities/add', value: {added}.filter(a, a in variables.allowed)}})"
    )
    return f"{privileged} + {capabilities}"


_PATCH: Final = " + ".join(_patch_of(field) for field in _LISTS)
