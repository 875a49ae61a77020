"""Private files of this user: one small JSON document for each identity, and a lock next to it.

    found = entry("oidc", issuer, client, tenant)
    with found.locked():          one process at a time; the others wait, and then find what it left
        found.read() / found.write({...}) / found.clear()

The folder belongs to this user. A file that is a link, has another owner, or is readable by others is not trusted: it is
removed, and the user signs in again. If no folder can be created (a read-only home), nothing is kept, and all commands work.
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

from workstation.cli import interruption
from workstation.cli.failures import CliError, Exit

_FILE_LIMIT_BYTES: Final = 1 << 20
_LOCK_SECONDS: Final = 330.0  # longer than a person may take to sign in
_NOTICE_SECONDS: Final = 2.0  # so long a wait is explained
_POLL_SECONDS: Final = 0.05
_LOCK: Final = ".lock"


def folder() -> Path:
    """The folder with this user's credentials."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")  # noqa: PTH111, PTH118 - pathlib expands differently without HOME
    return Path(base) / "bulkhead" / "credentials"


class Entry:
    """The cached document of one identity."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, Any]:
        """The document written last; empty if there is none that can be trusted."""
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return {}
        except OSError:
            return self._distrust("is a link or cannot be read")
        with os.fdopen(handle, "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
                return self._distrust("has another owner or is readable by others")
            data = file.read(_FILE_LIMIT_BYTES + 1)
        try:
            found = json.loads(data) if len(data) <= _FILE_LIMIT_BYTES else None
        except ValueError:
            found = None
        return found if isinstance(found, dict) else {}

    def write(self, document: dict[str, Any]) -> None:
        """Write the document, completely or not at all."""
        with contextlib.suppress(OSError):
            _private(self._path.parent)
            _write(self._path, json.dumps(document))

    def beside(self, name: str) -> Path:
        """The path of a file with this name that belongs to the entry, for programs that read files. The name is its suffix."""
        return self._path.with_suffix(f".{name}")

    def put_beside(self, path: Path, text: str) -> None:
        """Write such a file, completely or not at all, unless it already has this content."""
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
                f"cannot write {path}: {error.strerror}", next_step="set XDG_CACHE_HOME to a folder that you own"
            ) from error

    def clear(self) -> None:
        """Remove the document and the files that belong to it."""
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
        sys.stderr.write(f"bulkhead: {self._path} {why}: it is removed, and you sign in again\n")
        self.clear()
        return {}


def entry(kind: str, *identity: str) -> Entry:
    """The entry of this identity, which may still be empty."""
    digest = hashlib.sha256(json.dumps([kind, *identity]).encode()).hexdigest()[:32]
    return Entry(folder() / f"{kind}-{digest}.json")


def forget(tenant: str | None) -> int:
    """Remove the entries of a tenant, or all of them; returns how many files there were."""
    found = [Entry(path) for path in folder().glob("*.json")] if folder().is_dir() else []
    gone = [kept for kept in found if tenant is None or kept.read().get("tenant") == tenant]
    for kept in gone:
        kept.clear()
    return len(gone)


def asked_again(document: dict[str, Any]) -> bool:
    """Whether the process that was given this credential asks again: the credential was refused, or has expired."""
    return document.get("given") == _parent()


def given(document: dict[str, Any]) -> dict[str, Any]:
    """The same document with a note about the process that asks for it now."""
    return document | {"given": _parent()}


def _parent() -> list[Any]:
    """The parent process and its start time, because process numbers are reused."""
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
            f"{path} is a link or belongs to another user: no credentials are kept there",
            next_step=f"remove it: rm -r {path}",
        )
    if facts.st_mode & 0o077:
        path.chmod(0o700)


def _wait(handle: int) -> None:
    """Return with the lock. Ctrl-C raises KeyboardInterrupt, in an event loop too; a caller may survive a CliError."""
    began, told = time.monotonic(), False
    with interruption.at_once():
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                waited = time.monotonic() - began
            else:
                return
            if waited > _LOCK_SECONDS:
                raise CliError(
                    "another process of yours has been signing in for too long",
                    next_step="end it, and try again",
                    code=Exit.TIMEOUT,
                )
            if waited > _NOTICE_SECONDS and not told:
                sys.stderr.write("bulkhead: waiting for another process of yours that is signing in; Ctrl-C ends this one\n")
                sys.stderr.flush()
                told = True
            time.sleep(_POLL_SECONDS)
