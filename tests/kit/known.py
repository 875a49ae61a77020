"""Whether an API server has loaded its rights and policies: it receives both by watches, and loads policies in rounds.

Each watch reports in order. So once it knows the last object of a kind, which each call creates, it knows all earlier ones too.
"""

import contextlib
import json
import secrets
from collections.abc import AsyncIterator

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError
from bulkhead.kube.objects import Resource
from tests.kit.syncerbed import until

# An API server loads a new policy, or a change of a namespace, within moments; a busy machine needs longer.
IN_FORCE = 60.0
_PLACE = "default"
_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False)
_RBAC = "rbac.authorization.k8s.io"
_told: set[str] = set()


async def all_known(admin: Client) -> None:
    """Wait until the server knows every right and policy that was written; once for each server, as they are written once."""
    if admin.config.server in _told:
        return
    _told.add(admin.config.server)
    name = f"last-{secrets.token_hex(4)}"
    async with _last(admin, name):
        await until(lambda: _rights(admin, name), "the rights known", IN_FORCE)
        await until(lambda: _refused(admin, name), "the policies in force", IN_FORCE)


@contextlib.asynccontextmanager
async def _last(admin: Client, name: str) -> AsyncIterator[None]:
    meta: Obj = {"metadata": {"name": name}}
    rules = {"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    judged = {"resourceRules": [rule | {"resourceNames": [name]}]}
    said = [{"expression": "false", "message": name}]
    made: tuple[tuple[Resource, Obj, str | None], ...] = (
        (kinds.CLUSTER_ROLES, meta | rules, None),
        (kinds.ROLES, meta | rules, _PLACE),
        (kinds.CLUSTER_ROLE_BINDINGS, meta | _binding("ClusterRole", name, _everywhere(name)), None),
        (kinds.ROLE_BINDINGS, meta | _binding("Role", name, _here(name)), _PLACE),
        (kinds.VALIDATING_ADMISSION_POLICIES, meta | {"spec": {"matchConstraints": judged, "validations": said}}, None),
        (
            kinds.VALIDATING_ADMISSION_POLICY_BINDINGS,
            meta | {"spec": {"policyName": name, "validationActions": ["Deny"]}},
            None,
        ),
    )
    for r, obj, place in made:
        await admin.create(r, obj, place)
    try:
        yield
    finally:
        for r, _, place in reversed(made):
            await admin.delete(r, name, place)


def _everywhere(name: str) -> str:
    return f"{name}-everywhere"


def _here(name: str) -> str:
    return f"{name}-here"


def _binding(kind: str, name: str, who: str) -> Obj:
    subjects = [{"kind": "User", "apiGroup": _RBAC, "name": who}]
    return {"roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name}, "subjects": subjects}


async def _rights(admin: Client, name: str) -> bool:
    """Whether the server knows the last cluster-wide right, and the last one in a namespace."""
    asked = {"verb": "get", "resource": "configmaps", "namespace": _PLACE}
    for who in (_everywhere(name), _here(name)):
        review = {"spec": {"user": who, "resourceAttributes": asked}}
        if not (await admin.create(_REVIEWS, review))["status"]["allowed"]:
            return False
    return True


async def _refused(admin: Client, name: str) -> bool:
    body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).encode()
    try:
        await admin.transport.request("POST", kinds.CONFIG_MAPS.path(_PLACE), params={"dryRun": "All"}, body=body)
    except ApiError as error:
        return name in str(error)
    return False
