"""The owner by which usage is summed up: a name that its tenant chose, of bounded length where it is stored."""

import json

import pytest

from bulkhead.api.virtualowners import owner_name


@pytest.mark.parametrize("character", ["x", "\u00e9", "\U0001f4a9", "\x00", '"'])
def test_a_name_is_bounded_as_it_is_stored_whatever_its_characters(character: str) -> None:
    found = owner_name({"kind": "Job", "name": character * 400}, "p")
    assert found.startswith(f"Job/{character}")
    assert 240 <= len(json.dumps(found)) - 2 <= 253


def test_a_name_that_is_short_enough_stays_as_it_is() -> None:
    assert owner_name({"kind": "Job", "name": "tr\u00e4in"}, "p") == "Job/tr\u00e4in"
    assert owner_name({}, "p") == "Pod/p"
