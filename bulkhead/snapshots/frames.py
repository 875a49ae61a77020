"""The stream of `POST /v3/maintenance/snapshot` of etcd's JSON gateway, as the bytes of a snapshot file. Pure.

    {"result": {"remaining_bytes": "32768", "blob": "<base64>"}}   one line each, 32 KiB of the store
    {"result": {"blob": "<base64>"}}                               the last: SHA-256 of all before
    {"error": {...}}                                               instead of any: etcd gave up

The file is the store followed by the digest, as `etcdutl snapshot restore` takes it. A stream that ends early, or whose digest
does not fit, is an error, whatever came before.
"""

import hashlib
from typing import Final

import msgspec

_DIGEST_BYTES: Final = 32
_LINE_BYTES: Final = 1024 * 1024
_WORDS: Final = 300


class TornError(ValueError):
    """The stream is not a whole snapshot; the message says why."""


class _Result(msgspec.Struct, gc=False):
    blob: bytes = b""  # base64 in JSON
    remaining_bytes: str = "0"


class _Fault(msgspec.Struct, gc=False):
    message: str = ""


class _Frame(msgspec.Struct, gc=False):
    result: _Result | None = None
    error: _Fault | None = None


_frame = msgspec.json.Decoder(_Frame)


class Frames:
    """Reads one stream; `most` bounds the bytes of the store."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rest = b""
        self._digest = hashlib.sha256()
        self._complete = False
        self.taken = 0  # bytes of the store so far
        self.total = 0  # bytes of the store, known from the first frame on

    def feed(self, data: bytes) -> list[bytes]:
        """The parts of the file in what has arrived. Raises TornError."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LINE_BYTES:
            raise TornError(f"etcd sent a line of more than {_LINE_BYTES} bytes")
        return [self._part(line) for line in lines if line.strip()]

    def end(self) -> None:
        """The stream has ended. Raises TornError if that was too early."""
        if self._rest.strip():
            raise TornError("the stream ended within a line")
        if not self._complete:
            raise TornError(f"the stream ended after {self.taken} of {self.total} bytes, without the digest")

    def _part(self, line: bytes) -> bytes:
        try:
            frame = _frame.decode(line)
            remaining = int(frame.result.remaining_bytes) if frame.result is not None else 0
        except (msgspec.MsgspecError, ValueError) as error:
            raise TornError(f"etcd sent what is not a part of a snapshot: {str(error)[:_WORDS]}") from error
        if frame.error is not None or frame.result is None:
            words = frame.error.message if frame.error is not None else "an empty answer"
            raise TornError(f"etcd gave up: {words[:_WORDS]}")
        if self._complete:
            raise TornError("etcd sent more after the digest")
        blob = frame.result.blob
        if self.total and self.taken == self.total and not remaining:
            return self._last(blob)
        self.total = self.total or len(blob) + remaining
        self.taken += len(blob)
        if remaining < 0 or self.taken + remaining != self.total:
            raise TornError(f"etcd sent {self.taken} bytes and announces {remaining} more, of {self.total}")
        if self.total > self._most:
            raise TornError(f"the store has {self.total} bytes, and at most {self._most} are taken")
        self._digest.update(blob)
        return blob

    def _last(self, blob: bytes) -> bytes:
        if len(blob) != _DIGEST_BYTES or blob != self._digest.digest():
            raise TornError("the digest that etcd sent does not fit what it sent before")
        self._complete = True
        return blob
