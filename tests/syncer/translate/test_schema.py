"""What a schema makes of values that an API server would have written otherwise, or not at all."""

from typing import Any

import pytest

from syncer.translate import schema
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.schema import (
    Dropped,
    Flag,
    IntOrText,
    ListOf,
    MapOf,
    Number,
    OneOf,
    Quantity,
    Refused,
    Rule,
    Struct,
    Text,
)

_ANY_NUMBER = Number()
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1

COPIED: dict[str, tuple[Rule, Any, Any]] = {
    # JSON has one sort of number: 80.0 is how other writers spell 80.
    "a whole float": (Number(1, 65535), 80.0, 80),
    "minus nothing": (_ANY_NUMBER, -0.0, 0),
    "a large whole float": (_ANY_NUMBER, 2.0**62, 1 << 62),
    "the least": (Number(1, 65535), 1, 1),
    "the most": (Number(1, 65535), 65535, 65535),
    "the least of all": (_ANY_NUMBER, _LEAST, _LEAST),
    "the most of all": (_ANY_NUMBER, _MOST, _MOST),
    "a whole float for a port or its name": (IntOrText(), 80.0, 80),
    "a port's name": (IntOrText(), "http", "http"),
    "a text of digits": (IntOrText(), "80", "80"),
    "as long as it may be": (Text(3), "abc", "abc"),
    "as many as there may be": (ListOf(Text(), 2), ["a", "b"], ["a", "b"]),
    "as many keys as there may be": (MapOf(Text(), 1), {"a": "b"}, {"a": "b"}),
    "null among objects": (ListOf(Struct({})), [{}, None], [{}, {}]),
    "null in a mapping": (MapOf(Text()), {"a": None, "b": "c"}, {"b": "c"}),
    "an unset field": (Struct({"a": Text()}), {"a": None}, {}),
    "a field that nobody knows, and that is unset": (Struct({}), {"unheard": None}, {}),
    "a dropped field": (Struct({"a": Dropped("why")}), {"a": {"anything": 1}}, {}),
    "false": (Flag(), False, False),
    "what asks for nothing": (ListOf(Refused("no")), [False, "", [], {}], []),
    "an amount": (Quantity(), "1.5Gi", "1.5Gi"),
    "a number of devices": (Quantity(), 8, 8),
}


@pytest.mark.parametrize("case", COPIED)
def test_what_is_copied(case: str) -> None:
    rule, value, wanted = COPIED[case]
    found = schema.copy(value, rule, "at")
    assert (found, type(found)) == (wanted, type(wanted))


REFUSED: dict[str, tuple[Rule, Any, Reason, str]] = {
    "a broken number": (_ANY_NUMBER, 80.5, Reason.MALFORMED, "at: expected a whole number, got float"),
    "no number": (_ANY_NUMBER, float("nan"), Reason.MALFORMED, "at: expected a whole number, got float"),
    "without end": (_ANY_NUMBER, float("inf"), Reason.MALFORMED, "at: expected a whole number, got float"),
    "a float of more than 64 bits": (_ANY_NUMBER, 2.0**63, Reason.MALFORMED, "at: expected a whole number, got float"),
    "a number of more than 64 bits": (_ANY_NUMBER, _MOST + 1, Reason.MALFORMED, f"at: {_MOST + 1} is not between"),
    "less than the least of all": (_ANY_NUMBER, _LEAST - 1, Reason.MALFORMED, f"at: {_LEAST - 1} is not between"),
    "true for a number": (_ANY_NUMBER, True, Reason.MALFORMED, "at: expected a whole number, got bool"),
    "digits for a number": (_ANY_NUMBER, "80", Reason.MALFORMED, "at: expected a whole number, got str"),
    "less than the least": (Number(1, 9), 0, Reason.MALFORMED, "at: 0 is not between 1 and 9"),
    "a float of less than the least": (Number(1, 9), 0.0, Reason.MALFORMED, "at: 0 is not between 1 and 9"),
    "more than the most": (Number(1, 9), 10, Reason.MALFORMED, "at: 10 is not between 1 and 9"),
    "true for a port or its name": (IntOrText(), True, Reason.MALFORMED, "at: expected a whole number, got bool"),
    "a broken port": (IntOrText(), 0.5, Reason.MALFORMED, "at: expected a whole number, got float"),
    "a number for a text": (Text(), 5, Reason.MALFORMED, "at: expected a text, got int"),
    "a text that is too long": (Text(3), "abcd", Reason.TOO_LARGE, "at: 4 characters, at most 3"),
    "half of a character": (Text(), "\ud800", Reason.MALFORMED, "at: not valid Unicode"),
    "a number for a flag": (Flag(), 1, Reason.MALFORMED, "at: expected true or false, got int"),
    "a text for a list": (ListOf(Text()), "ab", Reason.MALFORMED, "at: expected a list, got str"),
    "a list that is too long": (ListOf(Text(), 2), ["a"] * 3, Reason.TOO_LARGE, "at: 3 entries, at most 2"),
    "the second entry": (ListOf(Text()), ["a", 5], Reason.MALFORMED, "at[1]: expected a text, got int"),
    "a list for a mapping": (MapOf(Text()), [], Reason.MALFORMED, "at: expected an object, got list"),
    "too many keys": (MapOf(Text(), 1), {"a": "b", "c": "d"}, Reason.TOO_LARGE, "at: 2 entries, at most 1"),
    "a key that is too long": (MapOf(Text()), {"k" * 318: ""}, Reason.TOO_LARGE, "at: 318 characters, at most 317"),
    "a key that is no text": (MapOf(Text()), {1: ""}, Reason.MALFORMED, "at: expected a text, got int"),
    "a field that nobody knows": (Struct({}), {"unheard": False}, Reason.UNKNOWN_FIELD, "at.unheard: this field is not known"),
    "a field that is no text": (Struct({}), {1: 1}, Reason.UNKNOWN_FIELD, "at.1: this field is not known"),
    "none of these": (OneOf(("", "TCP")), "tcp", Reason.MALFORMED, "at: 'tcp' is not one of TCP"),
    "zero where nothing is allowed": (Refused("no", Reason.POD_SECURITY), 0, Reason.POD_SECURITY, "at: no"),
    "true where nothing is allowed": (Refused("no"), True, Reason.NOT_ALLOWED, "at: no"),
    "less than nothing of an amount": (Quantity(), "-1", Reason.MALFORMED, "at: "),
    "null among texts": (ListOf(Text()), ["a", None], Reason.MALFORMED, "at[1]: expected a text, got dict"),
    "a float for an amount": (Quantity(), 0.5, Reason.MALFORMED, "at: expected a quantity, got float"),
    "no amount": (Quantity(), "much", Reason.MALFORMED, "at: "),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    rule, value, reason, message = REFUSED[case]
    with pytest.raises(Untranslatable) as refusal:
        schema.copy(value, rule, "at")
    assert (refusal.value.reason, str(refusal.value)[: len(message)]) == (reason, message)


def test_nothing_that_is_copied_is_shared() -> None:
    value = {"a": {"b": ["c"]}}
    found = schema.copy(value, MapOf(MapOf(ListOf(Text()))), "at")
    assert found == value
    assert found["a"] is not value["a"]
    assert found["a"]["b"] is not value["a"]["b"]


@pytest.mark.parametrize("read", [schema.mapping, schema.values, schema.items, schema.texts, schema.text, schema.text_map])
def test_what_is_absent_is_read_as_empty(read: Any) -> None:
    assert not read(None, "at")
    with pytest.raises(Untranslatable, match=r"^at: expected"):
        read(7, "at")
