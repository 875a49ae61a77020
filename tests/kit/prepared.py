"""What an API server writes to an empty etcd at its first start, created once and copied for every server of the tests.

    first server of a key: start ── ready ── end ──> <cache>/tests/etcd/<key>       roles, namespaces, priorities, ranges
    every server:          <cache>/tests/etcd/<key> ── copy ──> its own data folder, then a start that makes nothing

The key is computed from the binaries and from the options that decide what is stored. A copy contains nothing of one server's
identity. Its token keys and certificates are files, and the objects that name them or the server are deleted. Because a cluster
is known by the UID of its namespace `kube-system`, every server creates that namespace itself. An interrupted run leaves at
most a folder that is never read: a finished one appears by one rename, under a lock of its key.
"""

import fcntl
import hashlib
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from workstation.hostcluster.binaries import cache_dir

# What a server writes about itself: its identity, its lease, and the authority of its clients.
OF_ONE_SERVER = (
    "/registry/namespaces/",
    "/registry/leases/kube-system/",
    "/registry/configmaps/kube-system/extension-apiserver-authentication",
)


def key_of(*parts: object) -> str:
    """The name of the folder for these inputs."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


def copy(key: str, target: Path, make: Callable[[Path], None]) -> None:
    """Make `target` a copy of the kept folder.

    If there is none, `make` first creates it as `etcd` in the folder that it is given.
    """
    parent = cache_dir() / "tests" / "etcd"
    kept = parent / key
    if not kept.exists():
        parent.mkdir(parents=True, exist_ok=True)
        with _locked(parent / f".{key}.lock"):
            if not kept.exists():
                _keep(kept, make)
    _copied(kept, target)


def _keep(kept: Path, make: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".making-", ignore_cleanup_errors=True) as scratch:
        make(Path(scratch))
        whole = Path(scratch) / "whole"
        _copied(Path(scratch) / "etcd", whole)
        whole.rename(kept)


def _copied(source: Path, target: Path) -> None:
    # etcd reserves 64 MiB for its log, nearly all of it zeros.
    subprocess.run(["cp", "-a", "--sparse=always", "--reflink=auto", str(source), str(target)], check=True, timeout=60)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
