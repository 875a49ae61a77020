"""Writes a file that a person named: whole or not at all; into what is there, where that is a device or a pipe.

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
def replacing(path: Path, *, mode: int = 0o600) -> Iterator[BinaryIO]:
    """What is written gets the name, and this mode, once it is complete; a link stays a link. Raises OSError."""
    kind = _kind(path)
    if kind is not None and stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if kind is not None and not stat.S_ISREG(kind):
        with path.open("wb", buffering=0) as there:
            yield there
        return
    target = path.resolve()
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            os.fchmod(file.fileno(), mode)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _kind(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None
