"""Writes of whole files, which a crash cannot leave incomplete."""

from pathlib import Path

from workstation import wholefile


def write_file(path: Path, content: bytes, *, mode: int = 0o644) -> bool:
    """Replace a file in one step, only if its content differs. Returns whether it was written."""
    if path.exists() and path.read_bytes() == content and path.stat().st_mode & 0o777 == mode:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    with wholefile.whole(path, mode=mode) as stream:
        stream.write(content)
    return True
