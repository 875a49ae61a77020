"""Programs of the machine, run to their end. What takes too long is an error that says so, and no traceback for the user."""

import os
import subprocess
from collections.abc import Mapping, Sequence


def ended(
    argv: Sequence[str], seconds: float, *, stdin: str | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program, with its output as text; its exit code is the caller's to judge. Raises RuntimeError after `seconds`."""
    given = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    try:
        return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=seconds, **given)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(
            f"`{' '.join(argv)}` did not end in {seconds:.0f} s; the machine may be too busy: try again when it is calmer"
        ) from error


def directly(address: str) -> dict[str, str]:
    """The environment of this process, in which a program that follows HTTPS_PROXY reaches an address of the machine itself."""
    added = {name: ",".join([*filter(None, [os.environ.get(name)]), address]) for name in ("NO_PROXY", "no_proxy")}
    return os.environ | added
