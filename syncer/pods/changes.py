"""The changes that an existing host pod needs to match its virtual pod. Pure; `patches` sends them.

node marks or pool changed, no node yet -> recreated; so for another node affinity, which a gated pod may get
an ephemeral container refused          -> the rest all the same, and the generation is not noted
anything else that differs              -> patches
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bulkhead.api.objects import Obj
from bulkhead.api.podphase import placed_on
from syncer.pods import growth
from syncer.translate import Untranslatable, diff
from syncer.translate.kinds import pod
from syncer.translate.podspec import placement
from syncer.translate.view import TenantView


@dataclass(frozen=True, slots=True)
class Changes:
    """The patches for a host pod, in order; whether to recreate it instead; and why a part of it is refused.

    labels, grows: its labels after the patches, and by how many bytes they make it larger.
    """

    patches: tuple[diff.Patch, ...] = ()
    recreate: bool = False
    refused: Untranslatable | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    grows: int = 0


def changes(virtual: Obj, host: Obj, view: TenantView) -> Changes:
    """The changes that are needed. Raises `Untranslatable` if the virtual pod may no longer be on the host at all."""
    desired = pod.for_patch(virtual, host, view)
    added, refused = _ephemeral_containers(virtual, host, view)
    if refused is not None:
        _keep_generation(desired, host)
    patches = diff.pod_patches(desired, host, added)
    return Changes(
        patches,
        _is_outdated(desired, virtual, host),
        refused,
        labels=growth.labels(patches, host) if patches else {},
        grows=growth.bytes_of(patches, host),
    )


def _ephemeral_containers(virtual: Obj, host: Obj, view: TenantView) -> tuple[list[Obj], Untranslatable | None]:
    """The ephemeral containers to add, which a create may not have. If one is refused, none is added, and the rest goes on."""
    if not (virtual.get("spec") or {}).get("ephemeralContainers"):
        return [], None
    there: list[Any] = [
        ephemeral_container.get("name") for ephemeral_container in (host.get("spec") or {}).get("ephemeralContainers") or ()
    ]
    try:
        return pod.ephemeral_containers(virtual, view, there), None
    except Untranslatable as refused:
        return [], refused


def _is_outdated(desired: Obj, virtual: Obj, host: Obj) -> bool:
    """Whether the tenant's marks on nodes, its pool or its gated pod's node affinity changed, and the host pod has no node yet.

    A pod that something on the host holds with a finalizer is left alone: it would be seen as deleted by the host.
    """
    if placed_on(virtual) or placed_on(host) or host["metadata"].get("finalizers"):
        return False
    if placement.asks_otherwise(virtual, host):
        return True
    return placement.digest_of(desired) != placement.digest_of(host) or placement.in_another_pool(desired, host)


def _keep_generation(desired: Obj, host: Obj) -> None:
    """Keep the generation on the host pod, because it lacks a part of what the newer generation requests."""
    annotations, noted = desired["metadata"]["annotations"], (host["metadata"].get("annotations") or {}).get(pod.GENERATION)
    if noted is None:
        annotations.pop(pod.GENERATION, None)
    else:
        annotations[pod.GENERATION] = noted
