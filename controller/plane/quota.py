"""What the host lets the tenant use in its work namespace: the hard stop behind the syncer's own accounting.

The ResourceQuota counts the GPU resources and objects; the LimitRange gives a size to containers that name none, so that
the best-effort pods of one tenant cannot starve a node that another uses.
"""

from controller.plane.parts import metadata
from controller.plane.spec import Obj, PlaneSpec

QUOTA = "tenant-quota"
LIMITS = "tenant-limits"


def resource_quota(spec: PlaneSpec) -> Obj:
    """ResourceQuota `tenant-quota`."""
    hard = {_quota_name(name): value for name, value in spec.limits} | dict(spec.object_limits)
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata(spec, QUOTA, namespace=spec.work_namespace),
        "spec": {"hard": hard},
    }


def limit_range(spec: PlaneSpec) -> Obj:
    """LimitRange `tenant-limits`."""
    default_request = {name: request for name, request, _ in spec.container_defaults if request}
    default = {name: limit for name, _, limit in spec.container_defaults if limit}
    item: Obj = {"type": "Container"}
    if default_request:
        item["defaultRequest"] = default_request
    if default:
        item["default"] = default
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": metadata(spec, LIMITS, namespace=spec.work_namespace),
        "spec": {"limits": [item]},
    }


def _quota_name(resource: str) -> str:
    """The name under which a ResourceQuota counts a resource."""
    return resource if resource.startswith(("requests.", "limits.", "count/")) else f"requests.{resource}"
