"""Scales and elements of SVG for the report's pictures. Pure.

Colours come from classes, so that a page in dark mode changes them. No meaning hangs on a colour alone: lines differ in their
dashes, failures are crosses, restarts are triangles.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape, quoteattr

FASTEST: Final = 0.001
SLOWEST: Final = 5.0  # the deadline of a probe, in seconds
GRID: Final = ((0.01, "10 ms"), (0.1, "100 ms"), (1.0, "1 s"))

# The colours of the page, for pictures that stand alone. Blue and orange differ for nearly all eyes, and in lightness too.
STYLE: Final = """
svg { color-scheme: light dark; font-family: system-ui, "Helvetica Neue", Arial, sans-serif; }
.ground { fill: #ffffff; } .ink { fill: #16212c; } .soft { fill: #5b6875; } .grid { stroke: #d8dee5; stroke-width: 1; }
.frame { fill: none; stroke: #c2cad3; stroke-width: 1; } .frame-target { fill: none; stroke: #16212c; stroke-width: 2; }
.fault { fill: #64748b; fill-opacity: .26; } .recovery { fill: #64748b; fill-opacity: .12; }
.p50 { fill: none; stroke: #0b5fa5; stroke-width: 1.6; }
.p99 { fill: none; stroke: #c2410c; stroke-width: 1.6; stroke-dasharray: 4 2; }
.aim { stroke: #5b6875; stroke-width: 1; stroke-dasharray: 1 3; } .error { stroke: #8a0f5c; stroke-width: 2; fill: none; }
.restart { fill: #16212c; } .away { fill: #8a0f5c; } .band { fill: #0b5fa5; }
@media (prefers-color-scheme: dark) {
  .ground { fill: #10171f; } .ink { fill: #e8eef4; } .soft { fill: #9fb0c0; } .grid { stroke: #2a3743; }
  .frame { stroke: #3b4a58; } .frame-target { stroke: #e8eef4; } .fault, .recovery { fill: #9fb0c0; }
  .p50 { stroke: #6db8f7; } .p99 { stroke: #ffa25f; } .aim { stroke: #9fb0c0; } .error { stroke: #ff8fd0; }
  .restart { fill: #e8eef4; } .away { fill: #ff8fd0; } .band { fill: #6db8f7; }
}
"""


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear scale from values to pixels."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return round(self.begin + share * (self.end - self.begin), 1)


def height_of(seconds: float, top: float, bottom: float) -> float:
    """Where a latency lies between two heights, on a logarithmic scale; what is slower or faster lies on the edge."""
    low, high = math.log10(FASTEST), math.log10(SLOWEST)
    share = (math.log10(min(max(seconds, FASTEST), SLOWEST)) - low) / (high - low)
    return round(bottom - share * (bottom - top), 1)


def line(points: Sequence[tuple[float, float]], kind: str) -> str:
    """A path through the points; nothing without two of them."""
    if len(points) < 2:
        return ""
    steps = " ".join(f"{_short(x)},{_short(y)}" for x, y in points)
    return f'<polyline class="{kind}" points="{steps}"/>'


def rect(x: float, y: float, width: float, height: float, kind: str, *, title: str = "") -> str:
    inner = f"<title>{escape(title)}</title>" if title else ""
    size = f'x="{_short(x)}" y="{_short(y)}" width="{_short(max(0.0, width))}" height="{_short(height)}"'
    return f'<rect class="{kind}" {size}>{inner}</rect>' if inner else f'<rect class="{kind}" {size}/>'


def rule(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{_short(x1)}" y1="{_short(y1)}" x2="{_short(x2)}" y2="{_short(y2)}"/>'


def text(
    x: float, y: float, words: str, kind: str = "ink", *, size: int = 11, anchor: str = "start", bold: bool = False
) -> str:
    weight = ' font-weight="600"' if bold else ""
    where = f'x="{_short(x)}" y="{_short(y)}" font-size="{size}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {where}{weight}>{escape(words)}</text>'


def crosses(places: Iterable[float], y: float) -> str:
    """A cross for each failed request, in one path; those that would lie on each other are drawn once."""
    steps = "".join(f"M{_short(x - 3)} {_short(y - 3)}l6 6m0-6l-6 6" for x in _apart(places, 3.0))
    return f'<path class="error" d="{steps}"/>' if steps else ""


def triangles(places: Iterable[float], y: float) -> str:
    """A triangle for each restart, its tip on the line at `y`."""
    steps = "".join(f"M{_short(x)} {_short(y - 8)}l4 8h-8z" for x in _apart(places, 3.0))
    return f'<path class="restart" d="{steps}"/>' if steps else ""


def picture(width: float, height: float, parts: Iterable[str], label: str, *, style: str = "") -> str:
    """A whole SVG; with a style it stands alone."""
    inner = "".join(part for part in parts if part)
    head = f'viewBox="0 0 {_short(width)} {_short(height)}" role="img" aria-label={quoteattr(label)}'
    sheet = f"<style>{style}</style>" if style else ""
    return f'<svg xmlns="http://www.w3.org/2000/svg" {head}>{sheet}{inner}</svg>'


def _apart(places: Iterable[float], least: float) -> list[float]:
    found: list[float] = []
    for place in sorted(places):
        if not found or place - found[-1] >= least:
            found.append(place)
    return found


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
