"""The suites and the map from folders to suites, as `suites.yaml` has them. Reads one file, runs nothing.

A folder of the map stands for the files in it; `folder/**` also for all below that has no longer entry; a file's own path wins.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath

from ci import strictyaml

FILE = Path(__file__).with_name("suites.yaml")


class Host(StrEnum):
    """What a suite needs of the embedded host, of which a machine has one. A suite that needs it needs root."""

    NONE = "none"
    SHARED = "shared"  # takes the host that is up, or brings one up, and leaves it as others want it
    OWN = "own"  # wants no host at its begin, and leaves one that no other suite can share


class CatalogueError(Exception):
    """`suites.yaml` contradicts itself or the tree."""


@dataclass(frozen=True, slots=True)
class Suite:
    """One command whose exit status is the result."""

    name: str
    title: str
    command: tuple[str, ...]
    minutes: float  # on two cores, where no earlier run tells
    host: Host = Host.NONE
    fixed: bool = False  # part of every run of the gate
    quiet: bool = False  # judges figures, or takes an hour and more: for a machine with nothing else to do, never for the gate
    part_of: str = ""  # the suite that shows all of this and more, which `make all` runs instead

    @property
    def for_changes(self) -> bool:
        """Whether a change may touch it."""
        return not self.fixed and not self.quiet

    @property
    def needs_root(self) -> bool:
        return self.host is not Host.NONE


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All suites in the order of the file, and what a change of each folder touches."""

    suites: tuple[Suite, ...]
    folders: Mapping[str, tuple[str, ...]]

    @property
    def fixed(self) -> tuple[Suite, ...]:
        return tuple(suite for suite in self.suites if suite.fixed)

    @property
    def others(self) -> tuple[Suite, ...]:
        return tuple(suite for suite in self.suites if not suite.fixed)

    @property
    def whole(self) -> tuple[Suite, ...]:
        """All suites, without those that are part of another one."""
        return tuple(suite for suite in self.suites if not suite.part_of)

    def entry(self, path: str) -> str | None:
        """The nearest entry of the map for a file."""
        if path in self.folders:
            return path
        parent = PurePosixPath(path).parent
        if str(parent) in self.folders:
            return str(parent)
        around = (f"{folder}/**" for folder in (parent, *parent.parents))
        return next((entry for entry in around if entry in self.folders), None)

    def touched(self, path: str) -> tuple[str, ...]:
        """Names of the suites that a change of this file touches.

        None for one whose folder is gone from tree and map: what used it had to change too.
        """
        entry = self.entry(path)
        return () if entry is None else self.folders[entry]

    def contradictions(self, files: Iterable[str]) -> list[str]:
        """The differences between map and tree: folders without an entry, and entries without a file."""
        entries = {path: self.entry(path) for path in files}
        homeless = sorted({str(PurePosixPath(path).parent) for path, entry in entries.items() if entry is None})
        idle = sorted(set(self.folders) - {entry for entry in entries.values() if entry is not None})
        return [
            *(
                f"folder {folder}: stands in no entry of `folders` in ci/suites.yaml; say which suites it touches"
                for folder in homeless
            ),
            *(f"entry {entry} of `folders` in ci/suites.yaml: stands for no tracked file; remove it" for entry in idle),
        ]


def load(path: Path = FILE) -> Catalogue:
    """The catalogue of this tree."""
    return parse(path.read_text())


def parse(text: str) -> Catalogue:
    """The catalogue in a text. Raises CatalogueError, DuplicateKeyError."""
    read = strictyaml.load(text, "ci/suites.yaml")
    suites = tuple(
        Suite(
            name=name,
            title=given["title"],
            command=tuple(given["command"].split()),
            minutes=given["minutes"],
            host=Host(given.get("host", "none")),
            fixed=given.get("fixed", False),
            quiet=given.get("quiet", False),
            part_of=given.get("part of", ""),
        )
        for name, given in read["suites"].items()
    )
    folders = {entry: tuple(names) for entry, names in read["folders"].items()}
    others = {suite.name for suite in suites if not suite.fixed}
    unknown = {name for names in folders.values() for name in names} - {suite.name for suite in suites if suite.for_changes}
    unknown |= {suite.part_of for suite in suites if suite.part_of} - others
    if unknown:
        raise CatalogueError(
            f"ci/suites.yaml names {', '.join(sorted(unknown))}: no suite that a change may touch has that name"
        )
    return Catalogue(suites, folders)
