"""Figures from the metrics of a plane's API server: answers by status, latency, requests under way. Pure.

    /metrics, twice ──> requests in between, by duration ──> the time that 99 % of them needed

A tenant may define any number of kinds, each with a histogram for each verb: they are added up, and nothing of their names is
kept. Watches and streams last as long as their clients want, and are left out.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from controller.plane.buckets import Buckets, slowest_of_most

STATUSES: Final = ("2xx", "4xx", "429", "5xx")
WAYS: Final = ("read", "write")
# Fewer requests than this say nothing about the slowest of a hundred.
LEAST_REQUESTS: Final = 20
WINDOW_SECONDS: Final = 300.0
_WAY_OF_VERB: Final = {
    b"GET": "read",
    b"LIST": "read",
    b"POST": "write",
    b"PUT": "write",
    b"PATCH": "write",
    b"APPLY": "write",
    b"DELETE": "write",
    b"DELETECOLLECTION": "write",
}
_WAY_OF_KIND: Final = {b"readOnly": "read", b"mutating": "write"}
_REQUESTS: Final = b"apiserver_request_total{"
_SECONDS: Final = b"apiserver_request_duration_seconds_bucket{"
_INFLIGHT: Final = b"apiserver_current_inflight_requests{"
_CODE: Final = re.compile(rb'\bcode="([2345])([0-9]{2})"')
_VERB: Final = re.compile(rb'[{,]verb="([A-Z]{1,20})"')
_BOUND: Final = re.compile(rb'[{,]le="([0-9]{1,9}(?:\.[0-9]{1,9})?|\+Inf)"')
_KIND: Final = re.compile(rb'^apiserver_current_inflight_requests\{request_kind="(readOnly|mutating)"\} ')
_NUMBER: Final = re.compile(rb" ([0-9]{1,15}(?:\.[0-9]{1,9})?(?:e\+[0-9]{1,2})?)$")
_MOST_BUCKETS: Final = 64
# A count beyond this is not one, and would make sums that a float cannot hold.
_MOST: Final = 1 << 53


@dataclass(frozen=True, slots=True)
class ApiFigures:
    """What one look at an API server's metrics gave; counts are since it started."""

    at: float  # monotonic seconds
    answers: Mapping[str, int] = field(default_factory=dict)  # by status: one of STATUSES
    seconds: Mapping[str, Buckets] = field(default_factory=dict)  # by way: one of WAYS
    inflight: Mapping[str, int] = field(default_factory=dict)  # by way

    @property
    def total(self) -> int:
        """All answers since the API server started."""
        return sum(self.answers.values())


def read(text: bytes, at: float) -> ApiFigures:
    """The figures in a text of metrics; what is missing or malformed is left out."""
    answers = dict.fromkeys(STATUSES, 0)
    seconds: dict[str, dict[float, int]] = {way: {} for way in WAYS}
    inflight: dict[str, int] = {}
    for line in text.splitlines():
        if line.startswith(_SECONDS):
            _add_bucket(seconds, line)
        elif line.startswith(_REQUESTS):
            code = _CODE.search(line)
            if code is not None:
                status = "429" if code[1] + code[2] == b"429" else f"{'2' if code[1] in b'23' else code[1].decode()}xx"
                answers[status] += _number(line)
        elif line.startswith(_INFLIGHT):
            kind = _KIND.match(line)
            if kind is not None:
                inflight[_WAY_OF_KIND[kind[1]]] = _number(line)
    return ApiFigures(at, answers, {way: tuple(sorted(found.items())) for way, found in seconds.items()}, inflight)


def kept(history: Sequence[ApiFigures], new: ApiFigures) -> tuple[ApiFigures, ...]:
    """The looks to compare with later: those of the last minutes, and none from before a restart of the API server."""
    if history and new.total < history[-1].total:
        return (new,)
    return (*(figures for figures in history if new.at - figures.at <= WINDOW_SECONDS), new)


def slowest(history: Sequence[ApiFigures], way: str) -> float | None:
    """The seconds that 99 % of the requests needed between the first and the last look; None if there were too few."""
    if len(history) < 2:
        return None
    return slowest_of_most(history[0].seconds.get(way, ()), history[-1].seconds.get(way, ()), least=LEAST_REQUESTS)


def answered(before: ApiFigures | None, new: ApiFigures) -> dict[str, int]:
    """The answers since the look before, by status; all of them if the API server has started since."""
    if before is None or new.total < before.total:
        before = ApiFigures(new.at)
    return {status: max(0, number - before.answers.get(status, 0)) for status, number in new.answers.items()}


def _add_bucket(seconds: dict[str, dict[float, int]], line: bytes) -> None:
    verb, bound = _VERB.search(line), _BOUND.search(line)
    way = _WAY_OF_VERB.get(verb[1]) if verb is not None else None
    if way is None or bound is None:
        return
    counts, upper = seconds[way], float(bound[1])
    if upper in counts or len(counts) < _MOST_BUCKETS:
        counts[upper] = counts.get(upper, 0) + _number(line)


def _number(line: bytes) -> int:
    found = _NUMBER.search(line)
    number = float(found[1]) if found is not None else 0.0
    return int(number) if number < _MOST else 0
