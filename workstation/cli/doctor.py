"""`bulkhead doctor`: checks an installation, and prints what is wrong with it, the worst first. Read-only.

The exit code is 1 if a check failed, and otherwise 0.
"""

import argparse
import sys
from dataclasses import dataclass, replace

from bulkhead.api.names import SYSTEM_NAMESPACE
from workstation.cli import connection, eventloop, values
from workstation.cli.arguments import Form, Host, add_host, add_output, form_of, host_of
from workstation.cli.failures import Exit
from workstation.cli.findings import show, worst
from workstation.cli.output import Progress, document, told
from workstation.cli.parsing import RAW, Parser
from workstation.doctor import run
from workstation.preflight.findings import Report, State
from workstation.preflight.findings import document as report_document


@dataclass(frozen=True, slots=True)
class DoctorRequest:
    """`doctor`."""

    host: Host
    namespace: str
    form: Form


def add_arguments(parser: Parser) -> None:
    """`doctor`."""
    parser.description = (
        "Check an installation: whether the chart's objects are there and as it wrote them, admission policies above all,\n"
        "whether a controller leads and reconciles, definitions, keys, certificates, syncers, snapshots, quotas, clocks.\n"
        "It reads and changes nothing. What your credentials may not read is skipped, with the reason."
    )
    parser.epilog = (
        "examples:\n"
        "  bulkhead doctor\n"
        "  bulkhead doctor -o json | jq '.checks[] | select(.state == \"failed\")'\n\n"
        "exit codes: 0 nothing failed (there may be warnings), 1 something failed\n"
    )
    parser.formatter_class = RAW
    add_host(parser)
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        type=values.object_name,
        default=SYSTEM_NAMESPACE,
        help=f"namespace of the release (default: {SYSTEM_NAMESPACE})",
    )
    add_output(parser)
    parser.does(_request, doctor)


def _request(options: argparse.Namespace) -> DoctorRequest:
    return DoctorRequest(host_of(options), options.namespace, form_of(options))


def doctor(request: DoctorRequest) -> int:
    """`bulkhead doctor`."""
    report = eventloop.run(_run(request))
    if request.form == "table":
        told(sys.stdout, lambda: show(report, worst_first=True))
    else:
        ordered = report_document(replace(report, checks=worst(report)))
        told(sys.stdout, lambda: document(ordered, request.form))
    return Exit.FAILED if report.state is State.FAILED else Exit.DONE


async def _run(request: DoctorRequest) -> Report:
    async with connection.host_client(request.host) as client:
        with Progress() as progress:
            return await run.run(client, request.namespace, progress.show)
