"""`bulkhead top --html FILE`: the picture as one file, readable by its owner alone until they give it away."""

import sys
from pathlib import Path

from bulkhead.kube.client import Client
from workstation import wholefile
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
        with wholefile.replacing(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise CliError(f"cannot write {path}: {error.strerror}", next_step="give another path with --html") from error
    sys.stdout.write(f"{path}: {len(picture.tenants)} tenants, {count_nodes(picture)} nodes, {len(text) // 1024 + 1} KiB\n")
