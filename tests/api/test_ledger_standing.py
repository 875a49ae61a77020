"""What a tenant has, as an annotation: what was written is read, and what nobody wrote is nothing."""

import pytest

from bulkhead.api.ledger import STANDING, read_standing, write_standing

GPU = ("", "nvidia.com/gpu")
H100 = ("h100", "nvidia.com/gpu")


def test_item_18_a_standing_comes_back_as_it_was_written() -> None:
    lines = {GPU: {"nominal": 8, "used": 3}, H100: {"nominal": 4, "used": 0}, ("", "cpu"): {"nominal": 64_000}}
    assert read_standing({STANDING: write_standing(lines)}) == lines


@pytest.mark.parametrize(
    "text", [None, 7, "", "[]", "{", '{"a": 3}', '{"a": {"": 3}}', "x" * 70_000, "[" * 20_000], ids=lambda value: str(value)[:9]
)
def test_item_18_what_is_no_standing_says_no_number(text: object) -> None:
    assert not any(read_standing({STANDING: text}).values())
    assert read_standing({STANDING: '{"a": {"": {"used": 1, "lent": "2", "borrowed": true}}}'}) == {("", "a"): {"used": 1}}
