"""Remembers where uploads were when a push was interrupted, so that the next one goes on there.

One small file; losing it, or a registry that has forgotten the upload, costs no more than sending that blob from its begin.
"""

import contextlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from workstation.hostcluster.files import write_file

_MOST: Final = 1 << 20
_MOST_URL: Final = 8192


@dataclass(slots=True)
class Uploads:
    """Locations of uploads by what they upload."""

    path: Path
    _known: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            stored = json.loads(self.path.read_bytes()) if self.path.stat().st_size <= _MOST else {}
            self._known = {str(key): str(value) for key, value in dict(stored).items()}

    def location(self, key: str) -> str:
        """Where an upload goes on; empty where none was begun."""
        return self._known.get(key, "")

    def remember(self, key: str, location: str) -> None:
        """Keep where an upload goes on."""
        if len(location) <= _MOST_URL:
            self._known[key] = location
            self._write()

    def forget(self, key: str) -> None:
        """An upload is over, one way or the other."""
        if self._known.pop(key, None) is not None:
            self._write()

    def _write(self) -> None:
        # The locations are secrets of a kind: who has one may write to that upload.
        write_file(self.path, json.dumps(self._known, sort_keys=True).encode(), mode=0o600)
