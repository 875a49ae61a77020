"""What a test asks of its machine besides Python and the binaries that are fetched: it asks at its beginning, by name.

What is missing is a skip that says who wants it, what it is, and where the same is shown or how the machine gets it. So a test
that lacks anything never fails somewhere else, and the skips of a run (`pytest -rs`) list what a machine could not show.
"""

import os
import shutil
import socket
import subprocess

import pytest


def root(who: str, *, instead: str = "run it as root") -> None:
    """Skip unless root runs this."""
    if os.geteuid() != 0:
        pytest.skip(f"{who} needs root: {instead}")


def programs(who: str, *names: str, instead: str = "`make setup` installs Debian's packages as root") -> None:
    """Skip unless these are on the path."""
    missing = [each for each in names if shutil.which(each) is None]
    if missing:
        pytest.skip(f"{who} needs {', '.join(missing)}: {instead}")


def namespaces(who: str, *command: str, instead: str) -> None:
    """Skip unless this command (an `unshare`) can make namespaces here, as it cannot in most containers."""
    root(who, instead=instead)
    programs(who, command[0])
    if subprocess.run([*command, "true"], capture_output=True, check=False, timeout=60).returncode != 0:
        pytest.skip(f"{who} needs namespaces of its own (`{' '.join(command)}` fails here): {instead}")


def address(who: str) -> str:
    """An address of this machine that is not a loopback one, or skip; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError as error:
            pytest.skip(f"{who} needs an IPv4 address that is not a loopback one, with a default route: {error}")
        return str(probe.getsockname()[0])
