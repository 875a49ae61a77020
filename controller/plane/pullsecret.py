"""The host's pull credentials for the platform's images, copied into tenants' namespaces. Pure.

    Secrets of the chart's pullSecrets ──> merged ──> one Secret `bulkhead-pull` in each plane's namespace, and in the work
                                                      namespace of tenants with Slurm, whose daemons run there

It has the same name everywhere, so that rights and policies can name it. Tenants never see it: it is not mirrored into a plane,
and the syncer sets it only on pods of the platform's own images (`syncer/translate/kinds/pod.py`; the policy
bulkhead-syncer-pods).
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any, Final

from bulkhead.api.names import PULL_SECRET
from bulkhead.api.objects import Obj
from controller.plane.parts import metadata
from controller.plane.spec import PlaneSpec

CONTROLLER: Final = "bulkhead-controller"
PULLS_ROLE: Final = "bulkhead-controller-pulls"
BINDING: Final = "controller-pulls"
TYPE: Final = "kubernetes.io/dockerconfigjson"
_KEY: Final = ".dockerconfigjson"
_CREDENTIALS_BYTES: Final = 256 * 1024
_RBAC: Final = "rbac.authorization.k8s.io"


class UnusableError(ValueError):
    """A Secret that cannot be used to pull images; the text names it and says why."""


def registries_of(secret: Obj) -> dict[str, Any]:
    """The credentials of one Secret, by registry."""
    name = secret["metadata"]["name"]
    if secret.get("type") != TYPE:
        raise UnusableError(f"Secret {name} must be of type {TYPE}, not {secret.get('type')}")
    try:
        content = b64decode(str((secret.get("data") or {})[_KEY]), validate=True)
        found = json.loads(content)["auths"] if len(content) <= _CREDENTIALS_BYTES else None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UnusableError(f"Secret {name} has no {_KEY} with auths") from error
    if not isinstance(found, dict):
        raise UnusableError(f"Secret {name} has no {_KEY} with auths, or has more than {_CREDENTIALS_BYTES} bytes")
    return found


def merged(secrets: Iterable[Obj]) -> str:
    """The credentials of all Secrets, as the data of one; of two for the same registry, the first is used."""
    auths: dict[str, Any] = {}
    for secret in secrets:
        auths = registries_of(secret) | auths
    content = json.dumps({"auths": auths}, sort_keys=True).encode()
    if len(content) > _CREDENTIALS_BYTES:
        raise UnusableError(f"the pull secrets must have at most {_CREDENTIALS_BYTES} bytes together, not {len(content)}")
    return b64encode(content).decode()


def copies(spec: PlaneSpec, content: str) -> tuple[Obj, ...]:
    """The Secret in each namespace that must have it."""
    return tuple(_copy(spec, namespace, content) for namespace in wanted_in(spec))


def wanted_in(spec: PlaneSpec) -> tuple[str, ...]:
    """The namespaces that must have it."""
    if not spec.images.pull_secrets:
        return ()
    return (spec.namespace, spec.work_namespace) if spec.images.own else (spec.namespace,)


def binding(spec: PlaneSpec) -> tuple[Obj, ...]:
    """The controller's right to this one Secret in the work namespace, if it must be there."""
    if spec.work_namespace not in wanted_in(spec):
        return ()
    return (
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata(spec, BINDING, namespace=spec.work_namespace),
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": PULLS_ROLE},
            "subjects": [{"kind": "ServiceAccount", "name": CONTROLLER, "namespace": spec.installation.system_namespace}],
        },
    )


def _copy(spec: PlaneSpec, namespace: str, content: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(spec, PULL_SECRET, namespace=namespace),
        "type": TYPE,
        "data": {_KEY: content},
    }
