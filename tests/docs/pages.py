"""What readers copy from the pages: their blocks of YAML, and their command lines."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[2]
# The decisions also quote alternatives that were rejected; readers do not copy from them.
PAGES = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")))
# Also as part of a numbered step, where it is set in by up to three blanks.
_FENCED = re.compile(r"^( {0,3})```(\w*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(r"^ {4}(\S.*)$", re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a page, and where it stands."""

    page: str
    line: int
    text: str
    mentioned: bool = False  # in a sentence, where a command may be named without its arguments

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@cache
def yaml_blocks() -> tuple[Block, ...]:
    return tuple(block for kind, block in _blocks() if kind == "yaml")


@cache
def command_lines(program: str) -> tuple[Block, ...]:
    """Every command line of a program, in blocks and in the text."""
    found = [block for page in PAGES for block in _lines_of(page)]
    own = re.compile(rf"(?:^|[(;&|]\s*)(?:\.venv/bin/)?{program} (\S.*)")
    made = ((block, own.search(block.text)) for block in found)
    return tuple(replace(block, text=match[1]) for block, match in made if match)


def _blocks() -> Iterator[tuple[str, Block]]:
    for page in PAGES:
        text = page.read_text()
        for match in _FENCED.finditer(text):
            yield match[2], Block(_name(page), text.count("\n", 0, match.start()) + 1, dedent(match[3]))


def _lines_of(page: Path) -> Iterator[Block]:
    """Lines of shell blocks, indented lines, and spans of code outside of blocks; continued lines are joined."""
    text = page.read_text()
    for match in _FENCED.finditer(text):
        if match[2] == "sh":
            begin = text.count("\n", 0, match.start()) + 2
            for number, line in enumerate(dedent(match[3]).replace("\\\n", "  ").splitlines()):
                yield Block(_name(page), begin + number, line)
    bare = _FENCED.sub(lambda match: "\n" * match[0].count("\n"), text)
    for pattern in (_INDENTED, _SPAN):
        for match in pattern.finditer(bare.replace("\\\n", "  ")):
            yield Block(_name(page), bare.count("\n", 0, match.start()) + 1, match[1], mentioned=pattern is _SPAN)


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))
