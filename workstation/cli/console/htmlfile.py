"""`bulkhead top --html FILE`: the picture as one file, readable by its owner alone until they give it away."""

import os
import sys
import tempfile
from pathlib import Path

from bulkhead.kube.client import Client
from workstation.cli.arguments import Host
from workstation.cli.console.drawing import picture_of
from workstation.cli.console.observe import observe, source_of
from workstation.cli.failures import CliError
from workstation.console import page
from workstation.console.picture import as_json, count_nodes


async def write(client: Client, host: Host, path: Path) -> None:
    """Write the file whole or not at all. It names tenants, nodes and workloads, so it gets mode 0600."""
    picture = picture_of(await observe(client, source_of(host)))
    text = page.document(as_json(picture, nodes=True), live=False)
    try:
        _put(path, text)
    except OSError as error:
        raise CliError(f"cannot write {path}: {error.strerror}", next_step="give another path with --html") from error
    sys.stdout.write(f"{path}: {len(picture.tenants)} tenants, {count_nodes(picture)} nodes, {len(text) // 1024 + 1} KiB\n")


def _put(path: Path, text: str) -> None:
    written, name = tempfile.mkstemp(dir=path.parent, prefix=".top-")
    try:
        with os.fdopen(written, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
