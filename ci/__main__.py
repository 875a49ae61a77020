"""`python -m ci gate|all|touched|table|check|words`: what `.ci/run`, `make all` and `make check` run."""

import argparse
import sys
from pathlib import Path

from ci import catalogue, change, everything, gate, plan, record, strictyaml, table, wording, words

ROOT = Path(__file__).resolve().parents[1]


def check(suites: catalogue.Catalogue) -> int:
    """Check that map, tree and base agree."""
    wrong = suites.contradictions(change.tracked(ROOT))
    base = change.written(ROOT)
    if base is not None and (missing := change.unreachable(ROOT, base)) is not None:
        print(missing)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


def touched(suites: catalogue.Catalogue) -> int:
    """Print the suites that the change touches beyond the fixed part."""
    seen = change.look(ROOT)
    print(f"{seen.why}; beyond the fixed part of the gate:")
    past, wanted = record.load(record.default_path()), plan.wanted(suites, seen.files)
    seconds = {suite.name: plan.expected(suite, past) for suite in suites.others if suite.name in wanted}
    print(table.touched(suites.others, seconds, past))
    return 0


def plain_words(chosen: argparse.Namespace) -> int:
    """Check, count, list or record the banned turns of phrase."""
    if chosen.list:
        return wording.show(ROOT, chosen.list)
    return wording.count(ROOT) if chosen.count else wording.check(ROOT, update=chosen.update)


def main() -> int:
    """Run the chosen command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m ci", description="Which suites a change has to pass.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("gate", help="the fixed part, then what the change touches, while there is time")
    all_suites = commands.add_parser("all", help="every suite; what passed on this commit is not run again")
    all_suites.add_argument("--again", action="store_true", help="run that too")
    commands.add_parser("touched", help="the suites that the change touches, each with its command; runs none")
    commands.add_parser("table", help="the last result, commit and duration of every suite on this machine")
    commands.add_parser("check", help="whether every tracked folder stands in the map, and the base is an ancestor")
    turns = commands.add_parser("words", help="whether the tree has fewer banned turns of phrase than before (docs/style.md)")
    turns.add_argument("--update", action="store_true", help="record the lower counts")
    turns.add_argument("--count", action="store_true", help="print how often the tree has each turn")
    turns.add_argument(
        "--list", nargs="+", metavar="PATH", default=[], help="print every occurrence in these files and folders"
    )
    chosen = parser.parse_args()
    try:
        return _done(chosen)
    except (catalogue.CatalogueError, change.ChangeError, strictyaml.DuplicateKeyError, words.WordsError) as error:
        print(error)
        return 1


def _done(chosen: argparse.Namespace) -> int:
    if chosen.command == "words":
        return plain_words(chosen)
    suites = catalogue.load()
    match chosen.command:
        case "gate":
            return gate.main(suites, ROOT)
        case "all":
            return everything.main(suites, ROOT, again=chosen.again)
        case "check":
            return check(suites)
        case "touched":
            return touched(suites)
    print(table.summary(suites.suites, record.load(record.default_path())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
