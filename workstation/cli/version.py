"""`bulkhead version`: the version of this command, and of the controller and chart on the host if they can be read.

This file is fast to import: the client is loaded only if a kubeconfig of a host is found.
"""

import argparse
from dataclasses import dataclass
from typing import Final

import bulkhead
from workstation.cli import hostfile
from workstation.cli.arguments import FORMS, Form, Host, add_host, add_output, form_of, host_of
from workstation.cli.failures import CliError, Exit
from workstation.cli.parsing import Parser

_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class VersionRequest:
    """`version`."""

    host: Host
    # Whether to leave out the host.
    client_only: bool
    form: Form


def add_arguments(parser: Parser) -> None:
    """`version`."""
    parser.description = (
        "Print this command's version, and those of the controller and the chart on the host, if a host answers."
    )
    parser.shows("bulkhead version", "bulkhead version --client -o json | jq -r .client.version")
    add_host(parser)
    parser.add_argument("--client", action="store_true", help="only this command's version")
    add_output(parser, *FORMS)
    parser.does(_request, show)


def _request(options: argparse.Namespace) -> VersionRequest:
    return VersionRequest(host_of(options), options.client, form_of(options))


def show(request: VersionRequest) -> int:
    """`bulkhead version [--client] [-o table|json|yaml]`."""
    found = None if request.client_only or not _has_host(request.host) else _of_host(request.host)
    if request.form != "table":
        from workstation.cli.output import document  # noqa: PLC0415

        document({"client": {"version": bulkhead.__version__}, "host": found}, request.form)
        return Exit.DONE
    print(f"bulkhead {bulkhead.__version__}")
    if found is not None:
        print(f"host: controller {found['controllerVersion'] or 'unknown'}, chart {found['chartVersion'] or 'unknown'}")
    return Exit.DONE


def _has_host(host: Host) -> bool:
    try:
        hostfile.find_kubeconfig(host.kubeconfig)
    except CliError:
        if host.kubeconfig:
            raise
        return False
    return True


def _of_host(host: Host) -> dict[str, str | None] | None:
    from workstation.cli import hostversion  # noqa: PLC0415 - loads the client

    return hostversion.read(host, _SECONDS)
