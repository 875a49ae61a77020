"""The picture of the benchmark of planes that survive: seconds by size, and the failed requests of clients. Pure.

left: snapshot and restore in seconds against MiB, both on a log scale, with their aims
right: for each thing that happens to members, the requests that failed, and those that failed again with one retry
"""

import math
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from e2e.performance.durable_figures import CONTROL, DELETED, FORCED, LOST, ROLLOUT, Readings, summarise

_WIDTH, _HEIGHT = 960, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 440, 90, 330
_BARS, _BARS_END, _ROW = 690, 900, 44
_COLOURS = {"snapshot": "#1f77b4", "restore": "#d62728"}
_TIMES = {"snapshot": "seconds", "restore": "ready_s"}
# Size in MiB and seconds.
_AIMS = {"snapshot": (500.0, 60.0), "restore": (100.0, 60.0)}
_MIB, _SECONDS = (0.5, 1000.0), (0.5, 200.0)
_EVENTS = {
    DELETED: "a pod deleted, each in turn",
    FORCED: "a pod deleted without grace",
    LOST: "a volume lost",
    ROLLOUT: "all started again in turn",
    CONTROL: "control: a plane of one",
}


def plot(readings: Readings) -> str:
    """An SVG; what was not measured is not in it."""
    found = summarise(readings)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        '<text x="16" y="28" font-size="17">Planes that survive: seconds by size, and failed requests</text>',
        *_axes(),
        *_curves(found),
        *_bars({name: found[name] for name in _EVENTS if "failed" in found.get(name, {})}),
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _axes() -> Iterable[str]:
    for mib in (1, 10, 100, 500):
        x = _x(mib)
        yield f'<line x1="{x}" y1="{_TOP}" x2="{x}" y2="{_BOTTOM}" stroke="#ddd"/>'
        yield f'<text x="{x}" y="{_BOTTOM + 18}" text-anchor="middle" fill="#555">{mib} MiB</text>'
    for seconds in (1, 10, 60, 200):
        y = _y(seconds)
        yield f'<line x1="{_LEFT}" y1="{y}" x2="{_RIGHT}" y2="{y}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end" fill="#555">{seconds} s</text>'


def _curves(found: Mapping[str, Any]) -> Iterable[str]:
    for place, (part, colour) in enumerate(_COLOURS.items()):
        left = 16 + 220 * place
        label = "snapshot taken" if part == "snapshot" else "restored, until Ready"
        yield f'<circle cx="{left + 5}" cy="56" r="5" fill="{colour}"/><text x="{left + 16}" y="61">{label}</text>'
        points = [(_x(one["mib"]), _y(one[_TIMES[part]]), one) for one in found.get(part, {}).values()]
        if points:
            line = " ".join(f"{x},{y}" for x, y, _ in points)
            yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
        for x, y, one in points:
            yield f'<circle cx="{x}" cy="{y}" r="4.5" fill="{colour}"/>'
            yield f'<text x="{x}" y="{y - 9}" text-anchor="middle" font-size="11" fill="#555">{one[_TIMES[part]]:g}</text>'
        aim = _AIMS[part]
        x, y = _x(aim[0]), _y(aim[1])
        corner = f"M{x - 9} {y} H{x + 9} M{x} {y} v8"
        yield f'<path d="{corner}" stroke="{colour}" stroke-width="2" fill="none"><title>aim</title></path>'


def _bars(events: Mapping[str, Mapping[str, float]]) -> Iterable[str]:
    most = max((event["failed"] for event in events.values()), default=0) or 1
    yield f'<text x="{_RIGHT + 40}" y="61" fill="#555">failed requests: pale without a retry, full with one</text>'
    for row, (name, event) in enumerate(events.items()):
        y = _TOP + _ROW * row
        yield f'<text x="{_RIGHT + 40}" y="{y + 14}">{escape(_EVENTS[name])}</text>'
        for colour, key in (("#f2b8a0", "failed"), ("#c0392b", "failed_retry")):
            width = round((_BARS_END - _BARS) * event[key] / most, 1)
            yield f'<rect x="{_BARS}" y="{y}" width="{width}" height="18" fill="{colour}"/>'
        shown = f"{event['failed']:g}, {event['failed_retry']:g} of {event['requests']:g}"
        yield f'<text x="{_BARS}" y="{y + 32}" font-size="11" fill="#555">{shown}</text>'


def _x(mib: float) -> float:
    return round(_LEFT + _share(mib, _MIB) * (_RIGHT - _LEFT), 1)


def _y(seconds: float) -> float:
    return round(_BOTTOM - _share(seconds, _SECONDS) * (_BOTTOM - _TOP), 1)


def _share(value: float, bounds: tuple[float, float]) -> float:
    """Where a value lies on a log scale, 0 to 1."""
    low, high = bounds
    return math.log(min(high, max(low, value)) / low) / math.log(high / low)
