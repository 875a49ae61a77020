"""Command lines of the pages are such as the command line takes: each is parsed, and none is run."""

import re
import shlex

import pytest

from tests.docs.pages import Block, command_lines
from workstation.cli.main import build_parser, split

# What a shell reads, and the program never sees.
_SHELL = {"|", ">", ">>", "<", "&", "&&", ";", "||", "#"}
# A name that the reader replaces, by something that may stand in its place.
_PLACEHOLDERS = {
    r"<[^>]*>": "placeholder",
    r"\[\.\.\.\]": "placeholder",
    r"(?<=\s)…": "",
    r"\bREGISTRY\b": "registry.example.org",
    r"\bNAME\b": "name",
    r"\bTENANT\b": "tenant",
    r"\bPOD\b": "pod",
    r"\bUSER\b": "user",
    r"\bFILE\b": "file",
    r"\bCLASS\b": "class",
    r"\bN\b": "1",
}
LINES = command_lines("bulkhead")


def words(line: str) -> list[str]:
    for pattern, value in _PLACEHOLDERS.items():
        line = re.sub(pattern, value, line)
    found = [word.rstrip(")") for word in shlex.split(line, comments=True)]
    end = next((place for place, word in enumerate(found) if word.rstrip(",;") in _SHELL), len(found))
    return found[:end]


def refusal(block: Block, capsys: pytest.CaptureFixture[str]) -> str:
    """What the parser says against a line; empty where it takes it."""
    arguments, _ = split(words(block.text))
    try:
        build_parser(arguments).parse_args(arguments)
    except SystemExit as end:
        told = capsys.readouterr().err
        named = block.mentioned and "the following arguments are required" in told
        return "" if named or end.code == 0 else told
    return ""


@pytest.mark.parametrize("block", LINES, ids=str)
def test_a_command_line_is_taken(block: Block, capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(block, capsys) == "", f"{block}: bulkhead {block.text}"


@pytest.mark.parametrize("wrong", ["tenant make red", "tenant list --no-such", "images push"])
def test_a_wrong_one_is_found(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(Block("page", 1, wrong), capsys)


def test_there_are_many() -> None:
    assert len(LINES) > 40
    assert {block.page for block in LINES} >= {"README.md", "docs/access.md", "docs/slurm.md", "docs/quota.md"}
