"""How the command line is parsed: a parser whose errors tell what to do, and a command with its frozen request.

    words ──> Parser ──> Command.request ──> a frozen request ──> Command.run ──> exit code

Only `Command.request` sees a namespace of argparse. From there on, a command has a request with typed fields.
"""

import argparse
import itertools
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NoReturn, TypeAlias, TypeVar

from workstation.cli.failures import Exit

T = TypeVar("T")


class Lines(argparse.RawDescriptionHelpFormatter):
    """A text that was written in lines keeps them, such as examples; one that was not is wrapped."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text:
            return super()._fill_text(text, width, indent)
        return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent)


RAW: Final = Lines
Actions: TypeAlias = "argparse._SubParsersAction[Parser]"  # noqa: SLF001 - argparse has no public name for it
_SAYS: Final = re.compile(r"argument (?P<name>.+?): (?P<what>(?:must|may|unknown) .*)", re.DOTALL)
_SHOWN_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True)
class Command(Generic[T]):
    """What a subcommand does with its arguments."""

    # Builds the request, once. Raises CliError if options contradict each other.
    request: Callable[[argparse.Namespace], T]
    # Gets the request, and returns an exit code.
    run: Callable[[T], int]

    def of(self, options: argparse.Namespace) -> int:
        """Build the request, and run the command."""
        return int(self.run(self.request(options)) or 0)


class Parser(argparse.ArgumentParser):
    """The parser of one command. Wrong usage is reported in two lines, or as JSON with `-o json`; the exit code is 2."""

    as_json = False

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **{"formatter_class": RAW, **options})

    def shows(self, *examples: str) -> None:
        """Set the examples that its help ends with; each is a line."""
        self.epilog = "\n  ".join(("examples:", *examples)) + "\n"

    def actions(self, metavar: str) -> Actions:
        """Parsers for subcommands, of the same class; one subcommand is required."""
        return self.add_subparsers(metavar=metavar, required=True)

    def does(self, request: Callable[[argparse.Namespace], T], run: Callable[[T], int]) -> None:
        """Set the function that builds the request from the parsed words, and the function that runs it."""
        self.set_defaults(handler=Command(request, run), parser=self)

    def arguments(self) -> list[argparse.Action]:
        """Its options and positional arguments, in their order."""
        return list(self._actions)

    def option(self, name: str) -> argparse.Action | None:
        """The option with this name."""
        return self._option_string_actions.get(name)

    def subcommands(self) -> "dict[str, tuple[Parser, str | None]]":
        """Its subcommands, each with its summary in the list; None for one that is not listed."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - there is no public way
                summaries = {str(line.dest): line.help for line in action._choices_actions}  # noqa: SLF001
                return {str(name): (parser, summaries.get(str(name))) for name, parser in action.choices.items()}
        return {}

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Like argparse's; for an unknown option the error names the most similar option of the command."""
        found, left = self.parse_known_args(args, namespace)
        if left:
            at: Parser = getattr(found, "parser", self)
            known = [word for action in at.arguments() for word in action.option_strings]
            meant = next((nearest(word.partition("=")[0], known) for word in left if word.startswith("-")), "")
            at.error(f"unrecognized arguments: {' '.join(left)}" + (f" (did you mean {meant}?)" if meant else ""))
        return found

    def error(self, message: str) -> NoReturn:
        """Report what is wrong and where help is, and exit with code 2."""
        found = _SAYS.fullmatch(message)
        if found:
            # The last of an option's names is its long one.
            name, what = found["name"].rpartition("/")[2], found["what"]
            message = what if what.startswith("unknown") else f"{name} {what}"
        tell(message, f"see its options: {self.prog} --help", Exit.USAGE, as_json=self.as_json)
        sys.exit(Exit.USAGE)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Check a choice; the error names the most similar one."""
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        shown = str(value)[:_SHOWN_CHARACTERS]
        meant = nearest(shown, known)
        hint = f"; did you mean {meant}?" if meant else ""
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - there is no public way
            raise argparse.ArgumentError(action, f"unknown command {shown!r}{hint}")
        raise argparse.ArgumentError(action, f"must be one of {', '.join(known)}, not {shown!r}{hint}")


class JsonParser(Parser):
    """The same with `-o json`: errors are JSON too."""

    as_json = True


def nearest(word: str, known: Iterable[str]) -> str:
    """The word that was probably meant; empty if none is similar."""
    import difflib  # noqa: PLC0415 - only for misspelt words

    return next(iter(difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)), "")


def asks_json(words: Sequence[str]) -> bool:
    """Whether a command line asks for JSON, even if the rest of it cannot be parsed."""
    own = list(words[: words.index("--")] if "--" in words else words)
    return not {"-ojson", "-o=json", "--output=json", "--json"}.isdisjoint(own) or any(
        word in {"-o", "--output"} and value == "json" for word, value in itertools.pairwise(own)
    )


def tell(message: str, next_step: str, code: int, *, as_json: bool, head: str = "error: ") -> None:
    """Write an error to stderr: two lines for people, or one JSON object in one line."""
    if as_json:
        error = {"error": {"message": message, "nextStep": next_step, "exitCode": int(code)}}
        sys.stderr.write(json.dumps(error, ensure_ascii=True) + "\n")
        return
    sys.stderr.write(f"{head}{message}\n" + (f"next:  {next_step}\n" if next_step else ""))
