"""Writes files whole or not at all; one that a person named also into what is there, where that is a device or a pipe.

`--write /dev/stdout` must not put a file in the place of /dev/stdout, nor `--write /dev/null`, as root, in that of /dev/null.
"""

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def whole(path: Path, *, mode: int) -> Iterator[BinaryIO]:
    """What is written gets the name, and this mode, once it is complete, in the place of whatever has it. Raises OSError."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            os.fchmod(file.fileno(), mode)
            # Otherwise a power failure may leave the new name on an empty file.
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def replacing(path: Path, *, mode: int = 0o600) -> Iterator[BinaryIO]:
    """The same for a path that a person named: a link stays a link, a device a device. Raises OSError."""
    kind = _kind(path)
    if kind is not None and stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if kind is not None and not stat.S_ISREG(kind):
        with path.open("wb", buffering=0) as there:
            yield there
        return
    with whole(path.resolve(), mode=mode) as file:
        yield file


def _kind(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None
