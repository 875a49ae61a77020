"""What is generated from the programs' metrics: docs/metrics.md, and the dashboards of the chart.

python -m tests.observing            write them
python -m tests.observing --check    fail when they are not what would be written
"""

import argparse
import sys
from pathlib import Path
from typing import Final

from tests.observing import drawing, page
from tests.observing.boards import boards
from tests.observing.exported import DATA, recorded

DASHBOARDS: Final = page.ROOT / "charts" / "bulkhead" / "dashboards"


def main() -> int:
    """Write the files, or check them."""
    parser = argparse.ArgumentParser(description="The page of metrics and the dashboards.")
    parser.add_argument("--check", action="store_true", help="only say whether they are up to date")
    asked = parser.parse_args()
    if not asked.check:
        DATA.write_text(recorded(), encoding="utf-8")
    wanted: dict[Path, str | None] = dict.fromkeys(DASHBOARDS.glob("*.json"))
    wanted |= files()
    stale = {
        path: text for path, text in wanted.items() if (path.read_text(encoding="utf-8") if path.exists() else None) != text
    }
    if asked.check and stale:
        names = ", ".join(sorted(str(path.relative_to(page.ROOT)) for path in stale))
        print(f"{names}: out of date; run python -m tests.observing", file=sys.stderr)  # noqa: T201 -- a tool
        return 1
    for path, text in stale.items():
        if text is None:
            path.unlink()
        else:
            path.write_text(text, encoding="utf-8")
    return 0


def files() -> dict[Path, str]:
    """Every generated file, and what it should have in it."""
    drawn = {DASHBOARDS / f"{board.name}.json": drawing.drawn(board) for board in boards()}
    return {page.PAGE: page.page(), **drawn}


if __name__ == "__main__":
    sys.exit(main())
