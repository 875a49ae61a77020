"""What a run leaves behind in build/results: its history, chaos.json, JUnit's chaos.xml and the page chaos.html."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from e2e.chaos import judgement, kept, report
from e2e.chaos.history import Record, time_of
from e2e.chaos.judgement import Judgement
from e2e.chaos.page import document
from e2e.machine import RESULTS

HISTORY: Final = RESULTS / "chaos-history.jsonl.gz"


def write(records: Iterable[Record], note: Callable[[str], None], folder: Path = RESULTS) -> Judgement:
    """Keep the history first, then judge it and write what was found."""
    ordered = sorted(records, key=time_of)
    folder.mkdir(parents=True, exist_ok=True)
    history = folder / HISTORY.name
    kept.keep(ordered, history)
    note(f"judging {len(ordered)} records")
    judged = judgement.judge(ordered)
    (folder / "chaos.json").write_text(json.dumps(report.as_json(judged), indent=2) + "\n")
    (folder / "chaos.xml").write_text(report.as_junit(judged))
    (folder / "chaos.html").write_text(document.html(judged))
    print(report.as_text(judged))
    print(report.bound_text(judged.run.idle_cores, judged.bound))
    print(f"{'passed' if judged.passed else 'FAILED'}; {folder / 'chaos.html'}, chaos.json, chaos.xml; history: {history}")
    return judged
