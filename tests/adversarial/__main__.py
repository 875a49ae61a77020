"""The page of the rows, and the tests that they name.

python -m tests.adversarial            write docs/adversarial.md
python -m tests.adversarial --check    fail when it is not what would be written
python -m tests.adversarial --tests    what `make adversarial` runs
"""

import argparse
import sys

from tests.adversarial import rows


def main() -> int:
    """Write the page, check it, or list the tests."""
    parser = argparse.ArgumentParser(description="What a hostile tenant tries, and where it is shown.")
    parser.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    parser.add_argument("--tests", action="store_true", help="list the tests of levels 1 to 3")
    asked = parser.parse_args()
    if asked.tests:
        print("\n".join(rows.tests()))  # noqa: T201 -- a command line tool
    elif not asked.check:
        rows.PAGE.write_text(rows.page(), encoding="utf-8")
    elif not rows.PAGE.exists() or rows.PAGE.read_text(encoding="utf-8") != rows.page():
        where = rows.PAGE.relative_to(rows.ROOT)
        print(f"{where}: out of date; run python -m tests.adversarial", file=sys.stderr)  # noqa: T201 -- the same
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
