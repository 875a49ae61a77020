"""Answers, latency and load in the metrics of a plane's API server, whatever its text has in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.plane.apifigures import STATUSES, WINDOW_SECONDS, ApiFigures, answered, kept, read, slowest

LABELS = b'component="apiserver",dry_run="",group="",resource="pods",scope="namespace",subresource="",'


def bucket(verb: str, le: str, count: int) -> bytes:
    return b'apiserver_request_duration_seconds_bucket{%sverb="%s",version="v1",le="%s"} %d' % (
        LABELS, verb.encode(), le.encode(), count,
    )  # fmt: skip


def requests(verb: str, code: int, count: str) -> bytes:
    return b'apiserver_request_total{code="%d",%sverb="%s",version="v1"} %s' % (code, LABELS, verb.encode(), count.encode())


def test_answers_are_added_up_by_class_of_status() -> None:
    text = b"\n".join(
        [
            b"# HELP apiserver_request_total Counter",
            requests("GET", 200, "7"),
            requests("LIST", 304, "1"),
            requests("POST", 409, "2"),
            requests("POST", 429, "3"),
            requests("PUT", 503, "1.5e+06"),
        ]
    )
    assert read(text, 1.0).answers == {"2xx": 8, "4xx": 2, "429": 3, "5xx": 1_500_000}


def test_watches_and_streams_count_for_no_latency() -> None:
    text = b"\n".join(bucket(verb, "+Inf", 5) for verb in ("GET", "LIST", "WATCH", "CONNECT", "APPLY", "WATCHLIST"))
    seconds = read(text, 1.0).seconds
    assert {way: found[-1][1] for way, found in seconds.items()} == {"read": 10, "write": 5}


def test_requests_under_way_are_told_apart() -> None:
    text = (
        b'apiserver_current_inflight_requests{request_kind="mutating"} 4\n'
        b'apiserver_current_inflight_requests{request_kind="readOnly"} 9'
    )
    assert read(text, 1.0).inflight == {"write": 4, "read": 9}


def looks(*counts: tuple[int, int], verb: str = "GET") -> list[ApiFigures]:
    """Looks a minute apart, each with the requests up to 0.1 s and all of them."""
    return [
        read(b"\n".join([bucket(verb, "0.1", fast), bucket(verb, "1", total), bucket(verb, "+Inf", total)]), 60.0 * at)
        for at, (fast, total) in enumerate(counts)
    ]


def test_latency_is_that_of_the_requests_in_between() -> None:
    before, after = looks((0, 1000), (100, 1100))
    assert slowest([before], "read") is None
    found = slowest([before, after], "read")
    assert found is not None
    assert found <= 0.1, "the slow thousand was before"
    assert slowest([before, after], "write") is None
    slow = slowest(looks((1000, 1000), (1050, 1100)), "read")
    assert slow is not None
    assert 0.1 < slow <= 1


def test_a_few_requests_say_nothing() -> None:
    assert slowest(looks((0, 0), (19, 19)), "read") is None
    assert slowest(looks((0, 0), (20, 20)), "read") is not None


def total(number: int, at: float = 0.0) -> ApiFigures:
    return read(requests("GET", 200, str(number)), at)


def test_an_api_server_that_started_again_counts_from_zero() -> None:
    assert answered(total(100), total(130))["2xx"] == 30
    assert answered(total(100), total(5))["2xx"] == 5
    assert kept([total(100)], total(5)) == (total(5),)


def test_only_looks_of_the_last_minutes_are_kept() -> None:
    old, recent, new = total(1, 0.0), total(2, 60.0), total(3, WINDOW_SECONDS + 1)
    assert kept([old, recent], new) == (recent, new)


@pytest.mark.parametrize(
    "line",
    [
        requests("GET", 200, "-5"),
        requests("GET", 200, "NaN"),
        requests("GET", 200, "9e+99"),
        requests("GET", 999, "5"),
        bucket("GET", "1e400", 5),
        bucket("GET", "nan", 5),
        b'apiserver_current_inflight_requests{request_kind="mutating"} +Inf',
        b'apiserver_current_inflight_requests{request_kind="mutating",x="y"} 7',
    ],
)
def test_a_number_that_is_none_counts_as_nothing(line: bytes) -> None:
    found = read(line, 0.0)
    assert (set(found.answers.values()), set(found.inflight.values()) <= {0}) == ({0}, True)
    assert not any(count for buckets in found.seconds.values() for _, count in buckets)


def test_a_tenants_names_are_not_taken_for_labels_of_ours() -> None:
    line = (
        b'apiserver_request_duration_seconds_bucket{group="verb=GET",resource="le=1",verb="POST",version="v1",le="+Inf"} 3\n'
        b'apiserver_request_total{code="200",group="code=500.example.org",verb="GET"} 3'
    )
    found = read(line, 0.0)
    assert (found.seconds["read"], found.seconds["write"], found.answers["5xx"]) == ((), ((float("inf"), 3),), 0)


def test_however_many_buckets_there_are_few_are_kept() -> None:
    text = b"\n".join(bucket("GET", str(number), 1) for number in range(5000))
    assert len(read(text, 0.0).seconds["read"]) == 64


@given(st.binary(max_size=300))
def test_no_text_breaks_the_reader(text: bytes) -> None:
    for prefix in (
        b"",
        b"apiserver_request_total{",
        b'apiserver_request_duration_seconds_bucket{verb="GET",le="',
        b"apiserver_current_inflight_requests{",
    ):
        assert set(read(prefix + text, 0.0).answers) == set(STATUSES)
