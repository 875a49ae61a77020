"""One experiment as small multiples: a panel for its target, each other tenant and the host, over the same time. Pure.

Each panel has the latency of the requests over time on a logarithmic scale, a dotted line for what is aimed at, crosses for
failed requests, triangles for restarts, and the time of the fault and of the recovery shaded.
"""

import math
from typing import Final

from e2e.chaos.history import HOST, History, Probe, Span
from e2e.chaos.invariants import AIM
from e2e.chaos.judgement import Judgement
from e2e.chaos.measures import owners, restart_times
from e2e.chaos.page import drawing
from e2e.chaos.percentiles import percentile

COLUMNS: Final = 4
MARGIN_SECONDS: Final = 8.0  # of time before and after the experiment
_WIDTH, _HEIGHT, _TITLE, _GAP, _LEFT, _FOOT = 222, 78, 32, 14, 44, 20
_BINS: Final = 36


def experiment(judged: Judgement, span: Span) -> str:
    """The picture of one experiment."""
    history = judged.history
    first, last = span.begin - MARGIN_SECONDS, span.end + MARGIN_SECONDS
    probed = [span.target] if span.target in (*history.tenants, HOST) else []
    shown = [*probed, *owners(history, span)]
    rows = math.ceil(len(shown) / COLUMNS)
    step = _TITLE + _HEIGHT + _GAP
    parts = []
    for place, owner in enumerate(shown):
        x, y = _LEFT + (place % COLUMNS) * (_WIDTH + _GAP), (place // COLUMNS) * step
        parts.append(_panel(judged, span, owner, (first, last), (x, y), scaled=place % COLUMNS == 0))
    bottom = rows * step
    for column in range(min(COLUMNS, len(shown))):
        x = _LEFT + column * (_WIDTH + _GAP)
        axis = drawing.Axis(first, last, x, x + _WIDTH)
        parts.append(drawing.text(axis.at(span.begin), bottom + 4, "0 s", "soft", size=10, anchor="middle"))
        length = f"{span.end - span.begin:.0f} s"
        parts.append(drawing.text(axis.at(span.end), bottom + 4, length, "soft", size=10, anchor="middle"))
    width = _LEFT + COLUMNS * (_WIDTH + _GAP)
    label = f"Latency and failures of {len(shown)} APIs during the experiment {span.experiment}"
    return drawing.picture(width, bottom + _FOOT - 8, parts, label)


def _panel(
    judged: Judgement, span: Span, owner: str, time: tuple[float, float], corner: tuple[float, float], *, scaled: bool
) -> str:
    history, (x, y) = judged.history, corner
    top, bottom = y + _TITLE, y + _TITLE + _HEIGHT
    axis = drawing.Axis(*time, x, x + _WIDTH)
    probes = history.probes(owner, *time)
    is_target = owner == span.target
    parts = [drawing.text(x, y + 12, f"{owner} · the target" if is_target else owner, bold=is_target, size=12)]
    parts.append(drawing.text(x, y + 26, _summary(history, span, owner), "soft", size=10))
    lifted = span.lifted or span.end
    parts.append(drawing.rect(axis.at(span.begin), top, axis.at(lifted) - axis.at(span.begin), _HEIGHT, "fault"))
    parts.append(drawing.rect(axis.at(lifted), top, axis.at(span.end) - axis.at(lifted), _HEIGHT, "recovery"))
    for seconds, name in drawing.GRID:
        height = drawing.height_of(seconds, top, bottom)
        parts.append(drawing.rule(x, height, x + _WIDTH, height, "grid"))
        if scaled:
            parts.append(drawing.text(x - 4, height + 3, name, "soft", size=9, anchor="end"))
    if owner in judged.baseline and not is_target:
        height = drawing.height_of(AIM.over(judged.baseline[owner]), top, bottom)
        parts.append(drawing.rule(x, height, x + _WIDTH, height, "aim"))
    for percent, kind in ((50, "p50"), (99, "p99")):
        parts += [
            drawing.line([(axis.at(at), drawing.height_of(value, top, bottom)) for at, value in run], kind)
            for run in _lines(probes, time, percent)
        ]
    parts.append(drawing.crosses((axis.at(probe.at) for probe in probes if probe.error), top + 6))
    parts.append(drawing.triangles((axis.at(at) for at in restart_times(history, *time, owner)), bottom))
    parts.append(drawing.rect(x, top, _WIDTH, _HEIGHT, "frame-target" if is_target else "frame"))
    return "".join(parts)


def _summary(history: History, span: Span, owner: str) -> str:
    probes = history.probes(owner, span.begin, span.end)
    if not probes:
        return "not probed"
    errors = sum(bool(probe.error) for probe in probes)
    p99 = percentile([probe.seconds for probe in probes], 99) * 1000
    return f"{errors} of {len(probes)} failed · p99 {p99:.0f} ms"


def _lines(probes: list[Probe], time: tuple[float, float], percent: float) -> list[list[tuple[float, float]]]:
    """The percentile in each bin of time, as runs of neighbouring bins; a bin without an answer interrupts the line."""
    width = max(1.0, (time[1] - time[0]) / _BINS)
    bins: dict[int, list[float]] = {}
    for probe in probes:
        if not probe.error:
            bins.setdefault(int((probe.at - time[0]) / width), []).append(probe.seconds)
    runs: list[list[tuple[float, float]]] = []
    previous = -2
    for number in sorted(bins):
        if number != previous + 1:
            runs.append([])
        runs[-1].append((time[0] + (number + 0.5) * width, percentile(bins[number], percent)))
        previous = number
    return runs
