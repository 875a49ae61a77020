"""One kind of the host, watched: of each object only what the caller makes of it stays in memory.

list, watch ──> take ──> value by key          None: the object does not matter

A kind that an API server in trouble refuses or does not answer is given up for the picture after ten seconds, and named in it;
its watch goes on, and the picture has it as soon as it was read.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Final, Generic, NoReturn, TypeVar

import msgspec

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.codec import decode_meta, decode_obj
from bulkhead.kube.errors import Forbidden
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.objects import Key, Meta, Resource

_T = TypeVar("_T")
_LOOK_SECONDS: Final = 0.2
PATIENCE_SECONDS: Final = 10.0


class Watched(Generic[_T]):
    """The values of one kind, kept up to date by `run`."""

    def __init__(
        self,
        client: Client,
        r: Resource,
        take: Callable[[Obj], _T | None],
        changed: Callable[[], None],
        *,
        field_selector: str | None = None,
        label_selector: str | None = None,
        namespace: str | None = None,
        optional: bool = False,
        needed: bool = False,
    ) -> None:
        """`needed`: the picture waits for this kind, because it cannot be drawn without it."""
        self._needed = needed
        self._take = take
        self._changed = changed
        self._values: dict[Key, _T] = {}
        self.answered = asyncio.Event()
        self.informer = Informer(
            client,
            r,
            namespace=namespace,
            field_selector=field_selector,
            label_selector=label_selector,
            on_change=self._on_change,
            shrink=self._shrink,
            optional=optional,
        )

    def values(self) -> list[_T]:
        """All values, as of now."""
        return list(self._values.values())

    @property
    def count(self) -> int:
        """How many values there are so far."""
        return len(self._values)

    async def run(self) -> NoReturn:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._answer())
            await self.informer.run()

    async def _answer(self) -> None:
        """Note that the kind was read, may not be read, or is not answered."""
        begun = time.monotonic()
        while not self.informer.has_synced and self.forbidden is None and not self._gives_up(begun):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self.informer.synced()
        self.answered.set()
        await self.informer.synced()
        self._changed()

    def _gives_up(self, begun: float) -> bool:
        """Whether a kind is late that is not needed. A long list that comes page by page is not."""
        late = not self._needed and time.monotonic() - begun > PATIENCE_SECONDS
        return late and (self.informer.last_error is not None or not self._values)

    @property
    def missing(self) -> str:
        """Why the kind is not in the picture; empty if it is, or is still waited for."""
        error = self.informer.last_error
        if self.informer.has_synced and isinstance(error, Forbidden):
            return f"as it was when the console began, because you may not watch it: {error}"
        if self.informer.has_synced or not self.answered.is_set():
            return str(error) if isinstance(error, Forbidden) else ""
        return str(error) if error is not None else f"no answer within {PATIENCE_SECONDS:g} s"

    @property
    def forbidden(self) -> Forbidden | None:
        """The refusal, if this user may not read the kind."""
        error = self.informer.last_error
        return error if isinstance(error, Forbidden) else None

    def _shrink(self, raw: bytes | msgspec.Raw, meta: Meta | None) -> tuple[Meta, bytes]:
        full = meta if meta is not None else decode_meta(raw)
        # Neither labels nor annotations are kept twice.
        bare = Meta(name=full.name, namespace=full.namespace, uid=full.uid, resource_version=full.resource_version)
        value = self._take(decode_obj(raw))
        if value is None:
            return bare, b""
        self._values[bare.key] = value
        return bare, b"{}"

    def _on_change(self, change: Change) -> None:
        if change.kind == "deleted":
            self._values.pop(change.key, None)
        self._changed()
