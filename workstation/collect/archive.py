"""Writes the archive: a file for each source and a manifest, with mode 0600, whole or not at all."""

import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from workstation import wholefile

MOST_BYTES: Final = 64 << 20  # of all files together, before compression


@dataclass(slots=True)
class Collected:
    """The files so far, what could not be read and why, and what was left out because the archive was full."""

    files: dict[str, bytes] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    size: int = 0

    def add(self, path: str, data: bytes) -> None:
        """A file; it is named among the failures instead if the archive would grow beyond its bound."""
        if self.size + len(data) > MOST_BYTES:
            self.failures[path] = f"left out: the archive would have more than {MOST_BYTES >> 20} MiB"
            return
        self.size += len(data)
        self.files[path] = data

    def add_json(self, path: str, value: Any) -> None:
        """A value as JSON."""
        self.add(path, json.dumps(value, indent=1, ensure_ascii=True).encode() + b"\n")


def write(path: Path, folder: str, collected: Collected, manifest: Mapping[str, Any]) -> None:
    """Write all files below `folder` of a new archive. Raises OSError and leaves nothing behind."""
    whole = dict(manifest) | {"files": {name: len(data) for name, data in sorted(collected.files.items())}}
    whole["notRead"] = dict(sorted(collected.failures.items()))
    with wholefile.replacing(path) as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, data in [("manifest.json", json.dumps(whole, indent=1).encode()), *sorted(collected.files.items())]:
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size, member.mode = len(data), 0o600
            archive.addfile(member, io.BytesIO(data))
