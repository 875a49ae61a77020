"""One attempt to take a snapshot: what is stored, in which order.

    stored already ──> that is it
    else ──> a member's stream (`source`), age ──> etcd.age ──> plane.age ──> manifest.json, signed: with it there is a snapshot

Memory does not depend on the size of the store. What an attempt that failed has stored is deleted if the target allows it, and
counts for nothing either way.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import bulkhead
from bulkhead.api.conditions import timestamp
from bulkhead.kube.errors import Timeout
from bulkhead.signing import Ring
from bulkhead.snapshots import manifest
from bulkhead.snapshots.bundle import Bundle
from bulkhead.snapshots.frames import Frames
from bulkhead.snapshots.layout import MANIFEST, PLANE, STORE, folder
from bulkhead.snapshots.manifest import Manifest, Part
from bulkhead.snapshots.sealing import Sealing
from bulkhead.snapshots.target import PresentError, Target, TargetError
from controller.snapshots import already, source
from controller.snapshots.already import MOST_STORE_BYTES, NameTakenError
from controller.snapshots.source import EtcdOpened
from controller.snapshots.spec import Order

_log = logging.getLogger(__name__)
_STALLED_SECONDS: Final = 60.0
_ATTEMPT_SECONDS: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Means:
    """What every attempt uses."""

    etcd: EtcdOpened
    target: Callable[[], Target]
    recipients: tuple[str, ...]
    ring: Callable[[], Awaitable[Ring]]


async def take(order: Order, means: Means, now: datetime, on_progress: Callable[[int, int], object]) -> tuple[Manifest, str]:
    """Take it, and return its manifest and where that is.

    `on_progress` gets the bytes of the store and those that are stored. Raises NameTakenError, NoMemberError, KubeError,
    TornError, TargetError, SealError, TimeoutError.
    """
    async with asyncio.timeout(_ATTEMPT_SECONDS):
        target, ring = means.target(), await means.ring()
        home = folder(order.spec.identity, order.name)
        location = f"{target.place}/{home}/{MANIFEST}"
        there = await already.look(target, ring, order)
        if there.manifest is not None:
            return there.manifest, location
        attempt = already.new_attempt(order.uid)
        parts: dict[str, Part] = {}
        try:
            store = _store(order, means, on_progress)
            parts[STORE] = await _put(target, f"{home}/{attempt}/{STORE}", store, means.recipients)
            data = Bundle(order.record, order.tenant, order.spec.service_slice, order.secrets).data()
            parts[PLANE] = await _put(target, f"{home}/{attempt}/{PLANE}", _once(data), means.recipients)
            made = _manifest(order, attempt, parts, means.recipients, now)
            envelope = ring.sign(manifest.PURPOSE, made.text())
            await _finish(target, f"{home}/{MANIFEST}", envelope, new=there.unseen)
        except BaseException:
            await _remove(target, [f"{home}/{attempt}/{name}" for name in (STORE, PLANE)])
            raise
    return made, location


async def _put(target: Target, path: str, chunks: AsyncGenerator[bytes, None], recipients: tuple[str, ...]) -> Part:
    sealing = Sealing(chunks, recipients)
    async with aclosing(chunks):
        await target.put(path, sealing.stream())
    return Part(sealing.size, sealing.sha256, sealing.plain)


async def _finish(target: Target, path: str, envelope: str, *, new: bool) -> None:
    try:
        await target.put_small(path, envelope.encode(), new=new)
    except PresentError as error:
        raise NameTakenError(f"a snapshot of this name is stored already: {already.ADVICE}") from error


async def _once(data: bytes) -> AsyncGenerator[bytes, None]:
    yield data


async def _store(order: Order, means: Means, on_progress: Callable[[int, int], object]) -> AsyncGenerator[bytes, None]:
    """The snapshot file of etcd, from a member that has all of it."""
    frames = Frames(MOST_STORE_BYTES)
    async with source.stream(order, means.etcd) as answer:
        while data := await _next(answer.readany()):
            for part in frames.feed(data):
                on_progress(frames.total, frames.taken)
                yield part
    frames.end()


async def _next(reading: Awaitable[bytes]) -> bytes:
    try:
        async with asyncio.timeout(_STALLED_SECONDS):
            return await reading
    except TimeoutError as error:
        raise Timeout(f"etcd sent nothing for {_STALLED_SECONDS:g} s") from error


def _manifest(order: Order, attempt: str, parts: Mapping[str, Part], recipients: tuple[str, ...], now: datetime) -> Manifest:
    spec = order.spec
    return Manifest(
        snapshot=order.name,
        attempt=attempt,
        identity=spec.identity,
        tenant=spec.tenant,
        tenant_uid=spec.uid,
        created=timestamp(now),
        kubernetes=spec.version,
        etcd=spec.images.etcd.partition("@")[0].rpartition(":")[2] or "unknown",
        bulkhead=bulkhead.__version__,
        service_slice=spec.service_slice,
        record=order.record,
        recipients=recipients,
        parts=parts,
    )


async def _remove(target: Target, paths: list[str]) -> None:
    for path in paths:
        try:
            async with asyncio.timeout(10):
                await target.delete(path)
        except (TargetError, TimeoutError) as error:
            _log.info("what a failed attempt stored stays: %s", error)
