"""`bulkhead preflight`: reads the values, runs the checks, prints what they found.

Exit code 0 where nothing failed and 1 where something did. An interrupted run removes its probes before it returns.
"""

import argparse
import asyncio
import contextlib
import ipaddress
import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from workstation.cli import connection
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import Progress, document, plain, table
from workstation.preflight import run
from workstation.preflight.findings import Report, State, shortened
from workstation.preflight.findings import document as report_document
from workstation.preflight.values import Values, merged, parse

_FILE_LIMIT: Final = 1 << 20
_MOST_RANGES: Final = 64
_LEAST_SECONDS: Final = 5.0
_MOST_SECONDS: Final = 60.0  # probes end by themselves, and what a killed run left is known by its age
_SHOWN: Final = {State.OK: "ok", State.WARNING: "warning", State.FAILED: "FAILED", State.SKIPPED: "skipped"}


def preflight(options: argparse.Namespace) -> int:
    """`bulkhead preflight`."""
    if not _LEAST_SECONDS <= options.timeout <= _MOST_SECONDS:
        raise CliError(f"--timeout must be between {_LEAST_SECONDS:g}s and {_MOST_SECONDS:g}s", code=Exit.USAGE)
    values = _values(options)
    order = run.Order(
        image=options.image,
        registry_config=_registry_config(options.registry_config) if options.registry_config else None,
        shared_classes=tuple(options.rwx_class),
        namespace=options.namespace,
        seconds=options.timeout,
    )
    report = asyncio.run(_run(options, values, order))
    if options.json:
        document(report_document(report), "json")
    else:
        _print(report)
    return Exit.FAILED if report.state is State.FAILED else Exit.DONE


async def _run(options: argparse.Namespace, values: Values, order: run.Order) -> Report:
    task = asyncio.current_task()
    if task is not None:
        # Whoever ends a job by SIGTERM wants its probes gone as much as whoever types Ctrl-C.
        # Where loops take no handlers (another system, another thread) SIGTERM ends the process as ever, and the next run
        # removes what it left.
        with contextlib.suppress(NotImplementedError, RuntimeError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        async with connection.host_client(options) as client:
            with Progress() as progress:
                return await run.run(client, values, order, progress.show)
    except asyncio.CancelledError:
        # By Ctrl-C `asyncio.run` says so itself; this is for SIGTERM.
        raise KeyboardInterrupt from None


def _values(options: argparse.Namespace) -> Values:
    ranges = [_range(each) for each in options.range]
    if len(ranges) > _MOST_RANGES:
        raise CliError(f"--range may be given {_MOST_RANGES} times at most", code=Exit.USAGE)
    return parse(merged(_document(each) for each in options.values), reserved=ranges)


def _range(value: str) -> str:
    try:
        return str(ipaddress.ip_network(value, strict=False))
    except ValueError as error:
        raise CliError(f"--range {value}: {error}", next_step="give a network such as 10.0.0.0/8", code=Exit.USAGE) from error


def _document(path: str) -> Mapping[str, Any]:
    import yaml  # noqa: PLC0415 - slow to load

    data = _read(path, "--values")
    try:
        found = yaml.safe_load(data)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise CliError(
            f"--values {path}: {error}", next_step="give the file that `helm install -f` gets", code=Exit.USAGE
        ) from error
    if found is not None and not isinstance(found, dict):
        raise CliError(
            f"--values {path} holds no mapping", next_step="give the file that `helm install -f` gets", code=Exit.USAGE
        )
    return found or {}


def _registry_config(path: str) -> bytes:
    data = _read(path, "--registry-config")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CliError(f"--registry-config {path} is no JSON: {error}", code=Exit.USAGE) from error
    if not isinstance(found, dict) or not isinstance(found.get("auths"), dict):
        step = "give a config.json as docker login writes it, with its passwords in it and not in a credential store"
        raise CliError(f"--registry-config {path} names no registries (auths)", next_step=step, code=Exit.USAGE)
    return data


def _read(path: str, option: str) -> bytes:
    try:
        with sys.stdin.buffer if path == "-" else Path(path).expanduser().open("rb") as file:
            data = file.read(_FILE_LIMIT + 1)
    except OSError as error:
        raise CliError(f"{option} {path}: {error.strerror}", code=Exit.USAGE) from error
    if len(data) > _FILE_LIMIT:
        raise CliError(f"{option} {path} is larger than {_FILE_LIMIT >> 20} MiB", code=Exit.USAGE)
    return data


def _print(report: Report) -> None:
    table(
        ("CHECK", "RESULT", "FINDING"), [(each.check, _SHOWN[each.finding.state], each.finding.cause) for each in report.checks]
    )
    for each in report.checks:
        if each.finding.state not in {State.FAILED, State.WARNING}:
            continue
        print(f"\n{_SHOWN[each.finding.state]}: {each.title} ({each.check})")
        print(f"  cause: {plain(each.finding.cause, 600)}")
        for detail in shortened(each.finding.details):
            print(f"    - {plain(detail, 600)}")
        print(f"  cure:  {plain(each.finding.cure, 600)}")
    print(f"\n{', '.join(f'{report.count(state)} {_SHOWN[state]}' for state in State)}; {report.seconds:.0f} s")
    for namespace in report.swept:
        sys.stderr.write(f"removed {plain(namespace)}, which an interrupted run had left\n")
    for left in report.left:
        sys.stderr.write(f"warning: still there: {plain(left)}\n")
