"""Turns of phrase that docs/style.md bans, found in texts and held against the counts on record. Pure.

    text ──> prose, code ──> findings ──> counts by folder ──┐
    record (ci/words-counts.yaml), moved and new files ──────┴──> violations, or lower counts to record

The tree is older than the ban. So each folder has a count for each turn, which may only fall, and a new file must have none.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import TypeAlias

import yaml

from ci import strictyaml

Counts: TypeAlias = Mapping[str, Mapping[str, int]]  # folder -> turn -> how often

# Literals and comments of Python. Python's own tokenizer says the same, and takes ten times as long.
_LITERAL = re.compile(
    r"(?P<prefix>\b[fFrRbBuU]{1,2})?"
    r"(?P<text>\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')"
    r"|(?P<comment>\#[^\n]*)",
    re.DOTALL,
)
_LETTER = re.compile(r"\w")
_FIELD = re.compile(r"\{[^{}\n]*\}")
_SUFFIXES = {".md", ".yaml", ".tpl", ".txt", ".toml", ".j2", ".sh"}
_NAMES = {"Makefile", "values.schema.json"}


class WordsError(Exception):
    """The rules contradict themselves; the text says where."""


class Where(StrEnum):
    """Which part of a file a turn is looked for in."""

    PROSE = "prose"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class Turn:
    """One banned turn of phrase."""

    name: str
    where: Where
    has: tuple[str, ...]  # lower case; a text without any of them does not contain the turn
    pattern: re.Pattern[str]
    instead: str


@dataclass(frozen=True, slots=True)
class Rules:
    """All banned turns, and the files that are not checked."""

    turns: tuple[Turn, ...]
    skipped: tuple[str, ...]  # paths; `folder/**` stands for all below the folder

    def reads(self, path: str) -> bool:
        """Whether the check reads the file at this path."""
        pure = PurePosixPath(path)
        if pure.suffix != ".py" and pure.suffix not in _SUFFIXES and pure.name not in _NAMES:
            return False
        return not any(path == entry or (entry.endswith("/**") and path.startswith(entry[:-2])) for entry in self.skipped)


@dataclass(frozen=True, slots=True)
class Record:
    """What the tree had when it was last recorded."""

    turns: frozenset[str]  # all turns that were counted, also those that occurred nowhere
    counts: Counts


@dataclass(frozen=True, slots=True)
class Finding:
    """One occurrence of a turn."""

    path: str
    line: int
    turn: Turn
    text: str  # the line, without its indentation

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: [{self.turn.name}] {self.text[:110]}"


def parse(text: str) -> Rules:
    """The rules in `words.yaml`. Raises WordsError, DuplicateKeyError."""
    read = strictyaml.load(text, "ci/words.yaml")
    turns = []
    for entry in read["turns"]:
        flags = re.MULTILINE if entry.get("exact", False) else re.MULTILINE | re.IGNORECASE
        try:
            pattern = re.compile(entry["pattern"], flags)
        except re.error as error:
            raise WordsError(f"ci/words.yaml: the pattern of {entry['turn']!r} does not compile: {error}") from error
        turns.append(Turn(entry["turn"], Where(entry["where"]), tuple(entry["has"]), pattern, entry["instead"]))
    if doubled := [name for name, count in Counter(turn.name for turn in turns).items() if count > 1]:
        raise WordsError(f"ci/words.yaml: two entries are called {doubled[0]!r}; rename one")
    return Rules(tuple(turns), tuple(read["skipped"]))


def folder(path: str) -> str:
    """The folder that a file is counted under: at most the first two levels of its path, `.` for the root."""
    parents = PurePosixPath(path).parts[:-1]
    return "/".join(parents[:2]) or "."


def findings(path: str, text: str, turns: Iterable[Turn]) -> list[Finding]:
    """Every occurrence of these turns in one file, in the order of turns, then of lines."""
    lowered = text.lower()
    likely = [turn for turn in turns if any(part in lowered for part in turn.has)]
    if not likely:
        return []
    parts = split(text) if path.endswith(".py") else {Where.PROSE: text, Where.CODE: ""}
    lines = text.split("\n")
    found = []
    for turn in likely:
        part = parts[turn.where]
        for match in turn.pattern.finditer(part):
            word = _LETTER.search(part, match.start())
            line = part.count("\n", 0, word.start() if word else match.start())
            found.append(Finding(path, line + 1, turn, lines[line].strip()))
    return found


def split(source: str) -> dict[Where, str]:
    """Prose and code of Python. Each keeps all ends of lines, so that a line has the same number in both as in the source."""
    prose: list[str] = []
    code: list[str] = []
    end = 0
    for match in _LITERAL.finditer(source):
        between, text = source[end : match.start()], match[0]
        if match["prefix"] and "f" in match["prefix"].lower():
            text = _FIELD.sub("_", text)
        prose += ("\n" * between.count("\n"), " ", text)
        code += (between, " ", "\n" * text.count("\n"))
        end = match.end()
    code.append(source[end:])
    return {Where.PROSE: "".join(prose), Where.CODE: "".join(code)}


def counted(found: Iterable[Finding]) -> dict[str, dict[str, int]]:
    """How often each turn occurs in each folder."""
    counts: dict[str, Counter[str]] = {}
    for finding in found:
        counts.setdefault(folder(finding.path), Counter())[finding.turn.name] += 1
    return {name: dict(sorted(counts[name].items())) for name in sorted(counts)}


def violations(
    found: Iterable[Finding], record: Record, turns: Iterable[Turn], *, new: AbstractSet[str], moved: Mapping[str, str]
) -> list[str]:
    """One line for each turn that occurs more often than recorded, and for each occurrence in a new file.

    `moved` maps the present path of a file to its former one. What the file contains counts where it came from. A turn that the
    record does not know yet is not judged.
    """
    judged = {turn.name: turn for turn in turns if turn.name in record.turns}
    wrong, counts = [], Counter[tuple[str, str]]()
    for finding in found:
        if finding.turn.name not in judged:
            continue
        if finding.path in new:
            wrong.append(f"{finding}; instead: {finding.turn.instead}")
        else:
            counts[folder(moved.get(finding.path, finding.path)), finding.turn.name] += 1
    for (place, name), count in sorted(counts.items()):
        most = record.counts.get(place, {}).get(name, 0)
        if count > most:
            wrong.append(
                f"{place}: {count} times [{name}], at most {most}; instead: {judged[name].instead}; "
                f"`python -m ci words --list {place}` shows where"
            )
    return wrong


def unrecorded(record: Record, turns: Iterable[Turn]) -> list[str]:
    """One line for each turn that the record does not know yet."""
    return [
        f"ci/words.yaml: [{turn.name}] is new; `python -m ci words --update` records how often the tree has it"
        for turn in turns
        if turn.name not in record.turns
    ]


def fallen(present: Counts, recorded: Counts) -> int:
    """By how many occurrences the tree is better than the record says."""
    return total(recorded) - total(present)


def total(counts: Counts) -> int:
    """All occurrences."""
    return sum(sum(turns.values()) for turns in counts.values())


def by_turn(counts: Counts) -> dict[str, int]:
    """All occurrences of each turn, the most frequent first."""
    sums: Counter[str] = Counter()
    for turns in counts.values():
        sums.update(turns)
    return dict(sums.most_common())


def read(text: str) -> Record:
    """The record in a file; an empty text is a record of nothing."""
    found = strictyaml.load(text, "ci/words-counts.yaml") or {}
    return Record(frozenset(found.get("turns", ())), found.get("counts", {}))


def written(record: Record) -> str:
    """The record as a file: one line for each turn of a folder, so that two changes seldom touch the same line."""
    head = "# How often each folder still has a turn that ci/words.yaml bans. Written by `python -m ci words --update`.\n"
    counts = {name: dict(turns) for name, turns in record.counts.items()}
    return head + yaml.safe_dump({"turns": sorted(record.turns), "counts": counts}, sort_keys=False)
