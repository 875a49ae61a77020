"""When an event was seen last, by each of the shapes that events have. Pure."""

from typing import Any

import pytest

from bulkhead.api.eventtimes import last_seen

FIRST, LAST, OWN, AGAIN, MADE = (f"2026-01-01T00:00:0{at}Z" for at in range(5))


@pytest.mark.parametrize(
    ("event", "seen"),
    [
        ({"firstTimestamp": FIRST, "lastTimestamp": LAST, "metadata": {"creationTimestamp": MADE}}, LAST),
        ({"firstTimestamp": None, "lastTimestamp": None, "eventTime": OWN, "metadata": {"creationTimestamp": MADE}}, OWN),
        ({"lastTimestamp": None, "eventTime": OWN, "series": {"count": 2, "lastObservedTime": AGAIN}}, AGAIN),
        ({"firstTimestamp": FIRST}, FIRST),
        ({"metadata": {"creationTimestamp": MADE}}, MADE),
        ({}, ""),
        ({"series": 7, "lastTimestamp": 7, "eventTime": [], "metadata": "x"}, ""),
    ],
)
def test_each_shape_has_its_moment(event: dict[str, Any], seen: str) -> None:
    assert last_seen(event) == seen
