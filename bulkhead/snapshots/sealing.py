"""Encrypts and decrypts streams in the age format (age-encryption.org/v1), with memory that does not depend on their length.

    chunks ──> Sealing(chunks, recipients) ──> chunks of ciphertext, counted and digested
    chunks of ciphertext ──> Opening(chunks, identities) ──> chunks

age's library works on files, so it has a thread of its own, with bounded queues to both sides: a slow reader makes the source
wait. A stream that was cut or changed does not decrypt to its end, and raises.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, Final, cast

import pyrage

_CHUNK_BYTES: Final = 256 * 1024
_WAITING_CHUNKS: Final = 4


class SealError(ValueError):
    """A stream cannot be encrypted or decrypted; the message says why."""


def recipient(text: str) -> "pyrage.x25519.Recipient":
    """A public key, `age1...`. Raises SealError."""
    try:
        return pyrage.x25519.Recipient.from_str(text)
    except pyrage.RecipientError as error:
        raise SealError(f"{text[:80]!r} is not an age public key (age1...): {error}") from error


def identities(text: str) -> list["pyrage.x25519.Identity"]:
    """The private keys of a file as `age-keygen` writes it. Raises SealError, without quoting any of it."""
    lines = [line.strip() for line in text.splitlines()]
    keys = [line for line in lines if line and not line.startswith("#")]
    try:
        found = [pyrage.x25519.Identity.from_str(key) for key in keys]
    except pyrage.IdentityError as error:
        raise SealError("a line of the key file is not an age private key (AGE-SECRET-KEY-1...)") from error
    if not found:
        raise SealError("the key file has no age private key (AGE-SECRET-KEY-1...)")
    return found


class _Through:
    """Runs a function between two streams, in a thread: an iterator of what it writes."""

    def __init__(self, chunks: AsyncIterator[bytes], work: Callable[[Any, Any], None]) -> None:
        self.taken = 0  # bytes that went in
        self.given = 0  # bytes that came out
        self._chunks = chunks
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._out: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue(_WAITING_CHUNKS)
        self._rest = b""
        self._written = bytearray()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="age")
        self._ended = False
        self._failed: BaseException | None = None  # what the source raised
        self._waiting: Future[Any] | None = None  # what the thread waits for

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """What comes out; close it if it is not read to its end."""
        running = self._loop.run_in_executor(self._pool, self._run)
        try:
            while (chunk := await self._out.get()) is not None:
                if isinstance(chunk, BaseException):
                    raise chunk
                self.given += len(chunk)
                yield chunk
        finally:
            self._ended = True
            # The thread waits for room here, or for the source: both end with this.
            while not running.done():
                if self._waiting is not None:
                    self._waiting.cancel()
                while not self._out.empty():
                    self._out.get_nowait()
                await asyncio.sleep(0.01)
            self._pool.shutdown(wait=False)

    def _run(self) -> None:
        """In the thread."""
        try:
            self._work(self, self)
            self.flush()
            last: BaseException | None = None
        except BaseException as error:  # noqa: BLE001 - handed over, whatever it is: otherwise the reader waits for ever
            last = self._reason(error)
        # A reader that has gone away takes nothing.
        with contextlib.suppress(OSError, CancelledError, asyncio.CancelledError):
            self._ask(self._out.put(last))

    def _reason(self, error: BaseException) -> BaseException:
        # What the source raised is told as it is: age wraps it.
        return self._failed if self._failed is not None else SealError(f"age: {error}")

    def read(self, size: int = -1) -> bytes:
        """For age: the next bytes of the source, at most `size`; empty at its end."""
        if not self._rest:
            self._rest = self._ask(self._next())
            self.taken += len(self._rest)
        most = len(self._rest) if size is None or size < 0 else size
        data, self._rest = self._rest[:most], self._rest[most:]
        return data

    def write(self, data: bytes) -> int:
        """For age: bytes that it has made."""
        self._written += data
        if len(self._written) >= _CHUNK_BYTES:
            self.flush()
        return len(data)

    def flush(self) -> None:
        """Hand over what was written."""
        if self._written:
            self._ask(self._out.put(bytes(self._written)))
            self._written.clear()

    async def _next(self) -> bytes:
        try:
            async for chunk in self._chunks:
                if chunk:
                    return chunk
        except BaseException as error:
            self._failed = error
            raise
        return b""

    def _ask(self, waiting: Any) -> Any:
        if self._ended:
            waiting.close()
            raise OSError("the reader of the stream has gone away")
        self._waiting = asyncio.run_coroutine_threadsafe(waiting, self._loop)
        return self._waiting.result()


class Sealing:
    """The ciphertext of a stream, for several public keys at once; sizes and digest are known at its end."""

    def __init__(self, chunks: AsyncIterator[bytes], recipients: Sequence[str]) -> None:
        keys = cast("Sequence[Any]", [recipient(text) for text in recipients])
        if not keys:
            raise SealError("there is no public key to encrypt to")
        self._through = _Through(chunks, lambda source, sink: pyrage.encrypt_io(source, sink, keys))
        self._digest = hashlib.sha256()

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """The ciphertext; close it if it is not read to its end."""
        async with contextlib.aclosing(self._through.stream()) as chunks:
            async for chunk in chunks:
                self._digest.update(chunk)
                yield chunk

    @property
    def plain(self) -> int:
        """Bytes that were encrypted so far."""
        return self._through.taken

    @property
    def size(self) -> int:
        """Bytes of ciphertext so far."""
        return self._through.given

    @property
    def sha256(self) -> str:
        """SHA-256 of the ciphertext so far."""
        return self._digest.hexdigest()


class Opening:
    """The content of a ciphertext. Raises SealError if no key fits, or it was cut or changed."""

    def __init__(self, chunks: AsyncIterator[bytes], keys: Sequence["pyrage.x25519.Identity"]) -> None:
        known = cast("Sequence[Any]", list(keys))
        self._through = _Through(chunks, lambda source, sink: pyrage.decrypt_io(source, sink, known))

    def stream(self) -> AsyncGenerator[bytes, None]:
        """The content; close it if it is not read to its end."""
        return self._through.stream()
