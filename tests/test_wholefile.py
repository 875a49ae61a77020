"""Files that a person named: whole or not at all, and pipes, devices and links stay what they are."""

import os
import stat
import threading
from pathlib import Path

import pytest

from workstation import wholefile


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def put(path: Path, data: bytes, **more: int) -> None:
    with wholefile.replacing(path, **more) as file:
        file.write(data)


def test_a_file_is_new_or_replaced_with_the_mode_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a"
    put(path, b"one")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"one", 0o600)
    put(path, b"two", mode=0o644)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"two", 0o644)
    assert names(tmp_path) == ["a"]


def test_a_write_that_fails_changes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a"
    put(path, b"one")

    def fails() -> None:
        with wholefile.replacing(path) as file:
            file.write(b"tw")
            raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        fails()
    assert (path.read_bytes(), names(tmp_path)) == (b"one", ["a"])


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    for data in (b"one", b"two"):
        put(link, data)
        assert (link.is_symlink(), target.read_bytes()) == (True, data)


def test_a_pipe_gets_the_bytes_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    put(pipe, b"credentials")
    reader.join(60)
    assert read == [b"credentials"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_stays_a_device() -> None:
    before = Path("/dev/null").stat()
    put(Path("/dev/null"), b"credentials")
    assert os.path.samestat(before, Path("/dev/null").stat())


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        put(tmp_path, b"one")
    assert names(tmp_path) == []


def test_what_is_written_is_on_the_disk_before_it_has_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    sync, replace = os.fsync, Path.replace

    def synced(handle: int) -> None:
        steps.append(f"sync {os.fstat(handle).st_size}")
        sync(handle)

    def named(path: Path, to: Path) -> Path:
        steps.append("name")
        return replace(path, to)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", named)
    with wholefile.whole(tmp_path / "a", mode=0o600) as file:
        file.write(b"abc")
    assert steps == ["sync 3", "name"]
