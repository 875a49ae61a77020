"""The changes that an existing host pod needs to match its virtual pod. Pure; `patches` sends them.

node marks or pool changed, no node yet -> recreated
an ephemeral container refused          -> the rest all the same, and the generation is not noted
anything else that differs              -> patches
"""

from dataclasses import dataclass
from typing import Any

from bulkhead.api.objects import Obj
from bulkhead.api.podphase import placed_on
from syncer.translate import Untranslatable, diff
from syncer.translate.kinds import pod
from syncer.translate.podspec import placement
from syncer.translate.view import TenantView


@dataclass(frozen=True, slots=True)
class Changes:
    """Patches in their order, of a host pod that perhaps should be recreated instead; why a part of it may not be."""

    patches: tuple[diff.Patch, ...] = ()
    recreate: bool = False
    refused: Untranslatable | None = None


def changes(virtual: Obj, host: Obj, view: TenantView) -> Changes:
    """The changes that are needed. Raises `Untranslatable` if the virtual pod may no longer be on the host at all."""
    desired = pod.for_patch(virtual, host, view)
    added, refused = _ephemeral_containers(virtual, host, view)
    if refused is not None:
        _keep_generation(desired, host)
    return Changes(diff.pod_patches(desired, host, added), _is_outdated(desired, virtual, host), refused)


def _ephemeral_containers(virtual: Obj, host: Obj, view: TenantView) -> tuple[list[Obj], Untranslatable | None]:
    """Those to add, which no create may have; where one is refused none is, and that stops nothing else."""
    if not (virtual.get("spec") or {}).get("ephemeralContainers"):
        return [], None
    there: list[Any] = [each.get("name") for each in (host.get("spec") or {}).get("ephemeralContainers") or ()]
    try:
        return pod.ephemeral_containers(virtual, view, there), None
    except Untranslatable as refused:
        return [], refused


def _is_outdated(desired: Obj, virtual: Obj, host: Obj) -> bool:
    """Whether a host pod was made when the tenant's own marks on nodes were others, or its pool, and has no node yet.

    A pod that something on the host holds with a finalizer is left alone: it would be seen as deleted by the host.
    """
    if placed_on(virtual) or placed_on(host) or host["metadata"].get("finalizers"):
        return False
    return placement.digest_of(desired) != placement.digest_of(host) or placement.in_another_pool(desired, host)


def _keep_generation(desired: Obj, host: Obj) -> None:
    """Leave the generation that is noted on the host pod, which lacks something of what the newer one asks for."""
    annotations, noted = desired["metadata"]["annotations"], (host["metadata"].get("annotations") or {}).get(pod.GENERATION)
    if noted is None:
        annotations.pop(pod.GENERATION, None)
    else:
        annotations[pod.GENERATION] = noted
