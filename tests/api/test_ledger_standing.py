"""A tenant's standing as an annotation: what the ledger wrote is read, and anything else is ignored."""

import pytest

from bulkhead.api.ledger import STANDING, read_standing, write_standing

ALL = {"nominal": 8, "ceiling": 16, "used": 3, "borrowed": 0, "lent": 2, "borrowable": 8}


def test_a_standing_comes_back_as_it_was_written() -> None:
    lines = {("", "nvidia.com/gpu"): ALL, ("h100", "nvidia.com/gpu"): ALL | {"used": 0}, ("", "cpu"): ALL | {"nominal": 64_000}}
    assert read_standing({STANDING: write_standing(lines)}) == lines


@pytest.mark.parametrize(
    "text",
    [None, 7, "", "[]", "{", '{"a": 3}', '{"a": {"used": 3}}', "x" * 70_000, "[" * 20_000],
    ids=lambda value: str(value)[:9],
)
def test_a_malformed_standing_is_ignored(text: object) -> None:
    assert read_standing({STANDING: text}) == {}
