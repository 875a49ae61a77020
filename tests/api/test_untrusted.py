"""Whatever JSON holds, the readers give the type that they name, and nothing but what is there."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import untrusted

_LEAF = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
_JSON = st.recursive(
    _LEAF, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4), max_leaves=12
)


@given(_JSON)
def test_a_value_of_the_type_is_itself_and_any_other_is_empty(value: Any) -> None:
    assert untrusted.mapping(value) == (value if isinstance(value, dict) else {})
    assert untrusted.sequence(value) == (value if isinstance(value, list) else [])
    assert untrusted.text(value) == (value if isinstance(value, str) else "")


@given(_JSON, st.none() | st.integers(0, 3))
def test_the_mappings_of_a_list_are_in_order_and_bounded(value: Any, most: int | None) -> None:
    found = untrusted.mappings(value, most)
    assert all(isinstance(each, dict) for each in found)
    whole = value if isinstance(value, list) else []
    assert found == [each for each in whole[: len(whole) if most is None else most] if isinstance(each, dict)]
