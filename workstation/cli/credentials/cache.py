"""Private files of this user: one small JSON document for each identity, and a lock beside it.

    found = entry("oidc", issuer, client, tenant)
    with found.locked():          one process at a time; the others wait, and then find what it left
        found.read() / found.write({...}) / found.clear()

The folder is this user's alone. A file that is a link, another user's, or readable by others is not trusted: it is removed, and
the person signs in again. Where no folder can be had (a read-only home), nothing is kept and everything still works.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from workstation.cli.failures import CliError, Exit

_BYTES: Final = 1 << 20
_LOCK_SECONDS: Final = 330.0  # longer than a person may take to sign in
_POLL: Final = 0.05
_LOCK: Final = ".lock"


def folder() -> Path:
    """Where this user's credentials lie."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")  # noqa: PTH111, PTH118 - pathlib expands differently without HOME
    return Path(base) / "bulkhead" / "credentials"


class Entry:
    """What is kept of one identity."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, Any]:
        """What was written last; empty where there is nothing that can be trusted."""
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return {}
        except OSError:
            return self._distrust("is a link or cannot be read")
        with os.fdopen(handle, "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
                return self._distrust("is not this user's alone")
            data = file.read(_BYTES + 1)
        try:
            found = json.loads(data) if len(data) <= _BYTES else None
        except ValueError:
            found = None
        return found if isinstance(found, dict) else {}

    def write(self, document: dict[str, Any]) -> None:
        """Keep this, whole or not at all."""
        with contextlib.suppress(OSError):
            _private(self._path.parent)
            _write(self._path, json.dumps(document))

    def beside(self, name: str) -> Path:
        """Where a file of this name lies that belongs to it, for programs that read files; its end is its name."""
        return self._path.with_suffix(f".{name}")

    def put_beside(self, path: Path, text: str) -> None:
        """Write such a file, whole or not at all, unless it holds just this."""
        _private(path.parent)
        try:
            if not path.is_symlink() and path.stat().st_mode & 0o077 == 0 and path.read_text() == text:
                return
        except (OSError, UnicodeError):
            pass
        try:
            _write(path, text)
        except OSError as error:
            raise CliError(
                f"cannot write {path}: {error.strerror}", next_step="set XDG_CACHE_HOME to a folder of yours"
            ) from error

    def clear(self) -> None:
        """Forget it, and what lies beside it."""
        for path in (self._path, *self._path.parent.glob(f"{self._path.stem}.*")):
            if path.suffix != _LOCK:
                with contextlib.suppress(OSError):
                    path.unlink()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time."""
        try:
            _private(self._path.parent)
            handle = os.open(self._path.with_suffix(_LOCK), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError:
            yield
            return
        try:
            _wait(handle)
            yield
        finally:
            os.close(handle)

    def _distrust(self, why: str) -> dict[str, Any]:
        sys.stderr.write(f"bulkhead: {self._path} {why}: it is removed, and you are signed in again\n")
        self.clear()
        return {}


def entry(kind: str, *identity: str) -> Entry:
    """What is kept of this identity, or will be."""
    digest = hashlib.sha256(json.dumps([kind, *identity]).encode()).hexdigest()[:32]
    return Entry(folder() / f"{kind}-{digest}.json")


def forget(tenant: str | None) -> int:
    """Remove what is kept of a tenant, or of all; returns how many files there were."""
    found = [Entry(path) for path in folder().glob("*.json")] if folder().is_dir() else []
    gone = [each for each in found if tenant is None or each.read().get("tenant") == tenant]
    for each in gone:
        each.clear()
    return len(gone)


def asked_again(document: dict[str, Any]) -> bool:
    """Whether the very process that was given this credential asks once more: then it was refused, or has ended."""
    return document.get("given") == _parent()


def given(document: dict[str, Any]) -> dict[str, Any]:
    """The same document with a note of who asks for it now."""
    return document | {"given": _parent()}


def _parent() -> list[Any]:
    """The process that started this one, and when it was started: numbers of processes are used again."""
    parent = os.getppid()
    try:
        began = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        began = ""
    return [parent, began]


def _write(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")  # made with mode 0600
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(temporary).replace(path)


def _private(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    facts = path.lstat()
    if stat.S_ISLNK(facts.st_mode) or facts.st_uid != os.geteuid():
        raise CliError(
            f"{path} is a link or belongs to another user: credentials are not kept there",
            next_step=f"remove it: rm -r {path}",
        )
    if facts.st_mode & 0o077:
        path.chmod(0o700)


def _wait(handle: int) -> None:
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > deadline:
                raise CliError(
                    "another process of yours has been signing in for too long",
                    next_step="end it, and try again",
                    code=Exit.TIMEOUT,
                ) from None
            time.sleep(_POLL)
        else:
            return
