"""Finds the host's kubeconfig. Fast to import, because it is also used when nothing else of the host is.

The first existing file is used: --kubeconfig, $KUBECONFIG (its first existing file), ~/.kube/config, the embedded host's. An
error names the file in question.
"""

import os
from pathlib import Path

from workstation.cli.failures import CliError, Exit

EMBEDDED = Path("/var/lib/bulkhead/kubeconfig")


def find_kubeconfig(given: str | None) -> Path:
    """The host's kubeconfig file."""
    if given:
        return _existing(Path(given).expanduser(), "--kubeconfig")
    variable = [Path(part).expanduser() for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if variable:
        return next((path for path in variable if path.is_file()), None) or _existing(variable[0], "$KUBECONFIG")
    for path in (Path.home() / ".kube" / "config", EMBEDDED):
        if path.is_file():
            return path
    raise CliError(
        f"no kubeconfig of the host cluster in --kubeconfig, $KUBECONFIG, ~/.kube/config or {EMBEDDED}",
        next_step="give --kubeconfig FILE, or start the embedded host: bulkhead host up; without rights on the host: "
        "bulkhead login -f FILE, with the file that the tenant's admin gives you",
    )


def _existing(path: Path, source: str) -> Path:
    if not path.is_file():
        raise CliError(
            f"{source}: {path} does not exist", next_step="give the file of the host cluster's kubeconfig", code=Exit.USAGE
        )
    return path
