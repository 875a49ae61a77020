"""The archive: whole or not there, private, bounded. Pure but for a folder."""

import json
import tarfile
from pathlib import Path

import pytest

from workstation.collect import archive
from workstation.collect.archive import Collected, write


def test_it_has_all_files_and_names_what_is_missing(tmp_path: Path) -> None:
    found = Collected()
    found.add("a/b.json", b"{}")
    found.failures["plane-api"] = "silent"
    path = tmp_path / "red.tar.gz"
    write(path, "red-1", found, {"tenant": "red"})
    assert path.stat().st_mode & 0o777 == 0o600
    with tarfile.open(path) as made:
        assert made.getnames() == ["red-1/manifest.json", "red-1/a/b.json"]
        manifest = json.load(made.extractfile("red-1/manifest.json"))  # type: ignore[arg-type]
    assert manifest == {"tenant": "red", "files": {"a/b.json": 2}, "notRead": {"plane-api": "silent"}}


def test_a_file_too_many_is_named_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_BYTES", 10)
    found = Collected()
    found.add("small", b"12345")
    found.add("large", b"123456")
    found.add("another", b"12345")
    assert sorted(found.files) == ["another", "small"]
    assert "left out" in found.failures["large"]


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive.tarfile.TarFile, "addfile", full)
    with pytest.raises(OSError, match="No space"):
        write(tmp_path / "red.tar.gz", "red", Collected(), {})
    assert not list(tmp_path.iterdir())
