"""The platform's own credentials for its registry: which host pods are pulled with them.

Only a pod whose every image is the platform's own (Slurm's daemons): a tenant administers its plane, and may write any pod
there, but not have another image pulled with what is not its own. By the same rule such a pod gets no debug container of
another image. The policy bulkhead-syncer-pods of the host holds both.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings, text
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.view import TenantView

_MOST = 1000


def of_platform(built: Mapping[str, Any], spec: Mapping[str, Any], view: TenantView) -> list[Obj]:
    """The pull secret to add, if any; `built` are the host's containers, `spec` is the tenant's."""
    if not view.pull_secret:
        return []
    images = {text(entry.get("image")) for found in built.values() for entry in found} | set(_of_volumes(spec))
    return [{"name": view.pull_secret}] if images <= view.own_images else []


def check_added(added: Iterable[Mapping[str, Any]], spec: Mapping[str, Any], view: TenantView) -> None:
    """Refuse ephemeral containers of other images in a pod that is pulled with the platform's credentials."""
    containers = {field: mappings(spec.get(field), _MOST) for field in ("initContainers", "containers")}
    if not of_platform(containers, spec, view):
        return
    if any(entry.get("image") not in view.own_images for entry in added):
        message = "this pod is pulled with credentials of the platform, and takes debug containers of its own images only"
        raise Untranslatable(Reason.NOT_ALLOWED, message, "spec.ephemeralContainers")


def _of_volumes(spec: Mapping[str, Any]) -> Iterable[str]:
    for volume in mappings(spec.get("volumes"), _MOST):
        if "image" in volume:
            yield text(mapping(volume["image"]).get("reference"))
