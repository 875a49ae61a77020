"""The runs side by side as one SVG: three panels, one above the other, each with its axes and one line for each run. Pure.

It needs no library: three step lines are a few paths, and the file stays small enough to review.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

from e2e.performance.fragmentation.figures import KINDS, waits
from e2e.performance.fragmentation.timeline import History

_WIDTH, _LEFT, _RIGHT = 860, 64, 24
_TOP, _HEIGHT, _BETWEEN = 60, 190, 72
# Colours that people who cannot distinguish red from green can tell apart, and dashes for print.
STYLES: Final = (("#0b5fa5", ""), ("#c2410c", "7 4"), ("#6b7280", "2 3"))
_TICKS: Final = (1, 2, 5)
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Panel:
    """One diagram: its title, its axes and their ranges, and a line for each run."""

    title: str
    across: str
    lines: Mapping[str, Sequence[Point]]
    most_x: float
    most_y: float


def panels(runs: Mapping[str, History]) -> tuple[Panel, ...]:
    """The panels of these runs."""
    first = next(iter(runs.values()))
    hours = first.horizon / 3600
    used = {name: [(sample.at / 3600, float(sample.used)) for sample in run.samples] for name, run in runs.items()}
    blocked = {name: [(sample.at / 3600, float(sample.blocked)) for sample in run.samples] for name, run in runs.items()}
    gangs = sum(1 for job in first.jobs if job.is_whole)
    started: dict[str, list[Point]] = {}
    for name, run in runs.items():
        minutes = sorted(item / 60 for item in waits(run, KINDS["whole_node_gangs"]).waited if item is not None)
        started[name] = [(0.0, 0.0), *((each, number + 1.0) for number, each in enumerate(minutes))]
    longest = max(points[-1][0] for points in started.values())
    most = max(y for points in blocked.values() for x, y in points if x <= hours)
    return (
        Panel("GPUs in use by workloads that run", "hours", used, hours, float(first.capacity)),
        Panel("Gangs that wait while enough GPUs are free in sum", "hours", blocked, hours, max(1.0, most)),
        Panel(
            f"Gangs on whole nodes that started within so long, of {gangs}",
            "minutes",
            started,
            max(1.0, longest),
            max(1.0, gangs),
        ),
    )


def svg(runs: Mapping[str, History], title: str) -> str:
    """The picture."""
    drawn = panels(runs)
    height = _TOP + len(drawn) * (_HEIGHT + _BETWEEN)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
        *_legend(list(runs)),
    ]
    for number, panel in enumerate(drawn):
        parts += _panel(panel, _TOP + 30 + number * (_HEIGHT + _BETWEEN))
    return "\n".join([*parts, "</svg>", ""])


def ticks(most: float) -> list[float]:
    """Four to nine round numbers, from zero to the end of the axis."""
    power = 10.0
    while power > most / 4:
        power /= 10
    step = max(step * scale for scale in (power, power * 10) for step in _TICKS if step * scale <= most / 4)
    return [step * number for number in range(int(most / step + 1e-9) + 1)]


def _legend(names: Sequence[str]) -> list[str]:
    parts, x = [], float(_LEFT)
    for name, (colour, dashes) in zip(names, STYLES, strict=False):
        parts.append(f'<path d="M{x:g} 44h28" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes or "none"}"/>')
        parts.append(f'<text x="{x + 34:g}" y="48">{escape(name)}</text>')
        x += 60 + 6.4 * len(name)
    return parts


def _panel(panel: Panel, top: int) -> list[str]:
    width = _WIDTH - _LEFT - _RIGHT
    bottom = top + _HEIGHT

    def across(x: float) -> float:
        return round(_LEFT + width * x / panel.most_x, 1)

    def up(y: float) -> float:
        return round(bottom - _HEIGHT * y / panel.most_y, 1)

    parts = [f'<text x="{_LEFT}" y="{top - 10}" font-weight="bold">{escape(panel.title)}</text>']
    for y in ticks(panel.most_y):
        parts.append(f'<path d="M{_LEFT} {up(y):g}h{width}" stroke="#e5e7eb"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{up(y) + 4:g}" text-anchor="end">{y:g}</text>')
    for x in ticks(panel.most_x):
        parts.append(f'<path d="M{across(x):g} {bottom}v4" stroke="#374151"/>')
        parts.append(f'<text x="{across(x):g}" y="{bottom + 17}" text-anchor="middle">{x:g}</text>')
    parts.append(f'<text x="{_LEFT + width}" y="{bottom + 32}" text-anchor="end" fill="#374151">{escape(panel.across)}</text>')
    parts.append(f'<path d="M{_LEFT} {top}V{bottom}h{width}" fill="none" stroke="#374151"/>')
    for points, (colour, dashes) in zip(panel.lines.values(), STYLES, strict=False):
        way = _steps([(across(x), up(y)) for x, y in points if x <= panel.most_x], float(_LEFT + width))
        dash = f' stroke-dasharray="{dashes}"' if dashes else ""
        parts.append(f'<path d="{way}" fill="none" stroke="{colour}" stroke-width="1.6" stroke-linejoin="round"{dash}/>')
    return parts


def _steps(points: Sequence[Point], end: float) -> str:
    """A step line; changes closer together than a pixel are drawn once."""
    way, last = [], None
    for x, y in points:
        if last is None:
            way.append(f"M{x:g} {y:g}")
        elif y != last:
            way.append(f"H{x:g}V{y:g}")
        last = y
    return "".join([*way, f"H{end:g}"])
