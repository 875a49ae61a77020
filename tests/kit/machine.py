"""What a test needs from its machine, beyond Python and the fetched binaries: it requires that by name at its beginning.

If something is missing, the test is skipped. The reason says which test needs it, what it is, and where the same is shown or
how to install it. So a test never fails elsewhere for lack of it, and the skips of a run (`pytest -rs`) list what a machine
could not show.
"""

import os
import shutil
import socket
import subprocess

import pytest


def root(who: str, *, instead: str = "run it as root") -> None:
    """Skip unless the user is root."""
    if os.geteuid() != 0:
        pytest.skip(f"{who} needs root: {instead}")


def programs(who: str, *names: str, instead: str = "`make setup` installs Debian's packages as root") -> None:
    """Skip unless these programs are on the path."""
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{who} needs {', '.join(missing)}: {instead}")


def namespaces(who: str, *command: str, instead: str) -> None:
    """Skip unless this command (an `unshare`) can create namespaces here, as it cannot in most containers."""
    root(who, instead=instead)
    programs(who, command[0])
    if subprocess.run([*command, "true"], capture_output=True, check=False, timeout=60).returncode != 0:
        pytest.skip(f"{who} needs namespaces of its own (`{' '.join(command)}` fails here): {instead}")


def address(who: str) -> str:
    """An address of this machine outside loopback, or skip; nothing is sent."""
    needed = f"{who} needs an IPv4 address that is not a loopback one, with a default route"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError as error:
            pytest.skip(f"{needed}: {error}")
        found = str(probe.getsockname()[0])
    if found.startswith("127."):
        pytest.skip(f"{needed}: it has {found}")
    return found
