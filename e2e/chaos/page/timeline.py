"""The whole run in one picture: a row for each tenant and the host, a shaded column for each experiment. Pure.

In each row a block below the line is as high as the slowest request of its time, and a bar with crosses shows the time in
which requests failed. So a fault that stays inside its tenant shows in one row of its column.
"""

from typing import Final

from e2e.chaos.history import HOST, Probe, Span
from e2e.chaos.judgement import Judgement
from e2e.chaos.measures import gaps, restart_times
from e2e.chaos.page import drawing
from e2e.chaos.percentiles import percentile

_LEFT, _WIDTH, _ROW, _HEAD, _FOOT, _RIGHT = 118, 830, 30, 34, 30, 12
_BINS: Final = 170


def inline(judged: Judgement) -> str:
    """For the page, whose style it uses."""
    return _drawn(judged, "")


def standalone(judged: Judgement) -> str:
    """As a file of its own."""
    return _drawn(judged, drawing.STYLE) + "\n"


def _drawn(judged: Judgement, style: str) -> str:
    history, run = judged.history, judged.run
    spans = history.spans
    end = max([span.end for span in spans], default=history.end) + 8
    axis = drawing.Axis(run.baseline_begin, max(end, run.baseline_begin + 1), _LEFT, _LEFT + _WIDTH)
    shown = (*run.tenants, HOST)
    bottom = _HEAD + len(shown) * _ROW
    width, height = _LEFT + _WIDTH + _RIGHT, bottom + _FOOT
    parts = [drawing.rect(0, 0, width, height, "ground")] if style else []
    for number, span in enumerate(spans, 1):
        x = axis.at(span.begin)
        parts.append(drawing.rect(x, _HEAD - 8, axis.at(span.end) - x, bottom - _HEAD + 8, "recovery", title=span.experiment))
        middle = (x + axis.at(span.end)) / 2
        parts.append(drawing.text(middle, _HEAD - 14, str(number), bold=True, anchor="middle"))
    for place, owner in enumerate(shown):
        parts.append(_row(judged, owner, axis, _HEAD + place * _ROW))
    for seconds in _ticks(axis.high - axis.low):
        x = axis.at(axis.low + seconds)
        parts.append(drawing.text(x, bottom + 16, _clock(seconds), "soft", size=10, anchor="middle"))
    return drawing.picture(width, height, parts, "All tenants and the host over the whole run", style=style)


def _row(judged: Judgement, owner: str, axis: drawing.Axis, top: float) -> str:
    history = judged.history
    probes = history.probes(owner, axis.low, axis.high)
    bottom = top + _ROW - 4
    parts = [drawing.text(_LEFT - 8, bottom - 6, owner, size=12, anchor="end")]
    for span in history.spans:
        if span.target == owner:
            x = axis.at(span.begin)
            parts.append(
                drawing.rect(x, top, axis.at(span.end) - x, bottom - top, "fault", title=f"target of {span.experiment}")
            )
    parts.append(_blocks(probes, axis, top, bottom))
    for begin, end in gaps(probes, axis.high):
        x = axis.at(begin)
        seconds = end - begin
        parts.append(
            drawing.rect(x, top + 1, max(2.0, axis.at(end) - x), 6, "away", title=f"{owner}: no answer for {seconds:.1f} s")
        )
    failed = [axis.at(probe.at) for probe in probes if probe.error]
    parts.append(drawing.crosses(failed[:1], top + 4) if failed and not _is_ever_target(history.spans, owner) else "")
    parts.append(drawing.triangles((axis.at(at) for at in restart_times(history, axis.low, axis.high, owner)), bottom))
    parts.append(drawing.rule(_LEFT, bottom, _LEFT + _WIDTH, bottom, "grid"))
    return "".join(parts)


def _blocks(probes: list[Probe], axis: drawing.Axis, top: float, bottom: float) -> str:
    """The slowest answered request of each bin of time, as one path of bars."""
    width = (axis.high - axis.low) / _BINS
    bins: dict[int, list[float]] = {}
    for probe in probes:
        if not probe.error:
            bins.setdefault(int((probe.at - axis.low) / width), []).append(probe.seconds)
    step = _WIDTH / _BINS
    bars = []
    for number, values in sorted(bins.items()):
        height = bottom - drawing.height_of(percentile(values, 99), top + 8, bottom)
        bars.append(f"M{_LEFT + number * step:.1f} {bottom:.0f}v-{height:.1f}h{step - 0.6:.1f}v{height:.1f}z")
    return f'<path class="band" d="{"".join(bars)}"/>' if bars else ""


def _is_ever_target(spans: tuple[Span, ...], owner: str) -> bool:
    return any(span.target == owner for span in spans)


def _ticks(seconds: float) -> list[float]:
    step = next((size for size in (30, 60, 120, 300, 600, 1800, 3600) if seconds / size <= 12), 7200)
    return [float(at) for at in range(0, int(seconds) + 1, step)]


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
