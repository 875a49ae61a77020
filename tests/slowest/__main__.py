"""`python -m tests.slowest`: print what the last run of tests spent its time on."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.slowest.record import FOLDER
from tests.slowest.table import printed, spent


def lines(folder: Path) -> Iterator[dict[str, Any]]:
    """Each line of each process; a last one that was cut off is passed over."""
    for path in sorted(folder.glob("*.jsonl")):
        for text in path.read_text().splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict):
                yield line


def main() -> int:
    """Print the tables, or say that there has been no run."""
    parser = argparse.ArgumentParser(prog="make slowest", description=__doc__)
    parser.add_argument("--rows", type=int, default=15, help="how many of each (default: 15)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"where the record lies (default: {FOLDER})")
    asked = parser.parse_args()
    run = spent(lines(asked.folder))
    if not run.tests:
        print(f"No run of tests is recorded in {asked.folder}. Run `make test` first.", file=sys.stderr)
        return 1
    print("\n".join(printed(run, asked.rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
