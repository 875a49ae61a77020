"""The picture of the co-tenancy benchmark: by storm, the p99 of the worst neighbour before and during, on a log scale. Pure."""

import math
from collections.abc import Sequence

from e2e.performance.cotenancy_figures import Reading, summarise

_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 860, 210, 60, 46, 96
_COLOURS = {"planes": "#1f77b4", "namespaces": "#d62728"}
_SUBTITLE = "p99 of the API requests of the worst neighbour: open circle before, full circle during"
_FLOOR_MS, _CEILING_MS = 1.0, 10_000.0


def plot(readings: Sequence[Reading], tenants: int) -> str:
    """An SVG."""
    found = summarise(readings)
    storms = list(dict.fromkeys(reading.storm for reading in readings))
    ways = [way for way in _COLOURS if way in found]
    height = _TOP + _ROW * len(storms) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="16" y="28" font-size="17">What {tenants - 1} tenants notice while another one storms</text>',
        f'<text x="16" y="48" fill="#555">{_SUBTITLE}</text>',
    ]
    for place, way in enumerate(ways):
        x = 16.0 + 260 * place
        parts.append(f'<circle cx="{x + 5}" cy="66" r="5" fill="{_COLOURS[way]}"/>')
        label = "a plane for each tenant" if way == "planes" else "a namespace for each tenant"
        parts.append(f'<text x="{x + 16}" y="71">{label}</text>')
    bottom = _TOP + _ROW * len(storms)
    for power in range(5):
        x = _x(10.0**power)
        parts.append(f'<line x1="{x}" y1="{_TOP - 8}" x2="{x}" y2="{bottom}" stroke="#ddd"/>')
        shown = f"{10**power} ms" if power < 3 else f"{10 ** (power - 3)} s"
        parts.append(f'<text x="{x}" y="{bottom + 18}" text-anchor="middle" fill="#555">{shown}</text>')
    for row, storm in enumerate(storms):
        y = _TOP + _ROW * row + 12
        parts.append(f'<text x="16" y="{y + 10}">{storm}</text>')
        for place, way in enumerate(ways):
            if storm in found[way]:
                parts += _line(found[way][storm], y + 14 * place, _COLOURS[way])
    return "\n".join([*parts, "</svg>"]) + "\n"


def _line(figures: dict[str, float], y: float, colour: str) -> list[str]:
    before, during = _x(figures["p99_before_ms"]), _x(figures["p99_during_ms"])
    errors = f" {figures['errors']:.0f} errors" if figures["errors"] else ""
    shown = f"{figures['p99_during_ms']:.0f}{errors}"
    return [
        f'<line x1="{before}" y1="{y}" x2="{during}" y2="{y}" stroke="{colour}" stroke-width="2"/>',
        f'<circle cx="{before}" cy="{y}" r="4" fill="white" stroke="{colour}" stroke-width="2"/>',
        f'<circle cx="{during}" cy="{y}" r="4.5" fill="{colour}"/>',
        f'<text x="{max(before, during) + 9}" y="{y + 4}" font-size="11" fill="#555">{shown}</text>',
    ]


def _x(milliseconds: float) -> float:
    bounded = min(_CEILING_MS, max(_FLOOR_MS, milliseconds))
    share = math.log10(bounded / _FLOOR_MS) / math.log10(_CEILING_MS / _FLOOR_MS)
    return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)
