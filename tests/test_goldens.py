"""Files of differences contain all differences, and nothing else."""

from pathlib import Path

import pytest

from bulkhead.api.objects import Obj
from tests.kit import goldens


def config(name: str, **data: str) -> Obj:
    return {"kind": "ConfigMap", "metadata": {"name": name, "namespace": "space"}, "data": data}


BASE = [config("a", key="1"), config("b", key="2")]


def test_objects_that_are_the_same_have_no_differences() -> None:
    assert not goldens.differences(BASE, [dict(each) for each in BASE])


def test_a_changed_value_stands_below_the_name_of_its_object() -> None:
    said = goldens.differences(BASE, [BASE[0], config("b", key="3")]).splitlines()
    assert said[0] == "=== ConfigMap/space/b"
    assert [line for line in said if line[0] in "+-"] == ["-  key: '2'", "+  key: '3'"]


def test_objects_that_come_and_go_stand_there_whole() -> None:
    said = goldens.differences(BASE, [BASE[0], config("c", key="2")])
    assert "-ConfigMap/space/b\n+ConfigMap/space/c\n" in said
    assert "=== ConfigMap/space/c\n@@ -0,0 +1,6 @@\n+data:\n+  key: '2'\n" in said
    assert "=== ConfigMap/space/b\n@@ -1,6 +0,0 @@\n-data:\n" in said


def test_another_order_is_a_difference() -> None:
    assert goldens.differences(BASE, BASE[::-1]).startswith("=== objects\n")


def test_two_objects_of_one_name_are_refused() -> None:
    with pytest.raises(AssertionError, match="same kind"):
        goldens.differences(BASE, [*BASE, BASE[0]])


def test_a_file_that_says_something_else_fails_and_is_written_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "case.yaml"
    path.write_text("other\n")
    monkeypatch.delenv("UPDATE_GOLDEN", raising=False)
    with pytest.raises(AssertionError, match=r"case\.yaml differs"):
        goldens.check(path, "text\n")
    monkeypatch.setenv("UPDATE_GOLDEN", "1")
    goldens.check(path, "text\n")
    assert path.read_text() == "text\n"
