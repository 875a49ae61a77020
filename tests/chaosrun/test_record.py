"""The record of a run: it says enough to undo it, and can name nothing that a run does not create."""

import json
from typing import Any

import pytest

from workstation.chaos.record import (
    FORM,
    KEY,
    Entry,
    Record,
    Unreadable,
    decode,
    encode,
    is_own_tenant,
    with_entries,
    with_note,
)

RUN = "chaos-0a1b2c"
FULL = Record(RUN, (Entry("Tenant"), Entry("Namespace", "red"), Entry("CustomResourceDefinition", "red")), ("begins",))


def config_map(document: Any) -> dict[str, Any]:
    return {"data": {KEY: document if isinstance(document, str) else json.dumps(document)}}


def test_a_record_is_read_as_it_was_written() -> None:
    assert decode(config_map(encode(FULL))) == FULL


def test_entries_stand_once_and_notes_are_bounded() -> None:
    record = with_entries(FULL, Entry("Tenant"), Entry("Namespace", "red"))
    assert record == FULL
    for number in range(1000):
        record = with_note(record, f"{number} " + "x" * 10_000)
    assert len(record.notes) == 200
    assert len(encode(record)) < 100_000
    assert decode(config_map(encode(record))) == record


GOOD = {"form": FORM, "run": RUN, "entries": [{"kind": "Tenant", "tenant": ""}], "notes": []}
HOSTILE: dict[str, Any] = {
    "not JSON": "{",
    "nested": "[" * 100_000,
    "a list": [],
    "another form": GOOD | {"form": 2},
    "no run": GOOD | {"run": ""},
    "a selector as a run": GOOD | {"run": "chaos-0a1b2c,!x"},
    "a kind that no run creates": GOOD | {"entries": [{"kind": "Secret", "tenant": "red"}]},
    "a namespace of the host": GOOD | {"entries": [{"kind": "Namespace", "tenant": ""}]},
    "a tenant in a plane": GOOD | {"entries": [{"kind": "Tenant", "tenant": "red"}]},
    "a path as a tenant": GOOD | {"entries": [{"kind": "Namespace", "tenant": "../x"}]},
    "a long name": GOOD | {"entries": [{"kind": "Namespace", "tenant": "a" * 41}]},
    "an entry that is a text": GOOD | {"entries": ["Tenant"]},
    "many entries": GOOD | {"entries": [{"kind": "Tenant"}] * 65},
    "large": GOOD | {"notes": ["x" * 300_000]},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_another_text_is_not_undone(name: str) -> None:
    with pytest.raises(Unreadable):
        decode(config_map(HOSTILE[name]))


@pytest.mark.parametrize("found", [{}, {"data": None}, {"data": {KEY: 5}}])
def test_an_object_without_a_record_is_not_undone(found: dict[str, Any]) -> None:
    with pytest.raises(Unreadable):
        decode(found)


@pytest.mark.parametrize("entry", [Entry("Secret"), Entry("Namespace"), Entry("Tenant", "red"), Entry("Namespace", "Red")])
def test_an_entry_that_would_not_be_read_is_not_written(entry: Entry) -> None:
    with pytest.raises(ValueError, match="no entry"):
        with_entries(FULL, entry)


def test_a_tenant_is_a_runs_by_its_name_as_well_as_its_label() -> None:
    """A user who copies a Tenant copies its labels, and would lose the copy and all its data to the next run."""
    assert all(is_own_tenant(RUN, f"{RUN}-{number}") for number in range(1, 51))
    for name in ("red", RUN, f"{RUN}-", f"{RUN}-x", f"{RUN}-0", f"{RUN}-1-copy", f"my-{RUN}-1", f"{RUN}-100", "chaos-aaaaaa-1"):
        assert not is_own_tenant(RUN, name), name
    assert not is_own_tenant("", "-1")
    assert not is_own_tenant("red", "red-1")
