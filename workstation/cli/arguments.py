"""Options that several commands share, and the frozen part of a request that each of them becomes."""

import argparse
import sys
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

from workstation.cli import values
from workstation.cli.parsing import Parser

Form: TypeAlias = Literal["table", "wide", "json", "yaml", "csv", "focus"]
Tunnelling: TypeAlias = Literal["auto", "always", "never"]
FORMS: Final[tuple[Form, ...]] = ("table", "json", "yaml")


@dataclass(frozen=True, slots=True)
class Host:
    """The host to talk to: a kubeconfig and one of its contexts; None for the default."""

    kubeconfig: str | None = None
    context: str | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Whether a command waits until its change has taken effect, and for how many seconds at most."""

    wanted: bool = True
    seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class Target:
    """Where to write a kubeconfig (a path, `-` for stdout, None for the default path), and the format of the output."""

    path: str | None = None
    form: Literal["json", "yaml"] | None = None


def add_host(parser: argparse.ArgumentParser, *, default: str | None = argparse.SUPPRESS) -> None:
    """`--kubeconfig` and `--context`, which are also accepted before the command."""
    group = parser.add_argument_group("host cluster")
    group.add_argument("--kubeconfig", metavar="FILE", default=default, help="kubeconfig of the host cluster")
    group.add_argument(
        "--context", metavar="NAME", default=default, help="context of that kubeconfig (default: its current one)"
    )


def host_of(options: argparse.Namespace) -> Host:
    """The host that the options name."""
    return Host(options.kubeconfig, options.context)


def add_tenant(parser: argparse.ArgumentParser, name: str = "tenant", *, optional: bool = False) -> None:
    """The tenant, as a positional argument."""
    metavar = "NAME" if name == "name" else "TENANT"
    if optional:
        parser.add_argument(name, metavar=metavar, nargs="?", type=values.tenant_name, help="the tenant")
    else:
        parser.add_argument(name, metavar=metavar, type=values.tenant_name, help="the tenant")


def add_wait(parser: argparse.ArgumentParser, what: str, *, minutes: int = 5) -> None:
    """`--wait` and `--timeout`; `minutes` is how long by default."""
    parser.add_argument("--wait", action=argparse.BooleanOptionalAction, default=True, help=f"wait {what} (default: yes)")
    parser.add_argument(
        "--timeout",
        metavar="TIME",
        type=values.seconds,
        default=minutes * 60.0,
        help=f"how long to wait: 90s, 5m; default {minutes}m",
    )


def wait_of(options: argparse.Namespace) -> Wait:
    """Whether and for how long to wait."""
    return Wait(options.wait, options.timeout)


def add_output(parser: argparse.ArgumentParser, *forms: Form, more: str = "") -> None:
    """`-o FORMAT`: the format of a command's output."""
    parser.add_argument(
        "-o",
        "--output",
        choices=list(forms or FORMS),
        # Until 0.1, some commands called their table `text`.
        type=lambda text: "table" if text == "text" else text,
        default="table",
        help=f"output format; default table{more}",
    )


def form_of(options: argparse.Namespace) -> Form:
    """The format of the output."""
    return cast("Form", options.output)


def add_target(parser: Parser, what: str, default: str) -> None:
    """`--write FILE` and `-o FORMAT`; until the next release also `-o FILE`."""
    parser.add_argument("--write", metavar="FILE", help=f"where to write the kubeconfig ({default})")
    parser.add_argument("-o", "--output", metavar="FORMAT", help=f"json or yaml: the format of {what}")


def target_of(options: argparse.Namespace) -> Target:
    """Where to write and in which format to print. A path after `-o` works for one more release, with a warning on stderr."""
    output: str | None = options.output
    if output is None:
        return Target(options.write)
    if output in {"json", "yaml"}:
        return Target(options.write, cast("Literal['json', 'yaml']", output))
    sys.stderr.write(f"deprecated: -o must be a format, json or yaml; write a file with --write {output}\n")
    return Target(options.write or output)


def add_tunnel(parser: argparse.ArgumentParser, what: str) -> None:
    """`--tunnel`."""
    parser.add_argument(
        "--tunnel",
        choices=("auto", "always", "never"),
        default="auto",
        help=f"{what} through the host's API: if there is no other way (auto, the default), always or never",
    )
