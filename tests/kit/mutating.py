"""Policies by which a tenant changes objects in their plane: a MutatingAdmissionPolicy and its binding. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from bulkhead.api.objects import Obj


def mutating(
    name: str, space: str, *, operation: str, resources: Sequence[str], mutation: Mapping[str, Any]
) -> tuple[Obj, Obj]:
    """A policy that changes these core resources in one namespace at one operation, and the binding that puts it in force."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": list(resources)}
    policy = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "resourceRules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space}},
        },
        "mutations": [dict(mutation)],
    }
    return {"metadata": {"name": name}, "spec": policy}, {"metadata": {"name": name}, "spec": {"policyName": name}}
