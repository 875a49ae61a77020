"""Remembers how far uploads were when a push was interrupted, so that the next push continues there.

One small file. If it is lost, or the registry has forgotten the upload, the blob is sent again from its beginning.
"""

import contextlib
import fcntl
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from workstation.hostcluster.files import write_file

_FILE_LIMIT_BYTES: Final = 1 << 20
_MAX_URL_CHARACTERS: Final = 8192


@contextlib.contextmanager
def alone(path: Path, tell: Callable[[str], object]) -> Iterator[None]:
    """One push of this user at a time: two would go on with each other's uploads, and overwrite each other's values.

    `path` is a lock file; where none can be made, nothing is remembered that another push could go on with.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("w")
    except OSError:
        yield
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("waiting for the end of another push of yours; Ctrl-C ends this one\n")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@dataclass(slots=True)
class Uploads:
    """Locations of uploads, by blob."""

    path: Path
    _known: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            stored = json.loads(self.path.read_bytes()) if self.path.stat().st_size <= _FILE_LIMIT_BYTES else {}
            self._known = {str(key): str(value) for key, value in dict(stored).items()}

    def location(self, key: str) -> str:
        """The next location of an upload; empty if none was begun."""
        return self._known.get(key, "")

    def remember(self, key: str, location: str) -> None:
        """Keep the next location of an upload."""
        if len(location) <= _MAX_URL_CHARACTERS:
            self._known[key] = location
            self._write()

    def forget(self, key: str) -> None:
        """Forget an upload, which succeeded or failed."""
        if self._known.pop(key, None) is not None:
            self._write()

    def _write(self) -> None:
        # The locations are a kind of secret: any client that has one may write to that upload.
        write_file(self.path, json.dumps(self._known, sort_keys=True).encode(), mode=0o600)
