"""The owner by which usage is summed up: a name that its tenant chose, of bounded length where it is stored."""

import json

import pytest

from bulkhead.api import labels, ledger
from bulkhead.api.virtualowners import controller_of, owner_name, owners_of


@pytest.mark.parametrize("character", ["x", "\u00e9", "\U0001f4a9", "\x00", '"'])
def test_a_name_is_bounded_as_it_is_stored_whatever_its_characters(character: str) -> None:
    found = owner_name({"kind": "Job", "name": character * 400}, "p")
    assert found.startswith(f"Job/{character}")
    assert 240 <= len(json.dumps(found)) - 2 <= 253


def test_a_name_that_is_short_enough_stays_as_it_is() -> None:
    assert owner_name({"kind": "Job", "name": "tr\u00e4in"}, "p") == "Job/tr\u00e4in"
    assert owner_name({}, "p") == "Pod/p"


@pytest.mark.parametrize("half", [r"\ud800", r"\udc00", r"x\ud800y", r"\ud83d\u0041"])
def test_a_note_with_half_of_a_surrogate_pair_names_no_owner(half: str) -> None:
    """No encoder takes one, so one pod of a syncer that writes it would end what counts the pods of all tenants."""
    noted = {labels.VIRTUAL_OWNERS: f'[{{"kind": "Job", "name": "{half}", "controller": true}}]'}
    assert owners_of(noted) == []
    assert owner_name(controller_of(noted), "p") == "Pod/p"
    admitted = {ledger.ADMITTED: f'{{"at": "2026-06-01T12:00:00Z", "flavor": "{half}"}}'}
    assert ledger.read_admitted(admitted) is None


@pytest.mark.parametrize("note", ["", "{", "7", "[7, null]", "[" * 50_000, "NaN", "x" * 70_000])
def test_a_note_of_another_shape_names_no_owner(note: str) -> None:
    assert owners_of({labels.VIRTUAL_OWNERS: note}) == []


def test_a_whole_pair_is_a_character() -> None:
    (owner,) = owners_of({labels.VIRTUAL_OWNERS: r'[{"name": "\ud83d\ude00"}]'})
    assert owner["name"] == "\U0001f600"
