"""Watches claims for devices, only on a host where a tenant may have claims or still has one.

    a quota that counts a device class, or an existing claim ──> an informer ──> Claimed, nothing else is kept ──> events
                                                 neither ──> no informer

If a host does not serve claims, or its watch of them is silent, this is `deaf`: the devices of claims are unknown then. Pods
are still metered.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from bulkhead.api import labels
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.codec import decode_meta, decode_obj
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.objects import Meta
from bulkhead.metering.claimed import Claimed, claimed_of
from bulkhead.metering.meter import Lines

_log = logging.getLogger(__name__)
SELECTOR: Final = labels.MIRRORED
_MIB: Final = 1024 * 1024
_FIRST_LIST_WITHIN_SECONDS: Final = 20.0


def of_claim(raw: bytes | msgspec.Raw, meta: Meta | None) -> tuple[Meta, bytes]:
    """The part of a claim that is kept: its allocated devices; empty if there are none."""
    meta = meta or decode_meta(raw)
    bare = Meta(name=meta.name, namespace=meta.namespace, uid=meta.uid, resource_version=meta.resource_version)
    claimed = claimed_of(decode_obj(raw))
    return bare, b"" if claimed is None else msgspec.json.encode(claimed)


class Claims:
    """The claims of all tenants, while there may be any."""

    def __init__(self, client: Client, heard: Callable[[Change], None], silence: float) -> None:
        self._client = client
        self._heard = heard
        self._silence = silence
        self._informer: Informer | None = None
        self._task: asyncio.Task[None] | None = None
        # A tenant may still have claims of classes that it may no longer use.
        self._looked = False

    @property
    def watched(self) -> bool:
        """Whether claims are watched."""
        return self._informer is not None

    @property
    def deaf(self) -> bool:
        """Whether the devices of claims are unknown."""
        informer = self._informer
        return informer is None or not informer.has_synced or not informer.served or informer.silence() > self._silence

    def all(self) -> Iterator[Claimed]:
        """Every claim that has devices."""
        for claim in self._informer.store.objects() if self._informer else ():
            yield msgspec.convert(claim, Claimed)

    def of(self, change: Change) -> Claimed | None:
        """The claim that has changed."""
        found = self._informer.store.get(change.key) if self._informer else None
        return None if found is None else msgspec.convert(found, Claimed)

    async def look(self, group: asyncio.TaskGroup, lines: Lines) -> None:
        """Start or stop the watch, as needed."""
        if self._informer is None:
            if lines or await self._any_left():
                await self._start(group)
        elif not lines and not len(self._informer.store) and self._task is not None:
            self._task.cancel()
            self._informer = self._task = None

    async def _start(self, group: asyncio.TaskGroup) -> None:
        self._informer = informer = Informer(
            self._client,
            kinds.RESOURCE_CLAIMS,
            label_selector=SELECTOR,
            shrink=of_claim,
            on_change=self._heard,
            max_bytes=64 * _MIB,
            optional=True,
        )
        self._task = group.create_task(informer.run(), name="usage: claims")
        # If the host does not answer this request, metering of pods does not wait for it.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_LIST_WITHIN_SECONDS):
                await informer.synced()

    async def _any_left(self) -> bool:
        if self._looked:
            return False
        try:
            async for page in self._client.pages(kinds.RESOURCE_CLAIMS, label_selector=SELECTOR, limit=1):
                self._looked = True
                return bool(page.items)
        except NotFound:
            self._looked = True
        except KubeError as error:
            _log.warning("claims for devices not listed: %s", error)
        return False
