"""A release: one version everywhere, every file summed, and a changelog: what a user gets, then the history's own words."""

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import bulkhead
from tests.kit import yamlfiles
from workstation.hostcluster.images.build import PROJECT
from workstation.images import dist, sbom


def test_there_is_one_version() -> None:
    chart = PROJECT / "charts" / "bulkhead"
    about = yamlfiles.load(chart / "Chart.yaml")
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "bulkhead.__version__"}
    assert {about["version"], about["appVersion"]} == {bulkhead.__version__}
    images = yamlfiles.load(chart / "values.yaml")["images"]
    assert images["bulkhead"] == f"bulkhead:{bulkhead.__version__}"


def test_a_changelog_says_what_a_user_gets_and_by_day_what_the_history_says() -> None:
    written = "# Changelog\n\n## 1.2.3 (unreleased)\n\n- More\n\n## 1.2.2\n\n- Less\n"
    commits = [("2026-02-02", "Second"), ("2026-02-02", "First"), ("2026-01-01", "Begin")]
    history = "## All commits\n\n### 2026-02-02\n\n- Second\n- First\n\n### 2026-01-01\n\n- Begin\n"
    assert dist.changelog("1.2.3", written, commits) == f"# Bulkhead 1.2.3\n\n- More\n\n{history}"
    assert dist.changelog("1.2.2", written, commits) == f"# Bulkhead 1.2.2\n\n- Less\n\n{history}"


def test_a_release_of_which_the_changelog_says_nothing_is_not_made() -> None:
    with pytest.raises(dist.DistError, match=r"CHANGELOG\.md has no section `## 1\.2\.4`"):
        dist.changelog("1.2.4", "# Changelog\n\n## 1.2.3\n\n- More\n", [])


def test_the_changelog_has_a_section_of_this_release() -> None:
    assert dist.changelog(bulkhead.__version__, (PROJECT / dist.CHANGELOG).read_text(), []).count("\n### ") > 3


def test_the_wheels_sbom_has_what_the_lock_pins() -> None:
    found = dist.wheel_components("aiohttp==3.14.1 \\\n    --hash=sha256:00\nPyYAML==6.0 ; python_version > '3'\n# x==1\n")
    assert found == {sbom.Component("pypi", "aiohttp", "3.14.1"), sbom.Component("pypi", "pyyaml", "6.0")}


def test_a_release_is_whole_and_takes_nothing_of_others_away(tmp_path: Path) -> None:
    folder = tmp_path / "dist"
    folder.mkdir()
    (folder / "mine.txt").write_text("of somebody")
    (folder / "bulkhead-0.0.1.tgz").write_text("of a former release")
    (folder / dist.SUMS).write_text("00  bulkhead-0.0.1.tgz\n00  ../outside\n")
    (tmp_path / "outside").write_text("of somebody")
    # Named from where it is run, as `make dist` does.
    command = [sys.executable, "-m", "workstation.images.dist", "--without", "all", "--folder", "dist"]
    found = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, cwd=tmp_path, env=found, capture_output=True, text=True, timeout=550, check=False)
    assert done.returncode == 0, done.stderr
    summed = {line.partition("  ")[2] for line in (folder / dist.SUMS).read_text().splitlines()}
    assert {path.name for path in folder.iterdir()} == summed | {"mine.txt", dist.SUMS}
    assert (tmp_path / "outside").exists()
    subprocess.run(["sha256sum", "--check", "--quiet", dist.SUMS], cwd=folder, check=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        (metadata,) = (name for name in content.namelist() if name.endswith("METADATA"))
        assert f"\nVersion: {bulkhead.__version__}\n" in content.read(metadata).decode()
        assert "workstation/hostcluster/binaries/etcd/go.mod" in content.namelist()
        packages = {path.parent.name for path in PROJECT.glob("*/__init__.py")} - {"tests", "e2e", "ci"}
        assert {name.partition("/")[0] for name in content.namelist()} >= packages >= {"bulkhead", "controller", "syncer"}
    listed = json.loads((folder / f"{wheel.name}.spdx.json").read_text())
    assert {each["name"] for each in listed["packages"]} >= {"bulkhead", "aiohttp", "kopf"}
    assert "(unknown" not in done.stderr


def test_an_image_that_there_is_not_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "workstation.images.dist", "--without", "nothing", "--folder", str(tmp_path)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert "no image is called nothing" in done.stderr
    assert not list(tmp_path.iterdir())
