"""Whose record counts, what is written where there is none, and every record that was moved, changed or made elsewhere."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead import signing
from bulkhead.api import planerecord
from bulkhead.api.planerecord import PURPOSE, PlaneRecord, RecordError
from bulkhead.signing import Ring, SignatureError, UnknownKeyError
from controller.decide.identity import Doubt, Facts, Known, Write, decide, runs_as
from controller.pki.signingkeys import PRIVATE, new_files, ring_of
from controller.plane import statefulset
from tests.kit.tenantsamples import UID, plane_spec

NOW = "2026-06-01T12:00:00Z"
ID = "99999999-8888-7777-6666-555555555555"
OTHER = "00000000-8888-7777-6666-555555555555"
FILES = new_files()
RING = ring_of(FILES)
RECORD = PlaneRecord(ID, "red", UID, NOW)


def signed(record: PlaneRecord = RECORD, ring: Ring = RING, purpose: str = PURPOSE) -> str:
    return ring.sign(purpose, record.text())


FACTS = Facts("red", UID, record=signed(), runs=ID, reported=ID)


def test_a_record_counts_in_every_state_that_a_plane_of_it_can_be_in() -> None:
    for runs in ("", ID):
        for reported in ("", ID):
            assert decide(replace(FACTS, runs=runs, reported=reported), RING, NOW) == Known(ID)


@pytest.mark.parametrize(
    ("facts", "identity"),
    [
        # Nothing of a plane is there.
        (Facts("red", UID), UID),
        # An upgrade: what is running is called what it was called before.
        (Facts("red", UID, runs=UID), UID),
        # Later the record was lost. The Tenant may be another one than the first.
        (Facts("red", UID, runs=ID, reported=ID), ID),
        (Facts("red", UID, reported=ID), ID),
        # A snapshot brings one along only where there is no plane and never was.
        (Facts("red", UID, inherited=OTHER), OTHER),
        (Facts("red", UID, runs=ID, inherited=OTHER), ID),
        (Facts("red", UID, reported=ID, inherited=OTHER), ID),
        (Facts("red", UID, runs=ID), ID),
    ],
)
def test_a_plane_without_a_record_keeps_the_identity_that_it_has(facts: Facts, identity: str) -> None:
    decided = decide(facts, RING, NOW)
    assert isinstance(decided, Write)
    assert (decided.record, decided.again) == (PlaneRecord(identity, "red", UID, NOW), False)


STRANGER = ring_of(new_files())
DOUBTS = {
    "empty": ("", "not JSON"),
    "changed": (signed().replace(ID, OTHER), "was changed"),
    "another purpose": (signed(purpose="bulkhead.dev/other"), "another purpose"),
    "another installation": (signed(ring=STRANGER), "not known here"),
    "another tenant": (signed(replace(RECORD, tenant="blue")), "Tenant blue"),
    "an earlier Tenant": (signed(replace(RECORD, tenant_uid=OTHER)), f"UID {OTHER}"),
    "another plane": (signed(replace(RECORD, id=OTHER)), "StatefulSet runs"),
    "not a record": (RING.sign(PURPOSE, '{"id":1}'), "must have"),
    "not an identity": (RING.sign(PURPOSE, RECORD.text().replace(ID, "x.evil")), "not a UUID"),
    "more": (json.dumps(json.loads(signed()) | {"more": "x"}), "nothing else"),
    "no signature": (json.dumps({"text": RECORD.text(), "key": RING.current, "signature": ""}), "was changed"),
    "long": (json.dumps({"text": "x" * signing.LONGEST, "key": "", "signature": ""}), "longer than"),
    "deep": ("[" * 60_000, "not JSON"),
}


@pytest.mark.parametrize(("record", "words"), DOUBTS.values(), ids=DOUBTS.keys())
def test_no_other_record_counts_and_the_message_says_what_to_do(record: str, words: str) -> None:
    decided = decide(replace(FACTS, record=record), RING, NOW)
    assert isinstance(decided, Doubt)
    assert words in decided.why
    assert "plane-record" in decided.why
    assert "bh-red" in decided.why
    assert "backup" in decided.why or "Put the right one back" in decided.why


def test_records_that_two_tenants_exchanged_count_for_neither() -> None:
    red = Facts("red", "u-red", signed(PlaneRecord(ID, "red", "u-red", NOW)))
    blue = Facts("blue", "u-blue", signed(PlaneRecord(OTHER, "blue", "u-blue", NOW)))
    assert [decide(facts, RING, NOW) for facts in (red, blue)] == [Known(ID), Known(OTHER)]  # a control
    for facts in (replace(red, record=blue.record), replace(blue, record=red.record)):
        assert isinstance(decide(facts, RING, NOW), Doubt)


@pytest.mark.parametrize(
    "facts",
    [
        replace(FACTS, reported=OTHER),
        replace(FACTS, runs=OTHER),
        replace(FACTS, record=None, reported=OTHER),
        replace(FACTS, record=None, runs="not-an-identity", reported=""),
    ],
)
def test_what_contradicts_itself_changes_nothing(facts: Facts) -> None:
    assert isinstance(decide(facts, RING, NOW), Doubt)


def test_after_a_rotation_a_record_counts_and_is_signed_again() -> None:
    rotated = ring_of(FILES | new_files())
    assert rotated.current != RING.current
    assert rotated.known == {RING.current, rotated.current}
    decided = decide(FACTS, rotated, NOW)
    assert isinstance(decided, Write)
    assert (decided.record, decided.again) == (RECORD, True)
    assert decide(replace(FACTS, record=signed(ring=rotated)), rotated, NOW) == Known(ID)
    # What the new key signs does not count where only the old one is known.
    assert isinstance(decide(replace(FACTS, record=signed(ring=rotated)), RING, NOW), Doubt)


def test_a_ring_without_its_private_half_verifies_and_signs_nothing() -> None:
    only = Ring(None, [signing.public_key(content) for name, content in FILES.items() if name != PRIVATE])
    assert only.verify(PURPOSE, signed()).text == RECORD.text()
    with pytest.raises(SignatureError, match="no key"):
        only.sign(PURPOSE, "x")
    with pytest.raises(UnknownKeyError):
        Ring(None).verify(PURPOSE, signed())


@pytest.mark.parametrize("files", [{}, {PRIVATE: b"x"}, {PRIVATE: FILES[PRIVATE], "a.pub": b"x"}, {"a.pub": b""}])
def test_keys_that_cannot_be_read_are_refused(files: dict[str, bytes]) -> None:
    with pytest.raises(SignatureError):
        ring_of(files)


def test_a_plane_says_in_its_stateful_set_who_it_is() -> None:
    assert runs_as(None) == ""
    assert runs_as({"spec": {}}) == ""
    assert runs_as(statefulset.stateful_set(plane_spec(identity=ID), trust="t", config="c")) == ID


@given(st.text(max_size=300))
def test_no_text_makes_the_decision_fail(text: str) -> None:
    assert isinstance(decide(replace(FACTS, record=text), RING, NOW), Doubt)


@given(st.text(max_size=300))
def test_no_text_but_a_record_is_read(text: str) -> None:
    with pytest.raises(RecordError):
        planerecord.read(text)
