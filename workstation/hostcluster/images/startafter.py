"""Starts a program once the API server beside it is healthy: a small program at its path, which then becomes it.

kube-controller-manager waits ten seconds for its API server and then ends, and both start side by side in a plane's pod
(docs/decisions/0009). What waits, and gives it coarse timers as `slack` does, is `binaries/startafter/main.go`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from workstation.hostcluster.images.oci import Entry

COMPONENT: Final = "startafter"
_BIN, _LIBEXEC = "usr/local/bin", "usr/local/libexec"


def entries(name: str, program: Path, waits: Path) -> Iterator[Entry]:
    """The files that make `/usr/local/bin/<name>` wait; `waits` is the component's program."""
    yield Entry(f"{_BIN}/{name}", "file", waits, 0o755)
    yield Entry(f"{_LIBEXEC}/{name}", "file", program, 0o755)
