"""A context in a temporary folder, for tests that start nothing privileged."""

from pathlib import Path

from workstation.hostcluster.binaries.versions import COMPONENTS, recipe
from workstation.hostcluster.component import HostContext, HostOptions


def make_context(folder: Path) -> HostContext:
    binaries = {name: Path("/opt/binaries") / name for component in COMPONENTS for name in recipe(component).files}
    options = HostOptions(data_dir=folder / "data")
    return HostContext(options=options, binaries=binaries, cache_dir=folder / "cache", run_dir=folder / "run")
