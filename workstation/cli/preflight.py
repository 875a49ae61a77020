"""`bulkhead preflight`: reads the values, runs the checks, and prints their findings.

The exit code is 1 if a check failed, and otherwise 0. An interrupted run removes its probes before it returns.
"""

import argparse
import asyncio
import contextlib
import ipaddress
import json
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from workstation.cli import connection, eventloop, homefolder, values
from workstation.cli.arguments import Form, Host, add_host, add_output, form_of, host_of
from workstation.cli.failures import CliError, Exit
from workstation.cli.findings import show
from workstation.cli.output import Progress, document, plain, told
from workstation.cli.parsing import RAW, Parser
from workstation.cli.quotas.guess import did_you_mean
from workstation.preflight import run
from workstation.preflight.findings import Report, State
from workstation.preflight.findings import document as report_document
from workstation.preflight.known import unknown
from workstation.preflight.values import Values, merged, parse

_FILE_LIMIT: Final = 1 << 20
_MAX_RANGES: Final = 64
_LEAST_SECONDS: Final = 5.0
_MAX_SECONDS: Final = 60.0  # probes end by themselves, and a later run recognises old remains by their age


@dataclass(frozen=True, slots=True)
class PreflightRequest:
    """`preflight`: file options are paths; `-` is stdin."""

    host: Host
    values_files: tuple[str, ...]
    # Networks that are in use.
    ranges: tuple[str, ...]
    rwx_classes: tuple[str, ...]
    image: str | None
    registry_config: str | None
    namespace: str
    seconds: float
    form: Form


def add_arguments(parser: Parser) -> None:
    """`preflight`."""
    parser.description = (
        "Check a cluster before Bulkhead is installed: versions and APIs, overlapping address ranges, whether\n"
        "NetworkPolicies are really enforced, storage, nodes, GPUs, images with their pull secrets, rights, leftovers.\n"
        "It creates pods in a namespace of its own, removes them, and takes at most a minute."
    )
    parser.epilog = (
        "examples:\n"
        "  bulkhead preflight --values values.yaml\n"
        "  bulkhead preflight --values values.yaml --range 10.96.0.0/11 --range 192.168.0.0/16\n"
        "  bulkhead preflight -o json | jq '.checks[] | select(.state == \"failed\")'\n\n"
        "exit codes: 0 nothing failed (there may be warnings), 1 something failed\n"
    )
    parser.formatter_class = RAW
    add_host(parser)
    for option, metavar, kind, what in (
        ("--values", "FILE", str, "values file, as for `helm install -f`"),
        ("--range", "CIDR", _range, "a network in use that services.range must not overlap"),
        ("--rwx-class", "CLASS", str, "StorageClass to test with ReadWriteMany"),
    ):
        parser.add_argument(option, metavar=metavar, type=kind, action="append", default=[], help=f"{what}; may be repeated")
    parser.add_argument("--image", metavar="IMAGE", help="image with python3 for the probes (default: the bulkhead image)")
    parser.add_argument("--registry-config", metavar="FILE", help="a config.json of `docker login`, to test as a pull secret")
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        type=values.object_name,
        default="bulkhead-system",
        help="namespace of the release, with the pull secrets (default: bulkhead-system)",
    )
    parser.add_argument(
        "--timeout",
        metavar="TIME",
        type=values.seconds_between(_LEAST_SECONDS, _MAX_SECONDS),
        default=_MAX_SECONDS,
        help="for the whole run; at most 60s, the default",
    )
    add_output(parser)
    parser.add_argument("--json", dest="output", action="store_const", const="json", help="the same as -o json")
    parser.does(_request, preflight)


def _request(options: argparse.Namespace) -> PreflightRequest:
    if len(options.range) > _MAX_RANGES:
        raise CliError(
            f"--range may be given {_MAX_RANGES} times at most, not {len(options.range)} times",
            next_step="give larger networks",
            code=Exit.USAGE,
        )
    return PreflightRequest(
        host=host_of(options),
        values_files=tuple(options.values),
        ranges=tuple(options.range),
        rwx_classes=tuple(options.rwx_class),
        image=options.image,
        registry_config=options.registry_config,
        namespace=options.namespace,
        seconds=options.timeout,
        form=form_of(options),
    )


def preflight(request: PreflightRequest) -> int:
    """`bulkhead preflight`."""
    given = parse(merged(_document(path) for path in request.values_files), reserved=request.ranges)
    order = run.Order(
        image=request.image,
        registry_config=_registry_config(request.registry_config) if request.registry_config else None,
        shared_classes=request.rwx_classes,
        namespace=request.namespace,
        seconds=request.seconds,
    )
    report = eventloop.run(_run(request.host, given, order))
    if request.form == "table":
        told(sys.stdout, lambda: show(report))
    else:
        told(sys.stdout, lambda: document(report_document(report), request.form))
    return Exit.FAILED if report.state is State.FAILED else Exit.DONE


async def _run(host: Host, given: Values, order: run.Order) -> Report:
    task = asyncio.current_task()
    if task is not None:
        # SIGTERM, like Ctrl-C, should remove the probes before the process ends.
        # If the loop accepts no handlers (another system, another thread), SIGTERM ends the process at once, and the next run
        # removes what it left.
        with contextlib.suppress(NotImplementedError, RuntimeError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        async with connection.host_client(host) as client:
            with Progress() as progress:
                return await run.run(client, given, order, progress.show)
    except asyncio.CancelledError:
        # `asyncio.run` raises KeyboardInterrupt itself after Ctrl-C; this is for SIGTERM.
        raise KeyboardInterrupt from None


def _range(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError as error:
        raise values.wrong("a network such as 10.0.0.0/8", text) from error


def _document(path: str) -> Mapping[str, Any]:
    import yaml  # noqa: PLC0415 - slow to load

    data = _read(path, "--values")
    try:
        found = yaml.safe_load(data)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise CliError(f"--values {path}: {error}", next_step="give a file for `helm install -f`", code=Exit.USAGE) from error
    if found is not None and not isinstance(found, dict):
        raise CliError(
            f"--values {path} must contain a mapping", next_step="give a file for `helm install -f`", code=Exit.USAGE
        )
    for name, there in unknown(found or {}):
        raise CliError(
            f"--values {path}: the chart has no value {plain(name, 100)}",
            next_step=did_you_mean(str(name).rpartition(".")[2], there, f"known here: {', '.join(there)}"),
            code=Exit.USAGE,
        )
    return found or {}


def _registry_config(path: str) -> bytes:
    data = _read(path, "--registry-config")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CliError(f"--registry-config {path} is not JSON: {error}", code=Exit.USAGE) from error
    if not isinstance(found, dict) or not isinstance(found.get("auths"), dict):
        step = "give a config.json that docker login wrote, with passwords in it rather than in a credential store"
        raise CliError(f"--registry-config {path} names no registries (auths)", next_step=step, code=Exit.USAGE)
    return data


def _read(path: str, option: str) -> bytes:
    try:
        with sys.stdin.buffer if path == "-" else homefolder.expanded(path).open("rb") as file:
            data = file.read(_FILE_LIMIT + 1)
    except OSError as error:
        raise CliError(f"{option} {path}: {error.strerror}", code=Exit.USAGE) from error
    if len(data) > _FILE_LIMIT:
        raise CliError(f"{option} {path} is larger than {_FILE_LIMIT >> 20} MiB", code=Exit.USAGE)
    return data
