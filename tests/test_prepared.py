"""A data folder is created once for all processes that need it at a time, appears complete, and each gets its own copy."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from tests.kit import prepared


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def leave(folder: Path, text: str = "made") -> None:
    (folder / "etcd").mkdir()
    (folder / "etcd" / "db").write_text(text)


def test_two_that_ask_at_once_have_it_made_once(tmp_path: Path) -> None:
    begun, go, made = Event(), Event(), []

    def make(folder: Path) -> None:
        made.append(folder)
        begun.set()
        assert go.wait(30)
        leave(folder)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(prepared.copy, "key", tmp_path / "first", make)
        assert begun.wait(30)
        second = pool.submit(prepared.copy, "key", tmp_path / "second", make)
        go.set()
        first.result(30)
        second.result(30)
    assert len(made) == 1
    assert [(tmp_path / name / "db").read_text() for name in ("first", "second")] == ["made", "made"]


def test_a_write_into_one_copy_does_not_change_another(tmp_path: Path) -> None:
    prepared.copy("key", tmp_path / "first", leave)
    (tmp_path / "first" / "db").write_text("changed")
    prepared.copy("key", tmp_path / "second", leave)
    assert (tmp_path / "second" / "db").read_text() == "made"


def test_one_that_fails_half_way_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        leave(folder, "half")
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        prepared.copy("key", tmp_path / "first", fail)
    assert not (tmp_path / "first").exists()
    prepared.copy("key", tmp_path / "second", leave)
    assert (tmp_path / "second" / "db").read_text() == "made"


def test_another_key_is_another_folder(tmp_path: Path) -> None:
    one, other = (prepared.key_of("etcd", "10.0.0.0/24", gates) for gates in ([], [("Gate", True)]))
    prepared.copy(one, tmp_path / "first", leave)
    prepared.copy(other, tmp_path / "second", lambda folder: leave(folder, "other"))
    assert (tmp_path / "second" / "db").read_text() == "other"
