"""The followers of all mirrored kinds, in one table: which kinds need more at run time than their entry in the registry."""

from collections.abc import Mapping

from bulkhead.kube.client import Client
from syncer.events import Recorder
from syncer.mirrors.budgets import Budgets
from syncer.mirrors.follower import Follower
from syncer.mirrors.services import Services
from syncer.mirrors.slices import Slices
from syncer.mirrors.volumeclaims import VolumeClaims
from syncer.mirrors.volumes import Volumes
from syncer.quota.extent import Extent
from syncer.translate.registry import KINDS
from syncer.watch.informers import Caches
from syncer.work import Queue
from syncer.write.host import HostWriter
from syncer.write.plane import VirtualWriter


def followers(
    caches: Caches,
    queue: Queue,
    host: HostWriter,
    virtual: VirtualWriter,
    plane: Client,
    *,
    slices: Slices,
    extent: Extent,
    recorder: Recorder,
) -> Mapping[str, Follower]:
    """The follower of each kind."""
    own = (
        Services(caches, queue, extent),
        slices,
        VolumeClaims(caches, queue, host, virtual, volumes=Volumes(plane), recorder=recorder),
        Budgets(caches, queue),
    )
    return {kind: Follower(kind) for kind in KINDS} | {follower.kind.kind: follower for follower in own}
