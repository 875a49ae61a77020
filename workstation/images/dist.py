"""Builds a release: wheel, chart, image archives, SBOMs, its section of CHANGELOG.md with all commits, and all digests.

    committed tree ─> wheel, chart, changelog ─┐
    recipes ────────> archives with SBOMs ─────┴─> folder ─> SHA256SUMS

`python -m workstation.images.dist`, or `make dist`. Wheel and chart are built only from what is committed; images come from the
build cache. An interrupted run may be repeated. All timestamps are the commit's.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Final

import bulkhead
from workstation.hostcluster import binaries
from workstation.hostcluster.component import Progress
from workstation.hostcluster.files import write_file
from workstation.hostcluster.images.build import PROJECT
from workstation.hostcluster.images.oci import architecture
from workstation.hostcluster.images.python_root import ImageError, runtime_requirements
from workstation.hostcluster.progress import Reporter
from workstation.images import building, catalogue, sbom

SUMS: Final = "SHA256SUMS"
CHANGELOG: Final = "CHANGELOG.md"
_SECONDS: Final = 600
_SOURCES: Final = (
    "bulkhead",
    "controller",
    "frontdoor",
    "gpumetrics",
    "syncer",
    "workstation",
    "charts",
    "pyproject.toml",
    "CHANGELOG.md",
    "README.md",
    "requirements.lock",
)
_PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^ \\;]+)", re.MULTILINE)


class DistError(Exception):
    """A release cannot be built; the text names the step and the reason."""


def _run(step: str, command: list[str], folder: Path) -> bytes:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DistError(f"{step}: {error}") from error
    if done.returncode:
        raise DistError(f"{step}: {done.stderr.decode(errors='replace').strip()[-1000:]}")
    return done.stdout


def changelog(version: str, written: str, commits: Iterable[tuple[str, str]]) -> str:
    """The section of CHANGELOG.md (`written`) about a release, then each day with its commits.

    `commits` are pairs of day and first line, the newest first. Raises `DistError` if the release has no section of its own.
    """
    found = re.search(rf"^## {re.escape(version)}\b[^\n]*\n(.*?)(?=^## |\Z)", written, re.MULTILINE | re.DOTALL)
    if found is None:
        raise DistError(f"the changelog: {CHANGELOG} has no section `## {version}`; write what this release brings to users")
    lines, last = [f"# Bulkhead {version}", "", found[1].strip(), "", "## All commits"], ""
    for day, subject in commits:
        if day != last:
            lines += ["", f"### {day}", ""]
            last = day
        lines.append(f"- {subject}")
    return "\n".join(lines) + "\n"


def _commits(project: Path) -> list[tuple[str, str]]:
    """The commits since the last version tag, or all of them if there is none."""
    tagged = subprocess.run(
        ["git", "describe", "--tags", "--abbrev=0", "HEAD^"], cwd=project, capture_output=True, text=True, check=False
    )
    since = [f"{tagged.stdout.strip()}..HEAD"] if tagged.returncode == 0 else ["HEAD"]
    command = ["git", "log", "--no-merges", "--date=short", "--format=%cd%x09%s", *since]
    listed = _run("the changelog", command, project).decode(errors="replace")
    return [(day, subject) for day, _, subject in (line.partition("\t") for line in listed.splitlines())]


def wheel_components(requirements: str) -> set[sbom.Component]:
    """The packages that are installed with the wheel, from the lock file."""
    return {
        sbom.Component("pypi", re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in _PIN.findall(requirements)
    }


def sums(folder: Path, kept: set[str]) -> str:
    """The digest of each file, in the format of `sha256sum --check`."""
    found = []
    for name in sorted(kept - {SUMS}):
        with (folder / name).open("rb") as stream:
            found.append(f"{hashlib.file_digest(stream, 'sha256').hexdigest()}  {name}\n")
    return "".join(found)


def _drop_former(folder: Path, kept: set[str]) -> None:
    """Remove the files that an earlier release put there; other files are kept."""
    try:
        listed = (folder / SUMS).read_text().splitlines()
    except FileNotFoundError:
        return
    for name in {line.partition("  ")[2] for line in listed} - kept:
        if name and "/" not in name:
            (folder / name).unlink(missing_ok=True)


def _wheel(tree: Path, folder: Path) -> Path:
    # pip runs in another folder than the one that `folder` may be relative to.
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    _run("the wheel", [*command, f"--wheel-dir={folder.resolve()}", str(tree)], tree)
    return folder / f"bulkhead-{bulkhead.__version__}-py3-none-any.whl"


def make(folder: Path, images: Iterable[catalogue.Image], machines: Iterable[str], report: Progress) -> None:
    """Build everything into a folder, and remove what an earlier release left there that this one does not have."""
    folder.mkdir(parents=True, exist_ok=True)
    if _run("git status", ["git", "status", "--porcelain", "--untracked-files=no"], PROJECT).strip():
        report.warn("the tree has uncommitted changes: wheel and chart are built without them")
    os.environ["SOURCE_DATE_EPOCH"] = _run("git log", ["git", "log", "-1", "--format=%ct"], PROJECT).decode().strip()
    kept = {CHANGELOG, SUMS}
    with tempfile.TemporaryDirectory() as made:
        tree = Path(made)
        with tarfile.open(
            fileobj=BytesIO(_run("git archive", ["git", "archive", "--format=tar", "HEAD", "--", *_SOURCES], PROJECT))
        ) as tar:
            tar.extractall(tree, filter="data")
        report.step("Building the wheel")
        wheel = _wheel(tree, folder)
        report.step("Packaging the chart")
        helm = str(binaries.ensure("helm")["helm"])
        chart = f"bulkhead-{bulkhead.__version__}.tgz"
        versions = [f"--version={bulkhead.__version__}", f"--app-version={bulkhead.__version__}"]
        _run("the chart", [helm, "package", "charts/bulkhead", f"--destination={folder.resolve()}", *versions], tree)
        requirements = runtime_requirements(tree / "requirements.lock")
        changes = changelog(bulkhead.__version__, (tree / CHANGELOG).read_text(), _commits(PROJECT))
    digest = "sha256:" + hashlib.sha256(wheel.read_bytes()).hexdigest()
    listed = sorted(wheel_components(requirements))
    bill = f"{wheel.name}.spdx.json"
    content = sbom.spdx("bulkhead", bulkhead.__version__, digest, listed, building.created(), purpose="LIBRARY")
    write_file(folder / bill, content)
    write_file(folder / CHANGELOG, changes.encode())
    kept |= {wheel.name, chart, bill}
    shops = [building.workshop(machine) for machine in machines]
    for archive in building.build(images, folder, shops, report):
        kept |= {archive.name} | {path.name for path in folder.glob(f"{archive.stem}.*.spdx.json")}
    _drop_former(folder, kept)
    report.step("Computing digests")
    write_file(folder / SUMS, sums(folder, kept).encode())


def main() -> int:
    """`python -m workstation.images.dist`."""
    parser = argparse.ArgumentParser(prog="python -m workstation.images.dist", description="Build a release.")
    parser.add_argument("--folder", type=Path, default=Path("build/dist"), help="folder for the release")
    parser.add_argument("--without", action="append", default=[], metavar="IMAGE", help="leave out an image; `all`: every one")
    parser.add_argument("--architecture", action="append", default=[], choices=["amd64", "arm64"], help="may be repeated")
    options = parser.parse_args()
    try:
        unknown = {*options.without} - {"all"}
        catalogue.chosen(unknown)
        every = catalogue.published() if "all" not in options.without else ()
        images = [image for image in every if image.name not in unknown]
        with Reporter() as report:
            make(options.folder, images, options.architecture or [architecture()], report)
    except (DistError, ImageError, catalogue.UnknownImageError, RuntimeError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    print(f"The release is in {options.folder}; check it there with: sha256sum --check {SUMS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
