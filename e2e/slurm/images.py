"""The Slurm images on the embedded host, built and imported when they are first needed.

They are large and come from Debian's packages, so neither `make demo` nor `make e2e` requires them.
"""

from collections.abc import Callable

from e2e import machine
from workstation.hostcluster import binaries
from workstation.hostcluster.images import build


def ensure(note: Callable[[str], None]) -> None:
    """Import them into the host; quick if they are already there."""
    machine.bring_up(lambda line: note(f"    {line}"), "--slurm")


def are_made() -> bool:
    """Whether this machine has built them before."""
    folder = binaries.cache_dir() / "images" / "tars"
    wanted = [name.replace("/", "_").replace(":", "_") for name in build.SLURM_RECIPES]
    return all(any(folder.glob(f"{name}-*.tar")) for name in wanted)
