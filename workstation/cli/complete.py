"""The candidates for the next word of a command line, for a shell: `bulkhead __complete -- WORD… CURRENT`.

    words ──> the parser that reads them ──> subcommands, options, choices, or tenants from the host's API ──> lines

Each line is a word, optionally followed by a tab and a description. The last line is `:0` if file names are candidates too,
else `:4`; kubectl expects this from `kubectl_complete-bulkhead`. Nothing is written to stderr; the search ends after a second.
"""

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Final

from workstation.cli import commands, eventloop, homefolder, values
from workstation.cli.arguments import Host
from workstation.cli.failures import CliError, Exit
from workstation.cli.parsing import Parser

SECONDS: Final = 1.0
_FILES: Final = ":0"
_NO_FILES: Final = ":4"
_PATHS: Final = frozenset({"FILE", "DIR"})


@dataclass(frozen=True, slots=True)
class CompleteRequest:
    """`__complete`: the words of the line. The last one is being typed, and may be empty."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """The place of the cursor in the line."""

    parser: Parser
    # The option whose value is being typed.
    option: argparse.Action | None
    # Whether the word follows `--` and belongs to another program.
    foreign: bool
    # How many positional arguments the command already has.
    given: int
    host: Host


def add_arguments(parser: Parser) -> None:
    """`__complete`, which shells call."""
    parser.add_argument("words", nargs=argparse.REMAINDER)
    parser.does(_request, show)


def _request(options: argparse.Namespace) -> CompleteRequest:
    words = tuple(options.words)
    return CompleteRequest(words[1:] if words[:1] == ("--",) else words)


def show(request: CompleteRequest) -> int:
    """Print the candidates for the next word."""
    from workstation.cli import main  # noqa: PLC0415 - main imports this file by its name

    words = _joined(request.words) or ("",)
    *before, current = words
    place = find(main.build_parser(before), before)
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    with contextlib.redirect_stderr(open(os.devnull, "w")):  # noqa: PTH123 - open until this process ends
        # For `slurm`, whose next word is a tenant or `token`.
        actions = [word for entry in commands.TABLE if before[-1:] == [entry.name] for word in entry.actions]
        lines = [line for line in dict.fromkeys((*actions, *candidates(place, current))) if line.startswith(current)]
    signal.setitimer(signal.ITIMER_REAL, 0)
    sys.stdout.write("".join(f"{line}\n" for line in (*lines, _FILES if _takes_files(place) else _NO_FILES)))
    return Exit.DONE


def _give_up(_number: int, _frame: FrameType | None) -> None:
    """End the search when the host does not answer in time, even if a thread waits for a name server."""
    os.write(1, f"{_NO_FILES}\n".encode())
    os._exit(0)


def kubectl() -> int:
    """`kubectl_complete-bulkhead`, which kubectl calls with the words after `kubectl bulkhead`."""
    from workstation.cli import main  # noqa: PLC0415

    return main.main(["__complete", "--", *sys.argv[1:]])


def _joined(words: Sequence[str]) -> tuple[str, ...]:
    """The words as they were typed, although bash splits them at `=`."""
    found: list[str] = []
    for word in words:
        if found and (word == "=" or found[-1].endswith("=")) and found[-1].startswith("--"):
            found[-1] += word
        else:
            found.append(word)
    return tuple(found)


def find(parser: Parser, before: Sequence[str]) -> Place:
    """Follow the words to the parser that reads the next one."""
    waiting: argparse.Action | None = None
    given, context = 0, {"--kubeconfig": "", "--context": ""}
    for word in before:
        if waiting is not None:
            context[waiting.option_strings[-1]] = word
            waiting = None
        elif word == "--":
            return Place(parser, None, True, given, Host())
        elif word.startswith("-") and word != "-":
            name, separator, value = word.partition("=")
            action = parser.option(name)
            if separator:
                context[name] = value
            elif action is not None and action.nargs is None and action.const is None:
                waiting = action
        elif subcommands := parser.subcommands():
            parser = subcommands[word][0] if word in subcommands else Parser(add_help=False)
            given = 0
        else:
            given += 1
    host = Host(context["--kubeconfig"] or None, context["--context"] or None)
    return Place(parser, waiting, False, given, host)


def candidates(place: Place, current: str) -> Iterator[str]:
    """All words that are allowed at this place, whether or not they begin with the typed letters."""
    if place.foreign:
        return
    if place.option is not None:
        yield from _of(place.option, place.host)
    elif current.startswith("--") and "=" in current:
        name = current.partition("=")[0]
        action = place.parser.option(name)
        yield from (f"{name}={word}" for word in (_of(action, place.host) if action else ()))
    elif current.startswith("-"):
        for action in place.parser.arguments():
            for name in action.option_strings:
                if name.startswith("--"):
                    yield _line(name, action.help)
    elif subcommands := place.parser.subcommands():
        yield from (_line(name, summary) for name, (_, summary) in subcommands.items() if summary is not None)
    else:
        action = _positional(place)
        yield from _of(action, place.host) if action is not None else ()


def _line(word: str, text: str | None) -> str:
    return f"{word}\t{text.partition(';')[0]}" if text and text is not argparse.SUPPRESS else word


def _positional(place: Place) -> argparse.Action | None:
    """The positional argument that the next word becomes."""
    positional = [action for action in place.parser.arguments() if not action.option_strings]
    if place.given < len(positional):
        return positional[place.given]
    return positional[-1] if positional and positional[-1].nargs in {"*", "+"} else None


def _takes_files(place: Place) -> bool:
    if place.foreign:
        return True
    action = place.option or (None if place.parser.subcommands() else _positional(place))
    return action is not None and (action.metavar in _PATHS or action.nargs == argparse.REMAINDER)


def _of(action: argparse.Action, host: Host) -> Iterator[str]:
    """The values of one argument."""
    if action.choices is not None:
        yield from map(str, action.choices)
    elif action.type in {values.tenant_name, values.tenant_or_pod}:
        yield from tenants(host)


def tenants(host: Host) -> list[str]:
    """The names of tenants from the host's API; if it does not answer, the tenants that this user has logged in to."""
    from bulkhead.kube.errors import KubeError  # noqa: PLC0415

    try:
        found = eventloop.run(_asked(host))
    except (CliError, KubeError, OSError, TimeoutError):
        found = []
    with contextlib.suppress(CliError):
        found = found or sorted(path.stem for path in (homefolder.home() / ".kube" / "bulkhead").glob("*.yaml"))
    return found


async def _asked(host: Host) -> list[str]:
    from bulkhead.kube import resources as kinds  # noqa: PLC0415
    from workstation.cli import connection  # noqa: PLC0415

    async with connection.host_client(host, seconds=SECONDS, quiet=True) as client:
        listed = await client.list_metadata(kinds.TENANTS)
    return sorted(str(tenant["metadata"]["name"]) for tenant in listed.items)
