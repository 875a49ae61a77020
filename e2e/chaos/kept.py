"""Histories as files, so that a run can be judged and drawn again: one record a line, gzipped where the name says so."""

import gzip
from collections.abc import Iterable
from pathlib import Path

from e2e.chaos.history import Record, from_lines, to_line


def keep(records: Iterable[Record], path: Path) -> None:
    """Write a history."""
    with gzip.open(path, "wt", compresslevel=6) as out:
        out.writelines(to_line(record) + "\n" for record in records)


def read(path: Path) -> list[Record]:
    """The records of a history. Raises OSError, ValueError, KeyError or TypeError for a file that is not one."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        return from_lines(lines)
