"""Moments as an API server takes them. Pure."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.moments import moment_of

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2026-06-01T12:00:00Z", NOON),
        ("2026-06-01t12:00:00z", NOON),
        ("2026-06-01T14:00:00+02:00", NOON),
        ("2026-06-01T12:00:00.123456789Z", NOON + timedelta(microseconds=123456)),
        # API servers take these, and they are not moments.
        ("0000-01-01T00:00:00Z", None),
        ("2026-06-01T12:00:00+99:99", None),
        ("2026-06-01T12:00:00x5Z", None),
        # What they refuse, or what another client wrote elsewhere.
        ("2026-06-01T12:00:00", None),
        ("tomorrow", None),
        ("", None),
        (None, None),
        (7, None),
        (NOON, None),
    ],
)
def test_what_is_a_moment(written: Any, moment: datetime | None) -> None:
    assert moment_of(written) == moment


@given(st.text(alphabet="0123456789-:.+TtZz "))
def test_no_text_is_more_than_a_moment(written: str) -> None:
    found = moment_of(written)
    assert found is None or found.tzinfo is not None
