"""What git says of this clone: its commit, the base of the piece of work, the files that changed since. Changes nothing.

The base is the commit on which a piece of work begins. Its first commit writes it into `.ci/base`.
"""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

BASE = ".ci/base"


class ChangeError(Exception):
    """Git cannot answer the question; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Change:
    """What has changed since the base."""

    commit: str
    dirty: bool
    files: tuple[str, ...] | None  # None: not known, `why` says why
    why: str


@dataclass(frozen=True, slots=True)
class Moves:
    """Files that are not where they were, or were not there."""

    added: tuple[str, ...]
    moved: Mapping[str, str]  # the present path -> the former one


def moves(root: Path, since: str) -> Moves:
    """What was added or moved since the commit that last changed the file `since`. Nothing where no commit has that file."""
    commit = _git(root, "log", "-1", "--format=%H", "--", since)
    if not commit:
        return Moves((), {})
    added, moved = [], {}
    for line in _lines(root, "diff", "--find-renames", "--name-status", "--diff-filter=AR", commit):
        status, *paths = line.split("\t")
        if status == "A":
            added.append(paths[0])
        else:
            moved[paths[1]] = paths[0]
    added += _lines(root, "ls-files", "--others", "--exclude-standard")
    return Moves(tuple(added), moved)


def tracked(root: Path) -> list[str]:
    """All tracked files, and new ones that git does not ignore."""
    return _lines(root, "ls-files", "--cached", "--others", "--exclude-standard")


def look(root: Path) -> Change:
    """The change of this clone."""
    commit = _git(root, "rev-parse", "HEAD")
    dirty = bool(_git(root, "status", "--porcelain"))
    base = written(root)
    if base is None:
        return Change(commit, dirty, None, f"{BASE} is not there: everything counts as changed")
    if (missing := unreachable(root, base)) is not None:
        return Change(commit, dirty, None, f"{missing}; everything counts as changed")
    files = _lines(root, "diff", "--no-renames", "--name-only", base)
    files += _lines(root, "ls-files", "--others", "--exclude-standard")
    return Change(commit, dirty, tuple(sorted(set(files))), f"{len(set(files))} files changed since {base[:12]}")


def written(root: Path) -> str | None:
    """The commit that `.ci/base` names."""
    path = root / BASE
    return path.read_text().strip() if path.is_file() else None


def unreachable(root: Path, base: str) -> str | None:
    """Why a shallow clone cannot tell what changed since the base; an error where it could and the base is wrong."""
    if _ask(root, "merge-base", "--is-ancestor", base, "HEAD").returncode == 0:
        return None
    if _git(root, "rev-parse", "--is-shallow-repository") == "true":
        return f"{BASE} names {base}, which is not in this shallow clone (`git fetch --unshallow` gets it)"
    raise ChangeError(
        f"{BASE} names {base}, which is not an ancestor of HEAD: write the full id of the commit on which the work began"
    )


def _lines(root: Path, *arguments: str) -> list[str]:
    return [line for line in _git(root, "-c", "core.quotePath=off", *arguments).splitlines() if line]


def _git(root: Path, *arguments: str) -> str:
    done = _ask(root, *arguments)
    if done.returncode != 0:
        raise ChangeError(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def _ask(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Scenarios run as root, often in the clone of another user. Git refuses that unless the folder is named safe.
    command = ["git", "-c", f"safe.directory={root}", *arguments]
    try:
        return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ChangeError("git is not installed; what changed, and what is tracked, is known by it alone") from None
