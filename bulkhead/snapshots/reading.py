"""Reads a snapshot with every check: signature, sizes, digests of what is stored, decryption, and etcd's own digest.

    manifest ──> judged ──> etcd.age ──> digest, age ──> the store, whose last 32 bytes are the digest of the rest
                       └──> plane.age ──> digest, age ──> bundle, with the keys without which the store cannot be read

What is yielded counts only once the stream has ended without an error. Any holder of the public keys can encrypt something
else, so the signed digest of the ciphertext is what makes it ours.
"""

import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from bulkhead.signing import Ring
from bulkhead.snapshots import bundle
from bulkhead.snapshots.bundle import Bundle, BundleError
from bulkhead.snapshots.judge import RefusedError, Stored, Taker, judge, opened
from bulkhead.snapshots.layout import MANIFEST, PARTS, PLANE, STORE, folder
from bulkhead.snapshots.manifest import Manifest
from bulkhead.snapshots.sealing import Opening
from bulkhead.snapshots.target import AbsentError, Target

if TYPE_CHECKING:
    import pyrage

_DIGEST_BYTES: Final = 32
_MANIFEST_BYTES: Final = 256 * 1024
# Where the key is that the plane's Secrets are encrypted with.
_KEYS: Final = ("pki-service-account", "encryption.key")


async def named(target: Target, ring: Ring, identity: str, name: str) -> Manifest:
    """The manifest under a name, which says nothing of its parts. Raises AbsentError, RefusedError or TargetError."""
    envelope = await target.small(f"{folder(identity, name)}/{MANIFEST}", _MANIFEST_BYTES)
    found = opened(envelope.decode("utf-8", "replace"), ring)
    if (found.identity, found.snapshot) != (identity, name):
        raise RefusedError(f"its manifest is that of snapshot {found.snapshot} of plane {found.identity}: it was moved here")
    return found


async def sizes(target: Target, found: Manifest) -> Stored:
    """The parts of a snapshot that are there. Raises TargetError."""
    home = folder(found.identity, found.snapshot)
    seen = {part: await target.size(f"{home}/{found.attempt}/{part}") for part in PARTS}
    return Stored({part: size for part, size in seen.items() if size is not None})


async def inspect(target: Target, ring: Ring, identity: str, name: str, taker: Taker) -> Manifest:
    """The manifest of a snapshot of which everything is there. Raises RefusedError with every reason, or TargetError."""
    try:
        found = await named(target, ring, identity, name)
    except AbsentError:
        raise RefusedError(f"it has no {MANIFEST}: it was not finished, or that object was deleted") from None
    if reasons := judge(found, await sizes(target, found), taker):
        raise RefusedError("; ".join(reasons))
    return found


async def store(target: Target, found: Manifest, keys: "Sequence[pyrage.x25519.Identity]") -> AsyncGenerator[bytes, None]:
    """The snapshot file of etcd. Raises RefusedError, SealError or TargetError, at the latest at its end."""
    digest, last = hashlib.sha256(), b""
    async with aclosing(_part(target, found, STORE, keys)) as chunks:
        async for chunk in chunks:
            held = last + chunk
            digest.update(held[:-_DIGEST_BYTES])
            last = held[-_DIGEST_BYTES:]
            yield chunk
    if last != digest.digest():
        raise RefusedError("the store does not fit the digest that etcd wrote behind it")


async def plane(target: Target, found: Manifest, keys: "Sequence[pyrage.x25519.Identity]") -> Bundle:
    """Keys, Tenant and slice. Raises RefusedError, SealError or TargetError."""
    data = b""
    async with aclosing(_part(target, found, PLANE, keys)) as chunks:
        async for chunk in chunks:
            data += chunk
    try:
        made = bundle.read(data)
    except BundleError as error:
        raise RefusedError(f"{PLANE}: {error}") from error
    secret, file = _KEYS
    if not made.secrets.get(secret, {}).get(file):
        raise RefusedError(f"{PLANE} lacks the key that the plane's Secrets are encrypted with")
    if made.record != found.record:
        raise RefusedError(f"{PLANE} has another record than the manifest")
    return made


async def _part(
    target: Target, found: Manifest, name: str, keys: "Sequence[pyrage.x25519.Identity]"
) -> AsyncGenerator[bytes, None]:
    path, wanted = f"{folder(found.identity, found.snapshot)}/{found.attempt}/{name}", found.parts[name]
    digest, plain, size = hashlib.sha256(), 0, 0

    async def stored() -> AsyncGenerator[bytes, None]:
        nonlocal size
        async for chunk in target.chunks(path):
            digest.update(chunk)
            size += len(chunk)
            if size > wanted.size:
                raise RefusedError(f"{name} is longer than the manifest says")
            yield chunk

    async with aclosing(Opening(stored(), keys).stream()) as chunks:
        async for chunk in chunks:
            plain += len(chunk)
            if plain > wanted.plain:
                raise RefusedError(f"more comes out of {name} than the manifest says")
            yield chunk
    if (digest.hexdigest(), size, plain) != (wanted.sha256, wanted.size, wanted.plain):
        raise RefusedError(f"{name} is not what was stored: its digest differs from the one that is signed")
