"""Writes of whole files, which a crash cannot leave incomplete; and the digest of files that a process reads at its start."""

import hashlib
from pathlib import Path
from typing import Final

from workstation import wholefile

READ_AT_START: Final = "BULKHEAD_CONFIG"


def write_file(path: Path, content: bytes, *, mode: int = 0o644) -> bool:
    """Replace a file in one step, only if its content differs. Returns whether it was written."""
    if path.exists() and path.read_bytes() == content and path.stat().st_mode & 0o777 == mode:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    with wholefile.whole(path, mode=mode) as stream:
        stream.write(content)
    return True


def read_at_start(*paths: Path) -> dict[str, str]:
    """The digest of these files, for a component's environment: if one changes, the component changes and is restarted.

    Some programs read a changed certificate again by themselves, but not all, and none a changed kubeconfig.
    """
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes() if path.exists() else b"")
        digest.update(b"\0")
    return {READ_AT_START: digest.hexdigest()[:16]}
