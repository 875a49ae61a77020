"""What a recorder knows of its predecessor's events."""

from typing import Any, cast

from bulkhead.kube.objects import Key
from syncer.events import Recorder
from tests.fakeclock import FakeClock


def test_what_an_earlier_process_told_is_passed_over_once_and_then_is_news() -> None:
    nothing = cast("Any", None)
    recorder = Recorder(nothing, nothing, FakeClock(), busy=lambda: False)
    told, other = Key("team", "web.1"), Key("team", "web.2")
    assert not recorder._written_earlier(told)
    recorder._earlier = {hash(told)}
    assert not recorder._written_earlier(other)
    assert recorder._written_earlier(told)
    assert not recorder._written_earlier(told)
