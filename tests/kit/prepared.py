"""What an API server makes of an empty etcd at its first start, made once and copied for every server of the tests.

    first server of a key: start ── ready ── end ──> <cache>/tests/etcd/<key>       roles, namespaces, priorities, ranges
    every server:          <cache>/tests/etcd/<key> ── copy ──> its own data folder, then a start that makes nothing

The key is of the binaries and of those options that decide what is stored. Nothing of one server's identity is in a copy: the
keys of its tokens and its certificates are files, and the objects that name them or it are deleted: a cluster is known by the
UID of its namespace `kube-system`, so every server makes that anew. A run that is interrupted leaves at most a folder that
nobody reads: a finished one appears by one rename, under a lock of its key.
"""

import fcntl
import hashlib
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from workstation.hostcluster.binaries import cache_dir

# What a server writes of itself: who it is, that it lives, and the authority of its clients.
OF_ONE_SERVER = (
    "/registry/namespaces/",
    "/registry/leases/kube-system/",
    "/registry/configmaps/kube-system/extension-apiserver-authentication",
)


def key_of(*parts: object) -> str:
    """The name of what these decide."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


def copy(key: str, target: Path, make: Callable[[Path], None]) -> None:
    """Have `target` be a copy of what is kept; where nothing is, `make` leaves it as `etcd` in the folder that it is given."""
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
    # etcd sets 64 MiB aside for its log, nearly all of it zeros.
    subprocess.run(["cp", "-a", "--sparse=always", "--reflink=auto", str(source), str(target)], check=True, timeout=60)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
