"""Builds what starts a controller manager once its API server is healthy, with addresses and times of a test in it."""

import os
import subprocess
from pathlib import Path

from workstation.hostcluster import binaries
from workstation.hostcluster.binaries import gobuild
from workstation.hostcluster.binaries.versions import recipe
from workstation.hostcluster.images.startafter import COMPONENT


def build(to: Path, *, health: str, folder: Path, longest: str = "120s") -> Path:
    """The program at `to`; it asks `health`, and becomes the program of its own name in `folder`."""
    settings = {"health": health, "folder": str(folder), "longest": longest}
    command = gobuild.command(recipe(COMPONENT), to.parent)
    command[command.index("-ldflags") + 1] += "".join(f" -X main.{name}={value}" for name, value in settings.items())
    command[command.index("-o") + 1] = str(to)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
    where = Path(binaries.__file__).parent / COMPONENT
    subprocess.run(command, cwd=where, env=environment, check=True, capture_output=True, timeout=280)
    return to
