"""When an Event was seen last. Pure.

Events of core/v1 have `lastTimestamp`. Those of events.k8s.io, such as the scheduler's, have `eventTime` instead, and a
`series` once they repeat; read as core/v1 their `lastTimestamp` is null.
"""

from collections.abc import Mapping
from typing import Any

from bulkhead.api.untrusted import mapping, text


def last_seen(event: Mapping[str, Any]) -> str:
    """The moment, as the API writes it; empty if the event has none."""
    made = mapping(event.get("metadata")).get("creationTimestamp")
    repeated = mapping(event.get("series")).get("lastObservedTime")
    moments = map(text, (repeated, event.get("lastTimestamp"), event.get("eventTime"), event.get("firstTimestamp"), made))
    return next((moment for moment in moments if moment), "")
