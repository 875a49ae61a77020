"""Builds the file trees of the `bulkhead` image: a small Debian with Python, the locked dependencies, and our own packages.

Three trees become three layers, from the slowest to the fastest to change. The root file system consists of Debian's packages,
extracted and never configured (without shell, package manager or setuid files). The dependencies come from requirements.lock,
with their digests checked. The image's own interpreter compiles all bytecode here, so containers start fast and write nothing.
No other program of the trees is ever run.
"""

import errno
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

from workstation.hostcluster.images.layercache import key_of, tree_key
from workstation.hostcluster.images.oci import Entry, architecture

SUITE = "bookworm"
PACKAGES = ("python3-minimal", "libpython3-stdlib", "netbase")
SITE = "usr/lib/python3/dist-packages"
APP = "app"

# Only the command line and the host use these, and neither runs in a pod.
_NOT_IN_PODS = frozenset({"rich"})
_OWN_PACKAGES = ("bulkhead", "controller", "frontdoor", "gpumetrics", "syncer")
_UNNEEDED = re.compile(
    r"^(usr/share/(?!zoneinfo|ca-certificates)|var/|dev/|proc/|sys/|run/|boot/|usr/lib/[^/]+/gconv/|lib/systemd/|sbin/|bin/|usr/sbin/"
    r"|usr/lib/(locale|tmpfiles\.d|valgrind|apt|dpkg)/|etc/(apt|cron|dpkg|logrotate|alternatives|resolv\.conf|hostname|fstab|rmt|gss)"
    r"|packages\.txt$|usr/bin/(?!python3)|usr/lib/python3\.\d+/(test|unittest|idlelib|lib2to3|tkinter|turtledemo|pydoc_data|ensurepip|distutils)/"
    r"|.*lib(db-5|curses|form|menu|panel|ncurses|readline|history|mvec)[^/]*$|.*/__pycache__/)"
)
_TIMEOUT = 900
_WHEELS = {"amd64": "x86_64", "arm64": "aarch64"}
_WHEEL_PLATFORMS = ("manylinux2014", "manylinux_2_17", "manylinux_2_28", "manylinux_2_34")
PACKAGE_LIST = "usr/share/bulkhead/packages"


class ImageError(RuntimeError):
    """An image could not be built; the text has the step, the reason, and what to do."""


def run(what: str, command: list[str], *, environment: dict[str, str] | None = None) -> str:
    """Run a program to its end and return its output."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False, env=environment)
    except FileNotFoundError as error:
        raise ImageError(f"{what}: {command[0]} is not installed (apt-get install mmdebstrap busybox-static)") from error
    except subprocess.TimeoutExpired as error:
        raise ImageError(f"{what}: not finished after {_TIMEOUT} s: {' '.join(command)}") from error
    if done.returncode != 0:
        last = "\n  ".join((done.stderr or done.stdout).strip().splitlines()[-12:])
        raise ImageError(f"{what}: exit status {done.returncode} of {' '.join(command[:3])} …\n  {last}")
    return done.stdout


def make_tree(target: Path, fill: Callable[[Path], None]) -> Path:
    """A folder that appears only once it is complete."""
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as temporary:
        tree = Path(temporary) / "tree"
        fill(tree)
        try:
            tree.rename(target)
        except OSError as error:
            if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:
                raise  # otherwise another process has created the same folder in the meantime
    for other in target.parent.glob(f"{target.name.rpartition('-')[0]}-*"):
        if other != target:
            shutil.rmtree(other, ignore_errors=True)
    return target


def debian_root(cache: Path, machine: str | None = None) -> Path:
    """The extracted Debian root of one architecture; kept until the package list changes."""
    packages = ",".join(PACKAGES)
    # Bytecode is the same on every architecture, so this machine's own interpreter compiles it for all.
    compiler = None if is_native(machine) else debian_root(cache)

    def fill(tree: Path) -> None:
        command = ["mmdebstrap", "--variant=extract", "--mode=root", *foreign(machine), *list_packages()]
        run("Debian root file system", [*command, f"--include={packages}", SUITE, str(tree)])
        _compile(compiler or tree, tree / "usr/lib/python3.11", "/usr/lib/python3.11")

    return make_tree(cache / "trees" / f"{named('root', machine)}-{root_key()}", fill)


def is_native(machine: str | None) -> bool:
    """Whether an architecture is this machine's; None counts as this machine's."""
    return machine in (None, architecture())


def named(name: str, machine: str | None) -> str:
    """The name of a tree; architectures other than the machine's have names of their own."""
    return name if is_native(machine) else f"{name}.{machine}"


def foreign(machine: str | None) -> list[str]:
    """Arguments of mmdebstrap for another architecture. None of its programs are run, so the machine need not support it."""
    return [] if is_native(machine) else [f"--architectures={machine}", "--skip=check/qemu"]


def list_packages() -> list[str]:
    """Arguments of mmdebstrap that write the names of the packages into `packages.txt`."""
    return ["""--extract-hook=cd "$1"/var/cache/apt/archives && ls *.deb > "$1"/packages.txt"""]


def root_key() -> str:
    """A key for the Debian root's inputs."""
    return key_of((SUITE, *PACKAGES, _UNNEEDED.pattern))


def _compile(root: Path, folder: Path, runtime_path: str) -> None:
    """Compile with the interpreter of the tree itself, started through the tree's own loader."""
    loader = next(iter(root.glob("lib/*-linux-gnu/ld-linux-*.so.*")), None)
    if loader is None:
        raise ImageError("bytecode: the Debian root has no dynamic loader; remove the image cache and try again")
    libraries = f"{loader.parent}:{root}/usr/lib/{loader.parent.name}"
    python = [str(loader), "--library-path", libraries, str(root / "usr/bin/python3.11"), "-S", "-s"]
    options = ["-q", "-j", "0", "--invalidation-mode", "unchecked-hash", "-s", str(folder), "-p", runtime_path]
    skip = ["-x", r"/(test|tests|lib2to3|idlelib)/"]
    run("bytecode", [*python, "-m", "compileall", *options, *skip, str(folder)], environment={"PYTHONHOME": str(root / "usr")})


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _locked(lock: Path) -> dict[str, str]:
    """Package name -> its block of the lock file, digests included."""
    blocks = re.split(r"^(?=[a-z0-9])", lock.read_text(), flags=re.MULTILINE)
    return {_normal(block.split("==")[0]): block for block in blocks if "==" in block}


def runtime_requirements(lock: Path) -> str:
    """The part of the lock file that the pods' processes need: the project's direct dependencies and theirs."""
    locked = _locked(lock)
    chosen: set[str] = set()
    # The project's direct dependencies come from its file, because the installed metadata may be older.
    waiting = list(tomllib.loads((lock.parent / "pyproject.toml").read_text())["project"]["dependencies"])
    while waiting:
        line = waiting.pop()
        name = _normal(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0])
        if "extra ==" in line or name in chosen or name in _NOT_IN_PODS or name not in locked:
            continue
        chosen.add(name)
        waiting += importlib.metadata.requires(name) or ()
    return "".join(locked[name] for name in sorted(chosen))


def site_packages(cache: Path, lock: Path, root: Path, machine: str | None = None) -> Path:
    """The installed and compiled dependencies; kept until the lock changes."""
    requirements = runtime_requirements(lock)

    def fill(tree: Path) -> None:
        tree.mkdir()
        wanted = tree.parent / "requirements.txt"
        wanted.write_text(requirements)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--no-deps", "--no-compile"]
        command += ["--require-hashes", "--only-binary=:all:", "--python-version=3.11", "--implementation=cp"]
        command += (
            [] if is_native(machine) else [f"--platform={platform}_{_WHEELS[str(machine)]}" for platform in _WHEEL_PLATFORMS]
        )
        run("Python packages", [*command, f"--target={tree}", "-r", str(wanted)], environment=dict(os.environ))
        _compile(root, tree, f"/{SITE}")

    return make_tree(cache / "trees" / f"{named('site', machine)}-{key_of((requirements, root_key()))}", fill)


def own_sources(project: Path) -> list[Path]:
    """The files of our own packages that a pod can need."""
    found = []
    for package in _OWN_PACKAGES:
        for path in (project / package).rglob("*"):
            name = path.relative_to(project).as_posix()
            if path.is_file() and "__pycache__" not in name:
                found.append(path)
    return found


def own_tree(cache: Path, project: Path, root: Path) -> Path:
    """A compiled copy of our own packages; kept until one of their files changes."""
    sources = own_sources(project)

    def fill(tree: Path) -> None:
        for path in sources:
            target = tree / path.relative_to(project)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        _compile(root, tree, f"/{APP}")

    return make_tree(cache / "trees" / f"own-{tree_key(project, sources)}", fill)


def tree_entries(
    tree: Path, prefix: str = "", *, drop: re.Pattern[str] | None = None, packaged: bool = False
) -> Iterator[Entry]:
    """The entries of a tree, without what `drop` matches, device files, and setuid and setgid bits.

    Modes are kept of what Debian has packaged. Those of other files come from the umask of the process that made them, which
    does not count: pods run as users that have no other right to them.
    """
    for folder, folders, files in os.walk(tree):
        for name in [*folders, *files]:
            path = Path(folder, name)
            inside = path.relative_to(tree).as_posix()
            if drop is not None and drop.match(inside + ("/" if path.is_dir() and not path.is_symlink() else "")):
                continue
            if path.is_symlink():
                yield Entry(prefix + inside, "link", str(path.readlink()))
            elif path.is_file():
                mode = path.stat().st_mode & 0o755
                yield Entry(prefix + inside, "file", path, mode if packaged else 0o755 if mode & 0o100 else 0o644)
            elif path.is_dir():
                yield Entry(prefix + inside, "dir", mode=0o755)


def root_entries(root: Path) -> Iterator[Entry]:
    """Whether an entry of the Debian root goes into the image."""
    yield from tree_entries(root, drop=_UNNEEDED, packaged=True)
    yield Entry(PACKAGE_LIST, "file", root / "packages.txt")
    for folder, _, files in os.walk(root / "usr/lib/python3.11"):
        inside = Path(folder).relative_to(root).as_posix()
        if inside.endswith("__pycache__") and not _UNNEEDED.match(inside.removesuffix("__pycache__")):
            yield from (Entry(f"{inside}/{name}", "file", Path(folder, name)) for name in files)


def site_entries(site: Path) -> Iterator[Entry]:
    """The dependencies without what no pod runs: scripts, and the tests of packages."""
    yield from tree_entries(site, f"{SITE}/", drop=re.compile(r"^bin/|.*/tests?/|.*\.(pyx|pxd|c|h|pyi)$"))
