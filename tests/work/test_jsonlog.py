"""Log lines are JSON, whatever a call gives, and say what is asked of them."""

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.kube.objects import Key
from bulkhead.work.jsonlog import JsonFormatter
from syncer.logs import about


def _line(extra: dict[str, Any], *, error: bool = False, **always: str) -> dict[str, Any]:
    record = logging.makeLogRecord({"msg": "hello %s", "args": ("you",), "levelno": 20, "levelname": "INFO", "name": "syncer"})
    record.created, record.msecs = 0.25, 250.0
    record.__dict__.update(extra)
    if error:
        try:
            _ = {}["broken"]
        except KeyError:
            record.exc_info = sys.exc_info()
    text = JsonFormatter(always).format(record)
    assert "\n" not in text
    found: dict[str, Any] = json.loads(text)
    return found


def test_a_line_has_the_object_that_it_is_about() -> None:
    assert _line(about("Pod", Key("ns", "web"), why="test"), tenant="acme") == {
        "time": "1970-01-01T00:00:00.250Z",
        "level": "info",
        "tenant": "acme",
        "logger": "syncer",
        "message": "hello you",
        "kind": "Pod",
        "object": "ns/web",
        "detail": {"why": "test"},
    }
    assert "detail" not in _line(about("Pod", Key("ns", "web")))


def test_an_exception_is_a_field() -> None:
    assert "KeyError: 'broken'" in _line({}, error=True)["error"]


@pytest.mark.parametrize("text", ["\ud800", "half \udfff of a pair"])
def test_text_that_is_not_unicode_loses_no_line(text: str) -> None:
    found = _line({"object": text, "detail": {"why": text}}, tenant="acme")
    assert (found["object"], found["detail"], found["message"]) == (text, {"why": text}, "hello you")


def test_what_json_does_not_know_is_written_as_text() -> None:
    assert _line({"detail": {"key": Path("a")}})["detail"] == {"key": "a"}


_EXTRA = st.dictionaries(
    st.sampled_from(["time", "level", "tenant", "logger", "kind", "retry", "odd"]),
    st.text(max_size=9)
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.binary()
    | st.none(),
)


@given(_EXTRA)
def test_no_extra_replaces_a_field_of_the_line(extra: dict[str, Any]) -> None:
    found = _line(extra, tenant="acme")
    assert (found["time"], found["level"], found["tenant"], found["logger"]) == (
        "1970-01-01T00:00:00.250Z",
        "info",
        "acme",
        "syncer",
    )
    for name in ("kind", "retry", "odd"):
        kept = isinstance(extra.get(name), str | int | float)
        assert found.get(name) == (extra[name] if kept else None)
