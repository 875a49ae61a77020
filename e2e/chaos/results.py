"""What a run leaves behind in build/results: its history, chaos.json, JUnit's chaos.xml and the page chaos.html."""

import gzip
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from e2e.chaos import judgement, report
from e2e.chaos.history import Record, from_lines, time_of, to_line
from e2e.chaos.judgement import Judgement
from e2e.chaos.page import document
from e2e.machine import RESULTS

HISTORY: Final = RESULTS / "chaos-history.jsonl.gz"


def write(records: Iterable[Record], note: Callable[[str], None], folder: Path = RESULTS) -> Judgement:
    """Keep the history first, then judge it and write what was found."""
    kept = sorted(records, key=time_of)
    folder.mkdir(parents=True, exist_ok=True)
    history = folder / HISTORY.name
    keep(kept, history)
    note(f"judging {len(kept)} records")
    judged = judgement.judge(kept)
    (folder / "chaos.json").write_text(json.dumps(report.as_json(judged), indent=2) + "\n")
    (folder / "chaos.xml").write_text(report.as_junit(judged))
    (folder / "chaos.html").write_text(document.html(judged))
    print(report.as_text(judged))
    print(report.bound_text(judged.run.idle_cores, judged.bound))
    print(f"{'passed' if judged.passed else 'FAILED'}; {folder / 'chaos.html'}, chaos.json, chaos.xml; history: {history}")
    return judged


def keep(records: Iterable[Record], path: Path) -> None:
    """Write a history, so that it can be judged and drawn again."""
    with gzip.open(path, "wt", compresslevel=6) as out:
        out.writelines(to_line(record) + "\n" for record in records)


def read(path: Path) -> list[Record]:
    """The records of a kept history, gzipped or plain."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        return from_lines(lines)
