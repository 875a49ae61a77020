"""Options that several commands have, and the frozen part of a request that each becomes."""

import argparse
import sys
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

from workstation.cli import values
from workstation.cli.parsing import Parser

Form: TypeAlias = Literal["table", "wide", "json", "yaml", "csv"]
Tunnelling: TypeAlias = Literal["auto", "always", "never"]
FORMS: Final[tuple[Form, ...]] = ("table", "json", "yaml")


@dataclass(frozen=True, slots=True)
class Host:
    """Which host is asked: a kubeconfig and one of its contexts; None for the usual ones."""

    kubeconfig: str | None = None
    context: str | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Whether a command waits for what it asked for, and for how many seconds at most."""

    wanted: bool = True
    seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class Target:
    """Where a kubeconfig is written: a path, `-` for stdout, or None for the usual place; and the form of what is printed."""

    path: str | None = None
    form: Literal["json", "yaml"] | None = None


def add_host(parser: argparse.ArgumentParser, *, default: str | None = argparse.SUPPRESS) -> None:
    """`--kubeconfig` and `--context`, which may stand before the command too."""
    group = parser.add_argument_group("host cluster")
    group.add_argument("--kubeconfig", metavar="FILE", default=default, help="kubeconfig of the host cluster")
    group.add_argument("--context", metavar="NAME", default=default, help="context in it, instead of its current one")


def host_of(options: argparse.Namespace) -> Host:
    """Which host the words name."""
    return Host(options.kubeconfig, options.context)


def add_tenant(parser: argparse.ArgumentParser, name: str = "tenant", *, optional: bool = False) -> None:
    """The tenant, as a word of its own."""
    metavar = "NAME" if name == "name" else "TENANT"
    if optional:
        parser.add_argument(name, metavar=metavar, nargs="?", type=values.tenant_name, help="the tenant")
    else:
        parser.add_argument(name, metavar=metavar, type=values.tenant_name, help="the tenant")


def add_wait(parser: argparse.ArgumentParser, what: str) -> None:
    """`--wait` and `--timeout`."""
    parser.add_argument("--wait", action=argparse.BooleanOptionalAction, default=True, help=f"wait {what} (default: yes)")
    parser.add_argument(
        "--timeout", metavar="TIME", type=values.seconds, default=300.0, help="for the wait: 90s, 5m; default 5m"
    )


def wait_of(options: argparse.Namespace) -> Wait:
    """Whether and for how long to wait."""
    return Wait(options.wait, options.timeout)


def add_output(parser: argparse.ArgumentParser, *forms: Form, more: str = "") -> None:
    """`-o FORMAT`: the form of what a command prints."""
    parser.add_argument(
        "-o",
        "--output",
        choices=list(forms or FORMS),
        # `text` is what the table of some commands was called until 0.1.
        type=lambda text: "table" if text == "text" else text,
        default="table",
        help=f"form of what is printed; default table{more}",
    )


def form_of(options: argparse.Namespace) -> Form:
    """The form of what is printed."""
    return cast("Form", options.output)


def add_target(parser: Parser, what: str, default: str) -> None:
    """`--write FILE` and `-o FORMAT`; until the next release `-o FILE` too."""
    parser.add_argument("--write", metavar="FILE", help=f"where to write the kubeconfig ({default})")
    parser.add_argument("-o", "--output", metavar="FORMAT", help=f"json or yaml: the form of {what}")


def target_of(options: argparse.Namespace) -> Target:
    """Where to write and what to print. A path after `-o` still counts for one release, with a warning on stderr."""
    said: str | None = options.output
    if said is None:
        return Target(options.write)
    if said in {"json", "yaml"}:
        return Target(options.write, cast("Literal['json', 'yaml']", said))
    sys.stderr.write(f"deprecated: -o is a format, json or yaml; write a file with --write {said}\n")
    return Target(options.write or said)


def add_tunnel(parser: argparse.ArgumentParser, what: str) -> None:
    """`--tunnel`."""
    parser.add_argument(
        "--tunnel",
        choices=("auto", "always", "never"),
        default="auto",
        help=f"{what} through the host's API: where there is no other way (auto, the default), always or never",
    )
