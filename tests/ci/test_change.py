"""What git says of a clone, in clones made for it."""

import os
import subprocess
from pathlib import Path

import pytest

from ci import change


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Two commits; the second changes one file, moves one and has the first as its base."""
    folder = tmp_path / "clone"
    folder.mkdir()
    git(folder, "init", "-q")
    for name in ("kept", "changed", "moved"):
        (folder / f"{name}.txt").write_text(f"{name}\n" * 9)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    (folder / ".ci").mkdir()
    (folder / ".ci/base").write_text(git(folder, "rev-parse", "HEAD") + "\n")
    (folder / "changed.txt").write_text("anew\n")
    (folder / "new").mkdir()
    git(folder, "mv", "moved.txt", "new/ä moved.txt")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "second")
    return folder


COMMITTED = {".ci/base", "changed.txt", "moved.txt", "new/ä moved.txt"}


def test_a_change_is_all_since_the_base_where_it_was_and_where_it_went(clone: Path) -> None:
    seen = change.look(clone)
    assert (set(seen.files or ()), seen.dirty, seen.commit) == (COMMITTED, False, git(clone, "rev-parse", "HEAD"))


def test_what_is_not_committed_belongs_to_it(clone: Path) -> None:
    (clone / "kept.txt").write_text("else\n")
    (clone / "untracked.txt").touch()
    seen = change.look(clone)
    assert (set(seen.files or ()), seen.dirty) == (COMMITTED | {"kept.txt", "untracked.txt"}, True)
    assert "untracked.txt" in change.tracked(clone)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give the clone to somebody else")
def test_root_sees_the_clone_of_another_user(clone: Path) -> None:
    for path in (clone, clone / ".git"):
        os.chown(path, 65534, 65534)
    assert set(change.look(clone).files or ()) == COMMITTED


def test_without_a_base_everything_counts(clone: Path) -> None:
    (clone / ".ci/base").unlink()
    seen = change.look(clone)
    assert seen.files is None
    assert ".ci/base is not there" in seen.why


@pytest.mark.parametrize("base", ["0" * 40, "no commit", "another branch"])
def test_a_base_that_is_not_an_ancestor_is_an_error(clone: Path, base: str) -> None:
    if base == "another branch":
        git(clone, "checkout", "-q", "--orphan", "other")
        git(clone, "commit", "-qm", "elsewhere")
        base = git(clone, "rev-parse", "HEAD")
        git(clone, "checkout", "-q", "main")
    (clone / ".ci/base").write_text(base)
    with pytest.raises(change.ChangeError, match="not an ancestor of HEAD"):
        change.look(clone)


def test_a_shallow_clone_says_so_and_counts_everything(clone: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{clone}", "shallow")
    seen = change.look(tmp_path / "shallow")
    assert seen.files is None
    assert "shallow clone (`git fetch --unshallow` gets it)" in seen.why
