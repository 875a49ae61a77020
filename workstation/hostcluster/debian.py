"""Debian packages that the embedded host needs, installed only if they are missing."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from workstation.hostcluster import programs
from workstation.hostcluster.component import Progress

HOST_PACKAGES = (
    "busybox-static",
    "conntrack",
    "containernetworking-plugins",
    "ipset",
    "iproute2",
    "iptables",
    "mmdebstrap",
    "nftables",
    "socat",
)
_INSTALL_SECONDS = 900


def missing(packages: Iterable[str], status_file: Path = Path("/var/lib/dpkg/status")) -> list[str]:
    """The packages that dpkg does not list as installed."""
    installed = set()
    for block in status_file.read_text(errors="replace").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(" "))
        if fields.get("Status", "").endswith(" installed"):
            installed.add(fields.get("Package"))
    return [package for package in packages if package not in installed]


def _apt(arguments: list[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300", *arguments]
    done = programs.ended(command, _INSTALL_SECONDS, environment=environment)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-8:])
        raise RuntimeError(f"Debian packages: `apt-get {' '.join(arguments)}` failed:\n{tail}")


def ensure_packages(packages: Iterable[str], report: Progress) -> None:
    """Install what is missing. Without dpkg, name what the user must install."""
    wanted = tuple(packages)
    if not wanted:
        return
    if shutil.which("dpkg") is None:
        report.warn(f"not a Debian system: make sure that these packages are installed: {', '.join(wanted)}")
        return
    needed = missing(wanted)
    if not needed:
        return
    if os.geteuid() != 0:
        raise RuntimeError(f"Debian packages: missing {', '.join(needed)}; run as root: apt-get install {' '.join(needed)}")
    report.detail(f"installing Debian packages: {', '.join(needed)}")
    _apt(["update"])
    _apt(["install", "-y", "--no-install-recommends", *needed])
