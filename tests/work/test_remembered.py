"""The bounded mapping, against a list of its writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.work.remembered import Remembered

_KEYS = st.integers(0, 9)
_STEPS = st.lists(
    st.tuples(st.just("write"), _KEYS, st.integers())
    | st.tuples(st.just("setdefault"), _KEYS, st.integers())
    | st.tuples(st.sampled_from(["pop", "refresh", "read"]), _KEYS, st.just(0)),
    max_size=60,
)


@given(st.integers(1, 6), _STEPS)
def test_the_entries_written_last_are_kept(most: int, steps: list[tuple[str, int, int]]) -> None:
    remembered: Remembered[int, int] = Remembered(most)
    model: list[tuple[int, int]] = []  # oldest first
    for step, key, value in steps:
        held = dict(model)
        if step == "write" or (step == "setdefault" and key not in held):
            model = [*(pair for pair in model if pair[0] != key), (key, value)][-most:]
        elif step == "pop":
            model = [pair for pair in model if pair[0] != key]
        elif step == "refresh" and key in held:
            model = [*(pair for pair in model if pair[0] != key), (key, held[key])]
        match step:
            case "write":
                remembered[key] = value
            case "setdefault":
                assert remembered.setdefault(key, value) == held.get(key, value)
            case "pop":
                assert remembered.pop(key, None) == held.get(key)
            case "refresh" if key in remembered:
                remembered.move_to_end(key)
            case _:
                assert remembered.get(key) == held.get(key)
        assert list(remembered.items()) == model


def test_there_is_room_for_one_at_least() -> None:
    with pytest.raises(ValueError, match="at most 0"):
        Remembered(0)
