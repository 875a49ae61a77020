"""The order in which files of tests are given out."""

from pathlib import Path

from tests.kit.order import LONGEST_FIRST, file_of, place_of

ROOT = Path(__file__).parent.parent


def test_a_long_file_comes_before_one_with_servers_and_that_before_the_rest() -> None:
    given = [
        ("tests/syncer/test_a.py::test_x", False),
        (f"{LONGEST_FIRST[1]}::test_x[a::b]", True),
        ("tests/cli/test_b.py::test_x", True),
    ]
    ordered = sorted(given, key=lambda each: place_of(each[0], server=each[1]))
    assert [file_of(node) for node, _ in ordered] == [LONGEST_FIRST[1], "tests/cli/test_b.py", "tests/syncer/test_a.py"]


def test_every_long_file_is_there() -> None:
    assert [file for file in LONGEST_FIRST if not (ROOT / file).is_file()] == []
