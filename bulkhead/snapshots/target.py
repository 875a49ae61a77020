"""Reads and writes the objects of snapshots, in an S3 bucket or in a directory, by obstore.

One object at a time, streamed: memory is bounded by a few parts of a multipart upload. Every failure is a TargetError that says
what to do, without credentials. An upload that is broken off leaves no object behind.
"""

import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import certifi
import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError
from obstore.store import LocalStore, S3Store

from bulkhead.snapshots.place import Place

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

_PART_BYTES: Final = 8 * 1024 * 1024
_PARTS_AT_ONCE: Final = 2
_SMALL_BYTES: Final = 4 * 1024 * 1024
_RETRIES: Final = 5
_RETRY_SECONDS: Final = 60
_REQUEST_SECONDS: Final = 60
_WORDS: Final = 300


class TargetError(OSError):
    """The target did not do what it was asked; the message says why."""


class AbsentError(TargetError):
    """There is no such object."""


class DeniedError(TargetError):
    """The credentials do not suffice for it."""


class PresentError(TargetError):
    """There is such an object already."""


class TooLargeError(TargetError):
    """The object is larger than its reader takes."""


class Target:
    """Reads and writes objects at one place."""

    def __init__(self, place: Place, credentials: Mapping[str, str] | None = None) -> None:
        """Raises TargetError if the place cannot be opened."""
        self.place = place
        try:
            self._store = _local(place) if place.scheme == "file" else _s3(place, credentials or {})
        except BaseError as error:
            raise TargetError(f"cannot open {place}: {' '.join(str(error).split())[:_WORDS]}") from error

    async def put(self, path: str, chunks: AsyncGenerator[bytes, None]) -> None:
        """Store a stream of any length; on any error there is no such object. Raises TargetError, or what the stream raises."""
        try:
            # The library drops the stream if an upload fails; what feeds it has to end then.
            async with aclosing(chunks):
                await obstore.put_async(
                    self._store,
                    path,
                    chunks,
                    use_multipart=True,
                    chunk_size=_PART_BYTES,
                    max_concurrency=_PARTS_AT_ONCE,
                )
        except (BaseError, FileNotFoundError, PermissionError) as error:
            raise self._error("store", path, error) from error

    async def put_small(self, path: str, data: bytes, *, new: bool = False) -> None:
        """Store a few bytes, in one step. `new`: only if there is nothing, else PresentError. Raises TargetError."""
        try:
            await obstore.put_async(self._store, path, data, use_multipart=False, mode="create" if new else "overwrite")
        except (BaseError, FileNotFoundError, PermissionError) as error:
            raise self._error("store", path, error) from error

    async def small(self, path: str, most: int = _SMALL_BYTES) -> bytes:
        """A small object. Raises AbsentError, DeniedError, TooLargeError or TargetError."""
        data = bytearray()
        async for chunk in self.chunks(path):
            data += chunk
            if len(data) > most:
                raise TooLargeError(f"{path} at {self.place} is larger than {most} bytes")
        return bytes(data)

    async def chunks(self, path: str) -> AsyncIterator[bytes]:
        """An object, piece by piece. Raises AbsentError, DeniedError or TargetError."""
        try:
            found = await obstore.get_async(self._store, path)
            async for chunk in found.stream(min_chunk_size=256 * 1024):
                yield bytes(chunk)
        except (BaseError, FileNotFoundError, PermissionError) as error:
            raise self._error("read", path, error) from error

    async def delete(self, path: str) -> None:
        """Delete an object; nothing happens if there is none. Raises TargetError."""
        try:
            await obstore.delete_async(self._store, path)
        except FileNotFoundError:
            return
        except (BaseError, PermissionError) as error:
            raise self._error("delete", path, error) from error

    async def size(self, path: str) -> int | None:
        """The size of an object; None if there is none. Raises TargetError."""
        try:
            return int((await obstore.head_async(self._store, path))["size"])
        except FileNotFoundError:
            return None
        except (BaseError, PermissionError) as error:
            raise self._error("look up", path, error) from error

    async def names(self, most: int) -> AsyncIterator[str]:
        """The paths of all objects, at most so many. Raises TargetError."""
        count = 0
        try:
            async for page in obstore.list(self._store):
                for found in page:
                    count += 1
                    if count > most:
                        raise TargetError(f"{self.place} has more than {most} objects")
                    yield str(found["path"])
        except (BaseError, FileNotFoundError, PermissionError) as error:
            raise self._error("list", "objects", error) from error

    def _error(self, what: str, path: str, error: BaseException) -> TargetError:
        # Only the first line: the rest is the library's view of its own insides.
        words = str(error).partition("\n")[0][:_WORDS]
        kinds = (
            (FileNotFoundError, AbsentError),
            (PermissionDeniedError | PermissionError, DeniedError),
            (AlreadyExistsError, PresentError),
        )
        kind = next((ours for theirs, ours in kinds if isinstance(error, theirs)), TargetError)
        return kind(f"cannot {what} {path} at {self.place}: {words}")


def _local(place: Place) -> LocalStore:
    if not Path(place.root).is_dir():
        raise TargetError(f"{place}: there is no such directory; is the volume mounted?")
    return LocalStore(place.root)


def trust() -> None:
    """Let obstore trust the authorities of certifi where the system has none: it reads no others, and images have none."""
    if not os.environ.keys() & {"SSL_CERT_FILE", "SSL_CERT_DIR"} and not _has_authorities(ssl.get_default_verify_paths()):
        os.environ["SSL_CERT_FILE"] = certifi.where()


def _has_authorities(paths: ssl.DefaultVerifyPaths) -> bool:
    return bool(paths.cafile) or bool(paths.capath and any(Path(paths.capath).iterdir()))


def _s3(place: Place, credentials: Mapping[str, str]) -> S3Store:
    trust()
    retry: RetryConfig = {"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)}
    client: ClientConfig = {"allow_http": place.plain_http, "timeout": timedelta(seconds=_REQUEST_SECONDS)}
    config: dict[str, object] = dict(credentials)
    if place.endpoint:
        config |= {"endpoint": place.endpoint, "virtual_hosted_style_request": False}
    config["region"] = place.region or "us-east-1"
    return S3Store(
        place.root,
        prefix=place.prefix or None,
        client_options=client,
        retry_config=retry,
        **config,  # type: ignore[arg-type]
    )
