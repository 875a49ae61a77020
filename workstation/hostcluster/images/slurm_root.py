"""Builds the file trees of the Slurm and MariaDB images: Debian's packages, extracted and never configured, and a few files.

The packages, what is removed from them, and the expected version are data here. The entrypoints and the configuration that all
tenants share are in `images/<name>/rootfs` of the repository, and the Dockerfiles use them too. No program of the trees is ever
started. The image lists the versions of its packages in `/usr/share/bulkhead/packages`.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from workstation.hostcluster.images.layercache import key_of, tree_key
from workstation.hostcluster.images.oci import Entry
from workstation.hostcluster.images.python_root import (
    PACKAGE_LIST,
    ImageError,
    foreign,
    list_packages,
    make_tree,
    named,
    run,
    tree_entries,
)

SLURM_VERSION = "26.05.5"
MARIADB_VERSION = "11.8"
SUITE = "sid"  # the only suite with this Slurm
MIRROR_VARIABLE = "BULKHEAD_DEBIAN_MIRROR"  # a snapshot of Debian, to get the same bytes on another day


@dataclass(frozen=True, slots=True)
class DebianTree:
    """The packages of a tree, what is removed from them, and the version that its main package must have."""

    name: str
    packages: tuple[str, ...]
    version_of: str
    version: str
    unneeded: re.Pattern[str]
    suite: str = SUITE


NEVER = (
    r"var/|dev/|proc/|sys/|run/|boot/|tmp/|packages\.txt$|usr/lib(32|x32)/|usr/include/|.*/__pycache__/|.*\.(a|la|mod)$"
    r"|usr/lib/(locale|tmpfiles\.d|sysusers\.d|systemd|udev|apt|dpkg|llvm[^/]*|clang|kernel|modprobe\.d|binfmt\.d|environment\.d"
    r"|pcrlock\.d|sysctl\.d|initcpio|valgrind|mime)/"
    r"|usr/lib/[^/]+/(gconv|perl|perl-base|systemd|security|pkgconfig|cmake)/"
    r"|etc/(apt|cron|dpkg|logrotate|alternatives|resolv\.conf|hostname|fstab|rmt|gss|systemd|init\.d|pam|runit|sv/|update-motd|ufw"
    r"|tmpfiles|binfmt|credstore|sysctl|xdg|debconf|ucf|skel|slurm/)"
    r"|usr/bin/(perl|apt|dpkg|systemd|journalctl|loginctl|busctl|debconf|ucf)"
)

SLURM_TREE = DebianTree(
    name="slurm",
    packages=(
        "slurmctld", "slurmd", "slurmdbd", "slurmrestd", "slurm-client", "sackd",
        "slurm-wlm-basic-plugins", "slurm-wlm-jwt-plugin", "slurm-wlm-mysql-plugin",
        "openmpi-bin", "mpich", "python3-minimal", "python3-mpi4py", "libpython3-stdlib",
        "openssh-server", "openssh-client", "openssh-sftp-server", "libnss-extrausers", "tini",
        "bash", "coreutils", "diffutils", "findutils", "grep", "gzip", "hostname", "iproute2", "less", "libc-bin", "mawk",
        "nano", "ncurses-base", "netbase", "procps", "sed", "tar", "util-linux",
    ),
    version_of="slurmctld",
    version=SLURM_VERSION,
    # Open MPI and UCX depend on AMD's whole compiler for a plugin that nothing here can use; only compiler wrappers need perl.
    unneeded=re.compile(
        rf"^({NEVER}|usr/share/(?!zoneinfo|terminfo|pmix|openmpi|prrte|ucx|mpich|hwloc|libfabric|nano)"
        r"|usr/lib/[^/]+/(dri|rocm|hwloc|fortran)/|usr/lib/python3\.\d+/(test|idlelib|tkinter|turtledemo|pydoc_data|ensurepip)/"
        r"|usr/bin/(machinectl|bootctl|networkctl|resolvectl|homectl|localectl|hostnamectl|timedatectl|coredumpctl|portablectl"
        r"|userdbctl|varlinkctl|importctl|oomctl|kernel-install|systemctl|mpi(cc|CC|c\+\+|cxx|fort|f77|f90|java))"
        r"|usr/sbin/(arpd|dcb|tc|tipc|vdpa|devlink|bridge|mkfs|fsck|wipefs|zramctl|update-|installkernel|dpkg|pam|unix_|getty|agetty"
        r"|sulogin|mkswap|swap|rmt)"
        r"|.*/lib(LLVM|amd|hsa|clang|z3|X|xcb|drm|OpenCL|pciaccess|systemd-shared|perl|db-|gdbm|mpi_mpifh|mpi_usempi|mpichfort|mpicxx"
        r"|mpichcxx|asan|tsan|ubsan)[^/]*$|.*/(libuc[tx]_(rocm|cuda|ze)|libucm_(rocm|ze)|libucc_[a-z]+_rocm)[^/]*$)"
    ),
)  # fmt: skip

MARIADB_TREE = DebianTree(
    name="mariadb",
    packages=(
        "mariadb-server-core", "mariadb-client-core", "mariadb-common", "tini",
        "bash", "coreutils", "diffutils", "findutils", "grep", "hostname", "libc-bin", "netbase", "procps", "sed", "util-linux",
    ),
    version_of="mariadb-server-core",
    version=MARIADB_VERSION,
    unneeded=re.compile(rf"^({NEVER}|usr/share/(?!zoneinfo|mariadb|mysql)|usr/share/(mariadb|mysql)/(?!english|[^/]*\.sql|charsets))"),
)  # fmt: skip


def debian_tree(cache: Path, wanted: DebianTree, machine: str | None = None) -> Path:
    """The extracted packages; kept until the list or the mirror changes."""

    def fill(tree: Path) -> None:
        # The suite's index may have expired; its packages are checked by signature and digest nevertheless.
        options = ['--aptopt=Acquire::Check-Valid-Until "false"', '--aptopt=Acquire::Languages "none"']
        command = ["mmdebstrap", "--variant=extract", "--mode=root", *options, *foreign(machine), *list_packages()]
        command += [f"--include={','.join(wanted.packages)}", wanted.suite, str(tree), *_mirror()]
        run(f"Debian packages of the {wanted.name} image", command)
        check_version(wanted, (tree / "packages.txt").read_text())

    return make_tree(cache / "trees" / f"{named(wanted.name, machine)}-{tree_name(wanted)}", fill)


def tree_name(wanted: DebianTree) -> str:
    """A key for a tree's inputs."""
    return key_of((wanted.suite, *_mirror(), wanted.version, *wanted.packages))


def _mirror() -> list[str]:
    mirror = os.environ.get(MIRROR_VARIABLE, "")
    return [mirror] if mirror else []


def check_version(wanted: DebianTree, package_files: str) -> None:
    """Refuse a tree whose main package has an untested version (docs/decisions/0014-slurm-mode.md)."""
    found = re.search(rf"^{re.escape(wanted.version_of)}_(\S+?)_[a-z0-9]+\.deb$", package_files, re.MULTILINE)
    if found is None:
        raise ImageError(f"{wanted.name} image: the Debian packages do not include {wanted.version_of}")
    version = found[1].replace("%3a", ":").rpartition(":")[2]
    if version.startswith((f"{wanted.version}-", f"{wanted.version}.", f"{wanted.version}+")):
        return
    raise ImageError(
        f"{wanted.name} image: Debian {wanted.suite} now has {wanted.version_of} {version}, but {wanted.version} was tested; "
        f"name a snapshot of Debian in {MIRROR_VARIABLE}"
    )


def tree_layer(tree: Path, wanted: DebianTree) -> Iterator[Entry]:
    """Whether an entry of the packages goes into the image."""
    yield from tree_entries(tree, drop=wanted.unneeded, packaged=True)
    yield Entry(PACKAGE_LIST, "file", tree / "packages.txt")
    yield from (Entry(folder, "dir", mode=0o755) for folder in ("home", "var/spool", "var/log", "usr/local/bin"))
    yield Entry("var/tmp", "dir", mode=0o1777)
    yield Entry("root", "dir", mode=0o700)


def own_files(project: Path, image: str) -> Path:
    """The folder with our own files for an image."""
    folder = project / "images" / image / "rootfs"
    if not folder.is_dir():
        raise ImageError(f"{image} image: {folder} is missing; images are built from a checkout of the repository")
    return folder


def own_key(project: Path, image: str) -> str:
    """A key for the content of our own files, including links and modes."""
    folder = own_files(project, image)
    paths = sorted(folder.rglob("*"))
    links = [f"{path.relative_to(folder)} {path.readlink()}" for path in paths if path.is_symlink()]
    files = [path for path in paths if path.is_file() and not path.is_symlink()]
    modes = [f"{path.stat().st_mode:o}" for path in files]
    return key_of((tree_key(folder, files), *links, *modes))
