"""Finds the host's kubeconfig. Fast to import, because it is also used when nothing else of the host is.

The first existing file is used: --kubeconfig, $KUBECONFIG (its first existing file), ~/.kube/config, the embedded host's. An
error names the file in question.
"""

import os
from pathlib import Path

from workstation.cli.failures import CliError, Exit
from workstation.cli.homefolder import expanded, home

EMBEDDED = Path("/var/lib/bulkhead/kubeconfig")


def find_kubeconfig(given: str | None) -> Path:
    """The host's kubeconfig file."""
    if given:
        return _existing(expanded(given), "--kubeconfig")
    variable = [expanded(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if variable:
        return next((path for path in variable if path.is_file()), None) or _existing(variable[0], "$KUBECONFIG")
    for path in (*_own(), EMBEDDED):
        if path.is_file():
            return path
    raise CliError(
        f"no kubeconfig of the host cluster in --kubeconfig, $KUBECONFIG, ~/.kube/config or {EMBEDDED}",
        next_step="give --kubeconfig FILE, or start the embedded host: bulkhead host up; without rights on the host: "
        "bulkhead login -f FILE, with the file that the tenant's admin gives you",
    )


def _own() -> list[Path]:
    try:
        return [home() / ".kube" / "config"]
    except CliError:
        return []


def _existing(path: Path, source: str) -> Path:
    if path.is_file():
        return path
    what, next_step = "does not exist", "give the file of the host cluster's kubeconfig"
    if path.is_dir():
        what = "is a folder"
    elif path.exists():
        # It is read more than once, and a plugin or kubectl may read it too.
        what, next_step = "is not a regular file", "write it to a file first, and give that"
    raise CliError(f"{source}: {path} {what}", next_step=next_step, code=Exit.USAGE)
