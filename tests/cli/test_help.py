"""Each command's help teaches by examples, and each example is one that the command line takes. Pure."""

import re
import shlex
from collections.abc import Iterator

import pytest

from workstation.cli import commands, main
from workstation.cli.parsing import Parser

_WIDTH = 128


def of(words: list[str]) -> Parser:
    """The parser of a command."""
    parser = main.build_parser(words)
    for word in words:
        parser = parser.subcommands()[word][0]
    return parser


def leaves(words: list[str]) -> Iterator[list[str]]:
    below = of(words).subcommands()
    if not below:
        yield words
    for name in below:
        yield from leaves([*words, name])


ALL = [words for entry in commands.TABLE if entry.summary for words in leaves([entry.name])]


def examples(words: list[str]) -> list[str]:
    text = of(words).format_help()
    found = re.search(r"^(?:examples|without rights on the host).*?:\n((?:  .*\n?)+)", text, flags=re.MULTILINE)
    return [] if found is None else [line.strip() for line in found[1].splitlines()]


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_each_command_teaches_with_an_example(words: list[str]) -> None:
    shown = examples(words)
    assert any(line.removeprefix("sudo ").startswith(("bulkhead", "kubectl bulkhead", "source <(bulkhead")) for line in shown)


@pytest.mark.parametrize("words", [[], *ALL], ids=" ".join)
def test_each_example_is_taken(words: list[str]) -> None:
    shown = examples(words) if words else re.findall(r"^  (bulkhead .*)$", main._EPILOG, flags=re.MULTILINE)
    for line in shown:
        if not line.startswith("bulkhead ") or line.endswith("\\"):
            continue
        command = re.split(r"\s{2,}|\s[|<>]|\s&&", line)[0]
        arguments, after = main.split(shlex.split(command)[1:])
        found = main.build_parser(arguments).parse_args(arguments)
        assert found.handler.request is not None, command
        assert not after or "--" in command


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_no_line_of_a_help_is_wider_than_the_code(words: list[str]) -> None:
    assert [line for line in of(words).format_help().splitlines() if len(line) > _WIDTH] == []
