"""`bulkhead chaos run` and `bulkhead chaos stop`."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bulkhead.kube.errors import NotFound, NotServed
from workstation.chaos import run as running
from workstation.chaos import stop as stopping
from workstation.chaos.journal import Busy
from workstation.chaos.judge import Limits
from workstation.chaos.plan import Order, Plan, Refused, Why
from workstation.chaos.report import Report, document, junit, plan_document
from workstation.chaos.run import Ground
from workstation.chaos.stop import Ended
from workstation.cli import connection, eventloop
from workstation.cli.arguments import Form, Host, Tunnelling
from workstation.cli.chaos import show
from workstation.cli.chaos.reach import Reach, emptied, writable
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import Progress, told
from workstation.cli.output import document as print_document

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunRequest:
    """`chaos run`."""

    host: Host
    order: Order
    limits: Limits
    # Whether to do it, and not only to say what it would do.
    confirmed: bool
    tunnel: Tunnelling
    namespace: str
    # Where to write the result for a pipeline.
    junit: str | None
    form: Form


@dataclass(frozen=True, slots=True)
class StopRequest:
    """`chaos stop`."""

    host: Host
    # Whether not to wait for the lease of a run that may be alive.
    now: bool
    tunnel: Tunnelling
    namespace: str
    form: Form


def run(request: RunRequest) -> int:
    """`bulkhead chaos run`."""
    path = writable(request.junit) if request.junit else None
    if not request.confirmed:
        return _dry(request)
    if path:
        emptied(path)
    report = _ended(request)
    unwritten = _unwritten(path, report) if path else ""
    if request.form == "table":
        told(sys.stdout, lambda: show.report(report))
        told(sys.stderr, lambda: show.remains(report))
    else:
        told(sys.stdout, lambda: print_document(document(report), request.form))
    if report.left:
        told(sys.stderr, lambda: sys.stderr.write("next:  bulkhead chaos stop\n"))
    if unwritten:
        told(sys.stderr, lambda: sys.stderr.write(f"error: {unwritten}\n"))
    if report.interrupted:
        return Exit.INTERRUPTED
    return Exit.DONE if report.held and not unwritten else Exit.FAILED


def _ended(request: RunRequest) -> Report:
    """The run, which undoes itself when it is interrupted. Raises CliError if that was interrupted as well."""
    begun: list[Plan] = []
    try:
        return eventloop.run(_guarded(lambda: _run(request, begun.append)))
    except KeyboardInterrupt:
        if not begun:
            raise
        step = "undo what it has left: bulkhead chaos stop"
        raise CliError("interrupted before the run had undone itself", next_step=step, code=Exit.INTERRUPTED) from None


def _unwritten(path: str, report: Report) -> str:
    """Write the report for a pipeline: why it could not be written, or an empty text. The result is printed in any case."""
    try:
        Path(path).write_text(junit(report), encoding="utf-8")
    except OSError as error:
        return f"--junit {path}: cannot be written: {error.strerror}"
    return ""


def _dry(request: RunRequest) -> int:
    plan = eventloop.run(_guarded(lambda: _planned(request)))
    if request.form == "table":
        show.plan(plan)
        sys.stderr.write("\nnothing was changed\nnext:  run it with --yes\n")
    else:
        print_document(plan_document(plan), request.form)
    return Exit.DONE


async def _planned(request: RunRequest) -> Plan:
    async with connection.host_client(request.host) as client:
        ground = Ground(client, Reach(request.host, client, request.tunnel), request.namespace, show.warning)
        return await running.prepare(ground, request.order)


async def _run(request: RunRequest, begins: Callable[[Plan], object]) -> Report:
    async with connection.host_client(request.host) as client:
        with Progress() as progress:
            ground = Ground(client, Reach(request.host, client, request.tunnel), request.namespace, progress.show)
            plan = await running.prepare(ground, request.order)
            begins(plan)
            return await running.run(ground, plan, request.limits)


def stop(request: StopRequest) -> int:
    """`bulkhead chaos stop`."""
    ended = eventloop.run(_guarded(lambda: _stop(request)))
    if request.form == "table":
        told(sys.stdout, lambda: show.ended(ended))
        told(sys.stderr, lambda: show.left(ended.left))
    else:
        told(sys.stdout, lambda: print_document({"runs": list(ended.runs), "left": list(ended.left)}, request.form))
    return Exit.FAILED if ended.left else Exit.DONE


async def _stop(request: StopRequest) -> Ended:
    async with connection.host_client(request.host) as client:
        with Progress() as progress:
            reach = Reach(request.host, client, request.tunnel)
            return await stopping.stop(Ground(client, reach, request.namespace, progress.show), now=request.now)


async def _guarded(call: Callable[[], Awaitable[T]]) -> T:
    """Turn SIGTERM and a closed terminal into the same as Ctrl-C, and refusals into errors of the command line."""
    task = asyncio.current_task()
    if task is not None:
        _heed(task)
    try:
        return await call()
    except Refused as error:
        code = Exit.NOT_FOUND if error.why is Why.NOT_FOUND else Exit.USAGE
        raise CliError(f"refused: {error.cause}", next_step=error.next_step, code=code) from error
    except Busy as error:
        step = "wait for its end, or end it: bulkhead chaos stop"
        raise CliError(f"refused: {error}", next_step=step, code=Exit.USAGE) from error
    except NotServed as error:
        raise connection.not_installed() from error
    except NotFound as error:
        raise CliError(f"{error}", next_step="give Bulkhead's namespace with --namespace", code=Exit.NOT_FOUND) from error
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _heed(task: "asyncio.Task[object]") -> None:
    loop = asyncio.get_running_loop()

    def closed() -> None:
        # The kernel sends it, and the shell once more: the second one must not end what undoes the run.
        if not task.cancelling():
            task.cancel()

    with contextlib.suppress(NotImplementedError, RuntimeError):
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
        # What was started with `nohup` goes on without its terminal.
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            loop.add_signal_handler(signal.SIGHUP, closed)
