"""Seeded bugs, kept as patches: each is applied to a copy of the code, and the simulation has to find it.

The first line of a patch says what is wrong with the code that it makes. `Found by:` names the play that is known to find it,
which is played first; without it, or once it finds nothing, all are played as ever. A patch that no longer applies proves
nothing about the simulation: write it again for the present code.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
SEEDED: Final = sorted((ROOT / "tests/simulation/seeded").glob("*.patch"))
# Found by one story each, in seconds.
QUICK: Final = ("run-twice", "lingering-pod-forgotten", "rollback-unseen", "adopt-by-name")
_FOUND_BY: Final = "Found by: "


def found_by(patch: Path) -> str:
    """The play that is known to find it, or an empty text."""
    lines = patch.read_text().partition("\n--- ")[0].splitlines()
    return next((line.removeprefix(_FOUND_BY) for line in lines if line.startswith(_FOUND_BY)), "")


def hunt(folder: Path, patch: Path | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Copy the code, put the bug into it, look. Bytecode comes along: what is patched is newer than its own."""
    for package in ("syncer", "bulkhead"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("hostcluster", "cli"))
    if patch is not None:
        applied = subprocess.run(
            ["git", "apply", "-p1", "-C1", "--recount", str(patch)], cwd=folder, capture_output=True, text=True, check=False
        )
        assert applied.returncode == 0, f"{patch.name} does not apply any more: {applied.stderr}"
    environment = os.environ | {
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.hunt", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert str(folder) in done.stdout, done.stderr
    return done


def test_there_are_enough() -> None:
    assert len(SEEDED) >= 12
    assert set(QUICK) <= {patch.stem for patch in SEEDED}


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_one_is_found(name: str, tmp_path: Path) -> None:
    patch = ROOT / f"tests/simulation/seeded/{name}.patch"
    done = hunt(tmp_path, patch, found_by(patch))
    assert done.returncode == 1, done.stdout


@pytest.mark.simulation
@pytest.mark.timeout(700)
@pytest.mark.parametrize("patch", SEEDED, ids=lambda patch: patch.stem)
def test_each_is_found(patch: Path, tmp_path: Path) -> None:
    done = hunt(tmp_path, patch, "--first", found_by(patch))
    assert done.returncode == 1, done.stdout + done.stderr


@pytest.mark.simulation
@pytest.mark.timeout(700)
def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    done = hunt(tmp_path, None)
    assert done.returncode == 0, done.stdout + done.stderr
