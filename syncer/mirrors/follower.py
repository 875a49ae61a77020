"""What a mirrored kind may need at run time beside its translation: hooks, which do nothing unless the kind overrides them.

    no copy yet:       translate ──> before_create ──> create                 ──┐
    a copy:            translate ──> before_patch ──> patch ──> before_status ──┼──> refused, where the host says no
    virtual is gone:   before_delete ──> delete                               ──┘
    both are gone:     gone

Most kinds need none of it: their entry in `syncer.translate.registry` is enough. The others are listed in `kinds`.
"""

from collections.abc import Iterable

from bulkhead.api.objects import Obj
from bulkhead.kube.errors import ApiError
from bulkhead.kube.objects import Meta
from syncer.translate import TenantView, Untranslatable
from syncer.translate.registry import KINDS
from syncer.watch.informers import Subscription
from syncer.work import Item


class Follower:
    """The hooks of one kind."""

    def __init__(self, kind: str) -> None:
        self.kind = KINDS[kind]

    def subscriptions(self) -> Iterable[Subscription]:
        """The changes that it must be called for."""
        return ()

    def translate(self, virtual: Obj, view: TenantView) -> tuple[Obj, list[str]]:
        """The host object for `virtual`, and what the tenant is told of it that stays behind."""
        return self.kind.to_host(virtual, view), self.kind.remarks(virtual, view)

    def before_create(self, item: Item, desired: Obj) -> None:
        """A copy is about to be created; may raise Untranslatable."""

    def before_patch(self, host: Obj, desired: Obj) -> None:
        """A copy that differs from `desired` is about to be patched; may raise Untranslatable."""

    def forget_plane(self) -> None:
        """The plane's data was replaced: what was remembered of it by UID or version may be of another history."""

    async def before_status(self, virtual: Obj, host: Obj) -> Obj | None:  # noqa: ARG002 -- for those that override it
        """The status of `host` is about to be written to `virtual`; returns that as it is by then, None to write none."""
        return virtual

    async def before_delete(self, copy: Meta) -> None:
        """The virtual object is proven absent, and its copy is about to be deleted."""

    async def gone(self, item: Item) -> None:
        """The caches have neither the virtual object nor a copy of it."""

    async def without_copy(self, item: Item, virtual: Obj) -> None:
        """The object is refused, and the cache has no copy of it."""

    def refused(self, error: ApiError, virtual: Obj) -> float | Untranslatable | None:  # noqa: ARG002 -- as above
        """The meaning of a host's refusal: seconds to wait, or a message to the tenant; None for the usual meaning."""
        return None
