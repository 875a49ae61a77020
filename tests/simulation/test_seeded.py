"""Seeded bugs, kept as patches: each is applied to a copy of the code, and the simulation has to find it.

The first line of a patch says what is wrong with the code that it makes. A patch that no longer applies proves nothing about
the simulation: write it again for the present code.
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
QUICK: Final = {
    "run-twice": "a placed pod that is lost while the syncer is away does not run again",
    "lingering-pod-forgotten": "a copy goes although another pod lingers on the host",
    "rollback-unseen": "a restored plane deletes nothing after a restart",
    "adopt-by-name": "nothing of others is adopted",
}


def hunt(folder: Path, patch: Path | None, *stories: str) -> subprocess.CompletedProcess[str]:
    """Copy the code, put the bug into it, look."""
    for package in ("syncer", "bulkhead"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "hostcluster", "cli"))
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
        [sys.executable, "-m", "tests.simulation.hunt", *stories],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert str(folder) in done.stdout, done.stderr
    return done


def test_there_are_enough() -> None:
    assert len(SEEDED) >= 12
    assert set(QUICK) <= {patch.stem for patch in SEEDED}


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_one_is_found(name: str, tmp_path: Path) -> None:
    done = hunt(tmp_path, ROOT / f"tests/simulation/seeded/{name}.patch", QUICK[name])
    assert done.returncode == 1, done.stdout


@pytest.mark.simulation
@pytest.mark.timeout(700)
@pytest.mark.parametrize("patch", SEEDED, ids=lambda patch: patch.stem)
def test_each_is_found(patch: Path, tmp_path: Path) -> None:
    done = hunt(tmp_path, patch)
    assert done.returncode == 1, done.stdout + done.stderr


@pytest.mark.simulation
@pytest.mark.timeout(700)
def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    done = hunt(tmp_path, None)
    assert done.returncode == 0, done.stdout + done.stderr
