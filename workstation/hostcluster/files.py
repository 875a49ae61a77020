"""Writes of whole files, which a crash cannot leave incomplete."""

import os
import tempfile
from pathlib import Path


def write_file(path: Path, content: bytes, *, mode: int = 0o644) -> bool:
    """Replace a file in one step, only if its content differs. Returns whether it was written."""
    if path.exists() and path.read_bytes() == content and path.stat().st_mode & 0o777 == mode:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            os.fchmod(stream.fileno(), mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return True
