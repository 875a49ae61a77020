"""`python -m ci words`: reads the tree and git for `words`, prints what it finds, writes the record. Judges nothing itself.

python -m ci words                     fails for what occurs more often than recorded, and for any occurrence in a new file
python -m ci words --update            the same; where all is well, lowers the record to what the tree has now
python -m ci words --count             how often the tree has each turn, and how often the record says
python -m ci words --list PATH…        every occurrence in these files and folders
"""

from collections.abc import Sequence
from pathlib import Path

from ci import change, words

RULES = "ci/words.yaml"
RECORD = "ci/words-counts.yaml"


def check(root: Path, *, update: bool) -> int:
    """Hold the tree against its record; with `update` lower the record. 1 where a turn occurs too often."""
    rules = load(root)
    found = _found(root, rules, change.tracked(root))
    record = _record(root)
    moves = change.moves(root, RECORD)
    wrong = words.violations(found, record, rules.turns, new=set(moves.added), moved=moves.moved)
    if not update:
        wrong += words.unrecorded(record, rules.turns)
    if wrong:
        print("\n".join(wrong))
        return 1
    present = words.counted(found)
    if update:
        record = words.Record(frozenset(turn.name for turn in rules.turns), present)
        (root / RECORD).write_text(words.written(record))
    elif fewer := words.fallen(present, record.counts):
        print(f"{fewer} banned turns fewer than recorded; `python -m ci words --update` records that")
    return 0


def count(root: Path) -> int:
    """Print how often the tree has each turn."""
    rules = load(root)
    present = words.by_turn(words.counted(_found(root, rules, change.tracked(root))))
    recorded = words.by_turn(_record(root).counts)
    print(f"{'turn':28} {'now':>6} {'recorded':>9}")
    for turn in rules.turns:
        print(f"{turn.name:28} {present.get(turn.name, 0):6} {recorded.get(turn.name, 0):9}")
    print(f"{'all':28} {sum(present.values()):6} {sum(recorded.values()):9}")
    return 0


def show(root: Path, paths: Sequence[str]) -> int:
    """Print every occurrence in these files and folders, in the order of files and lines."""
    chosen = [
        path for path in change.tracked(root) if any(path == part or path.startswith(f"{part.rstrip('/')}/") for part in paths)
    ]
    found = _found(root, load(root), chosen)
    for finding in sorted(found, key=lambda finding: (finding.path, finding.line)):
        print(finding)
    print(f"{len(found)} in all")
    return 0


def load(root: Path) -> words.Rules:
    """The rules of this tree. Raises WordsError."""
    return words.parse((root / RULES).read_text())


def _found(root: Path, rules: words.Rules, paths: Sequence[str]) -> list[words.Finding]:
    found = []
    for path in paths:
        # A link is read where it points to; git also lists files that were just removed.
        if rules.reads(path) and (file := root / path).is_file() and not file.is_symlink():
            found += words.findings(path, file.read_text(), rules.turns)
    return found


def _record(root: Path) -> words.Record:
    path = root / RECORD
    return words.read(path.read_text() if path.is_file() else "")
