"""Imports image files into a node's containerd; files that were already imported are skipped.

Imported files are recorded next to containerd's own data, by file name, which contains a digest of the content.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from workstation.hostcluster import programs
from workstation.hostcluster.component import Progress
from workstation.hostcluster.files import write_file
from workstation.hostcluster.node import Node

_SECONDS = 300


def _key(path: Path) -> str:
    about = path.stat()
    return f"{path.name} {about.st_size} {about.st_mtime_ns if '-' not in path.name else 0}"


def import_images(node: Node, images: Iterable[Path], report: Progress) -> list[Path]:
    """Import the new files. Returns those."""
    record = node.data_dir / "containerd" / "imported.json"
    known: list[str] = json.loads(record.read_text()) if record.exists() else []
    done = []
    for path in images:
        key = _key(path)
        if key in known:
            continue
        report.detail(f"importing {path.name} on {node.name}")
        ctr = [str(node.ctx.binaries["ctr"]), "-a", str(node.containerd_socket), "-n", "k8s.io", "images", "import", str(path)]
        result = programs.ended(ctr, _SECONDS)
        if result.returncode != 0:
            raise RuntimeError(f"image {path}: import failed: {result.stderr.strip()[-500:]}")
        known.append(key)
        done.append(path)
        write_file(record, json.dumps(known, indent=1).encode())
    return done
