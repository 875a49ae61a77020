"""The report as one HTML file that needs nothing else: no script, no font and no style from elsewhere. Pure.

It is read by people who decide whether to trust a shared cluster, so the verdict comes first, then what was held against it,
then the whole run in one picture, then each experiment with its proof.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import jinja2

from e2e.chaos import report
from e2e.chaos.history import HOST, Quiet, Read
from e2e.chaos.invariants import TITLES
from e2e.chaos.judgement import Judgement
from e2e.chaos.measures import Neighbour
from e2e.chaos.page import drawing, panels, timeline
from e2e.chaos.rows import Row, totals

_TEMPLATE: Final = Path(__file__).with_name("page.html.j2")
_SHOWN_VIOLATIONS: Final = 40  # of one invariant


def html(judged: Judgement) -> str:
    """The page of a run."""
    spans = {span.experiment: span for span in judged.history.spans}
    experiments = [
        {
            "number": number,
            "row": row,
            "target": "the host" if row.target == HOST else row.target,
            "picture": panels.experiment(judged, spans[row.experiment]) if row.experiment in spans else "",
            "away": [*away(row), *afterwards(judged, row.experiment)],
        }
        for number, row in enumerate(judged.rows, 1)
    ]
    return _template().render(
        judged=judged,
        run=judged.run,
        style=drawing.STYLE,
        experiments=experiments,
        totals=totals(judged.rows),
        held=sum(row.passed for row in judged.rows),
        invariants=[_invariant(judged, name, title) for name, title in TITLES.items()],
        timeline=timeline.inline(judged),
        matrix=matrix(judged),
        bound=report.bound_text(judged.run.idle_cores, judged.bound),
        worst=worst(judged),
        commands=_commands(judged),
    )


def away(row: Row) -> list[str]:
    """What broke for the target and for how long, as sentences."""
    found = []
    broken = row.broken
    if broken is not None and broken.requests:
        found.append(
            f"{broken.errors} of {broken.requests} requests failed; reads were away for {broken.reads_away_s:.1f} s, "
            f"writes for {broken.writes_away_s:.1f} s, at most {broken.longest_away_s:.1f} s at a time."
        )
        if broken.first_error:
            found.append(f"First error: {broken.first_error[:160]}")
    if broken is not None and broken.work:
        found.append(f"{broken.failed_work} of {broken.work} pods, watches and jobs that began then failed.")
    if broken is not None and broken.restarts:
        found.append(f"{broken.restarts} restarts or replacements of its containers.")
    recovered = (
        "It did not recover." if row.recovered_s is None else f"It worked again {row.recovered_s:.1f} s after the fault."
    )
    went_on = "Its running pods went on." if row.pods_went_on else "Its running pods did NOT all go on."
    return [*found, f"{recovered} {went_on}"]


def afterwards(judged: Judgement, experiment: str) -> list[str]:
    """What was seen once the target had recovered, as sentences."""
    found = []
    for quiet in judged.history.all(Quiet):
        if quiet.experiment == experiment:
            wrote = "nothing" if not quiet.writes else ", ".join(quiet.writes[:3])
            window = f"in {quiet.seconds:.0f} s without work the platform wrote {wrote} for {quiet.tenant}"
            found.append(f"Converged after {quiet.converged:.0f} s; {window}.")
    reads = [read for read in judged.history.all(Read) if read.experiment == experiment]
    if reads:
        owners = len({read.tenant for read in reads})
        found.append(f"{len(reads)} keys of {owners} tenants were read back and compared with what was acknowledged.")
    return found


def matrix(judged: Judgement) -> list[dict[str, Any]]:
    """A line for each experiment, a cell for each tenant and the host."""
    lines = []
    for number, row in enumerate(judged.rows, 1):
        cells = []
        for owner in (*judged.run.tenants, HOST):
            if owner == row.target:
                seconds = row.broken.longest_away_s if row.broken else 0.0
                cells.append({"kind": "target", "text": f"{seconds:.1f} s away", "title": "the target"})
            else:
                cells.append(_cell(row.neighbours.get(owner)))
        lines.append({"number": number, "row": row, "cells": cells})
    return lines


def worst(judged: Judgement) -> Mapping[str, Any]:
    """The neighbour whose p99 lay highest over what is aimed at."""
    noticed = [(row, owner, item) for row in judged.rows for owner, item in row.neighbours.items()]
    if not noticed:
        return {}
    row, owner, item = max(noticed, key=lambda found: found[2].p99_ms / found[2].aim_ms)
    return {"experiment": row.title, "owner": owner, "item": item, "within": item.p99_ms <= item.aim_ms}


def _cell(item: Neighbour | None) -> dict[str, str]:
    if item is None:
        return {"kind": "unseen", "text": "?", "title": "not observed"}
    title = f"p99 {item.p99_ms:.0f} ms, baseline {item.baseline_p99_ms:.0f} ms, aim {item.aim_ms:.0f} ms"
    if item.errors or item.restarts:
        return {"kind": "harmed", "text": f"✗ {item.errors} err, {item.restarts} restarts", "title": title}
    kind = "within" if item.p99_ms <= item.aim_ms else "over"
    return {"kind": kind, "text": f"{item.p99_ms:.0f} ms" + ("" if kind == "within" else " ▲"), "title": title}


def _invariant(judged: Judgement, name: str, title: str) -> dict[str, Any]:
    own = [item for item in judged.violations if item.invariant == name]
    return {"name": name, "title": title, "count": len(own), "shown": own[:_SHOWN_VIOLATIONS]}


def _commands(judged: Judgement) -> list[str]:
    return [judged.run.command] if judged.run.command else []


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(_TEMPLATE.read_text())
