"""What is generated from the programs' metrics: docs/metrics.md, and the dashboards of the chart.

python -m tests.observing            write them
python -m tests.observing --check    fail when they are not what would be written
"""

import argparse
import sys

from tests.observing import page
from tests.observing.exported import DATA, recorded


def main() -> int:
    """Write the files, or check them."""
    parser = argparse.ArgumentParser(description="The page of metrics and the dashboards.")
    parser.add_argument("--check", action="store_true", help="only say whether they are up to date")
    asked = parser.parse_args()
    if not asked.check:
        DATA.write_text(recorded(), encoding="utf-8")
    stale = []
    for path, text in files().items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if asked.check:
            stale.append(str(path.relative_to(page.ROOT)))
        else:
            path.write_text(text, encoding="utf-8")
    if stale:
        print(f"{', '.join(stale)}: out of date; run python -m tests.observing", file=sys.stderr)  # noqa: T201 -- a tool
    return 1 if stale else 0


def files() -> dict[page.Path, str]:
    """Every generated file, and what it should have in it."""
    return {page.PAGE: page.page()}


if __name__ == "__main__":
    sys.exit(main())
