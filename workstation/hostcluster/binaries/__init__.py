"""The binaries of the embedded host: from the cache, else from the official release, else built through the Go module proxy.

`ensure(component)` is the only entry. Cached binaries are used unchecked: a download was verified, and a build used sources
that go.sum pins, when they were stored. Concurrent runs do not collide: each component has a file lock, and a version's folder
appears completely, by one rename.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from workstation.hostcluster.binaries import download, gobuild
from workstation.hostcluster.binaries.versions import COMPONENTS, ON_REQUEST, Recipe, recipe
from workstation.hostcluster.component import Progress
from workstation.hostcluster.progress import Silent

__all__ = ["COMPONENTS", "cache_dir", "ensure", "ensure_all", "is_there", "version"]


def cache_dir() -> Path:
    """The folder of Bulkhead's caches: `$XDG_CACHE_HOME/bulkhead`. `bulkhead host down` keeps it."""
    configured = os.environ.get("XDG_CACHE_HOME")
    return (Path(configured) if configured else Path.home() / ".cache") / "bulkhead"


def _complete(folder: Path, wanted: Recipe) -> bool:
    return all(os.access(folder / name, os.X_OK) and (folder / name).is_file() for name in wanted.files)


@contextmanager
def _locked(path: Path, report: Progress) -> Iterator[None]:
    """Hold a file lock; report if another run holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report.detail("another run is fetching the same binaries: waiting for it")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _place(made: Path, folder: Path) -> None:
    """Move a finished folder to its place in one step, replacing an incomplete one."""
    if folder.exists():
        shutil.rmtree(folder)
    # Otherwise a power failure may leave empty programs there, which are used unchecked.
    os.sync()
    made.rename(folder)


def version(component: str) -> str:
    """The version of a component, as its module and its releases write it."""
    return recipe(component).version


def is_there(component: str) -> bool:
    """Whether the cache has the component's binaries for this machine, so that `ensure` fetches and builds nothing."""
    wanted = recipe(component)
    return _complete(cache_dir() / "binaries" / component / wanted.version, wanted)


def ensure(component: str, report: Progress | None = None, machine: str | None = None) -> dict[str, Path]:
    """The component's binaries by file name, for this or another architecture; downloaded or built if the cache lacks them."""
    wanted = recipe(component, machine) if machine else recipe(component)
    to = report or Silent()
    parent = cache_dir() / "binaries" / (f"{component}.{wanted.foreign}" if wanted.foreign else component)
    folder = parent / wanted.version
    found = {name: folder / name for name in wanted.files}
    if _complete(folder, wanted):
        return found
    with _locked(parent / ".lock", to):
        if _complete(folder, wanted):
            return found
        with tempfile.TemporaryDirectory(dir=parent, prefix=".making-", ignore_cleanup_errors=True) as scratch:
            made = Path(scratch) / wanted.version
            made.mkdir()
            if not download.fetch(wanted, made, to):
                gobuild.build(wanted, made, to)
            if not _complete(made, wanted):
                raise RuntimeError(f"binaries of {component}: the build produced no {', '.join(wanted.files)}")
            _place(made, folder)
    return found


def ensure_all(report: Progress, *, also: Collection[str] = ()) -> Mapping[str, Path]:
    """Every binary that the host needs, by file name, and those optional components that `also` names."""
    found: dict[str, Path] = {}
    for component in COMPONENTS:
        if component not in ON_REQUEST or component in also:
            found.update(ensure(component, report))
    return found
