"""`bulkhead console`: a page in the browser that shows the host as this user may read it, and stays current.

    kubeconfig ──> live: watches ──> board ──> the server on 127.0.0.1 ──> the browser that opens the link first

It ends with Ctrl-C, and leaves nothing behind.
"""

import argparse
import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from workstation.cli import connection, eventloop, values
from workstation.cli.arguments import Host, add_host, host_of
from workstation.cli.console.details import Details
from workstation.cli.console.live import Live
from workstation.cli.console.observe import namespace_of, source_of
from workstation.cli.console.ownlive import OwnLive
from workstation.cli.credentials import browser
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import Progress
from workstation.cli.parsing import RAW, Parser
from workstation.cli.renewal import LastingClient
from workstation.console.board import Board
from workstation.console.server import Console, Question

_SILENT_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class ConsoleRequest:
    """`console`."""

    host: Host
    # The kubeconfig of a tenant, for one of its users; None for the host.
    file: str | None
    # 0 for any.
    port: int
    browser: bool


def add_arguments(parser: Parser) -> None:
    """`console`."""
    parser.description = (
        "Open a page in the browser that shows the host and stays current: what is wrong first, a map of the GPUs, tenants,\n"
        "quotas, and the queue. It runs on this machine, reads with your kubeconfig, and writes nothing."
    )
    parser.epilog = (
        "examples:\n"
        "  bulkhead console\n"
        "  bulkhead console -f team-a.yaml                  as a user of a tenant, without rights on the host\n"
        "  bulkhead console --no-browser --port 8080        on a machine without a browser; then, on yours:\n"
        "  ssh -L 8080:127.0.0.1:8080 MACHINE               and open the link that the console printed\n\n"
        "The page listens on 127.0.0.1 only. Its link works once, for the browser that opens it first; another browser needs\n"
        "another console. Ctrl-C ends it. For a file to be mailed: bulkhead top --html FILE\n"
    )
    parser.formatter_class = RAW
    add_host(parser)
    parser.add_argument("-f", "--file", metavar="FILE", help="a tenant's kubeconfig: your own pods, quota and queue there")
    parser.add_argument(
        "--port", type=values.port, default=0, metavar="PORT", help="the port on 127.0.0.1; default: any free one"
    )
    parser.add_argument(
        "--browser", action=argparse.BooleanOptionalAction, default=True, help="open the link in the browser; default: yes"
    )
    parser.does(_request, run)


def _request(options: argparse.Namespace) -> ConsoleRequest:
    return ConsoleRequest(host_of(options), options.file, options.port, options.browser)


def run(request: ConsoleRequest) -> int:
    """`bulkhead console [--port PORT] [--no-browser]`."""
    # A lost connection is on the page; each watch would print it too.
    logging.getLogger("bulkhead.kube").setLevel(logging.CRITICAL)
    host = request.host if request.file is None else Host(request.file, request.host.context)
    # Before the loop, which a plugin that asks the user would hold up.
    return eventloop.run(_run(request, host, connection.host_client(host)))


async def _run(request: ConsoleRequest, host: Host, opened: LastingClient) -> int:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with opened as client:
        board = Board()
        followed, questions = await _followed(client, host, board, request)
        way = "live" if request.file is None else "own"
        async with Console(board, questions, way=way) as server, following(followed):
            await _listen(server, request.port)
            print(f"console: {server.link}", flush=True)
            print("this link works once; Ctrl-C ends the console", flush=True)
            if request.browser:
                browser.show_page(server.link)
            told = asyncio.create_task(_tell(followed))
            await ended.wait()
            told.cancel()
    print("console: ended")
    return Exit.DONE


async def _followed(
    client: Client, host: Host, board: Board, request: ConsoleRequest
) -> tuple[Live | OwnLive, dict[str, Question]]:
    """What is followed, and which questions its page may ask."""
    if request.file is not None:
        return OwnLive(client, source_of(host), board, namespace_of(host)), {}
    try:
        pages = client.pages(kinds.TENANTS, limit=1, metadata_only=True)
        async with contextlib.aclosing(pages):
            await anext(pages)
    except NotFound as error:
        raise CliError(
            "this cluster has no Tenants: Bulkhead is not installed in it, or it is a tenant's own",
            next_step="as a user of a tenant, give its kubeconfig: bulkhead console -f FILE",
        ) from error
    live = Live(client, source_of(host), board)
    details = Details(client, live)
    return live, {"nodes": live.nodes, "tenant": details.tenant, "try": details.attempt, "usage": details.usage}


async def _listen(server: Console, port: int) -> None:
    try:
        await server.start(port)
    except OSError as error:
        raise CliError(
            f"cannot listen on 127.0.0.1:{port}: {error.strerror}", next_step="give another --port, or none for any free one"
        ) from error


@contextlib.asynccontextmanager
async def following(live: Live | OwnLive) -> AsyncIterator[None]:
    """Follow the host within the block."""
    task = asyncio.create_task(live.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _tell(live: Live | OwnLive) -> None:
    """Progress of the first read, if it takes long."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_SILENT_SECONDS):
            await live.first.wait()
            return
    with Progress(sys.stderr) as progress:
        while not live.first.is_set():
            done, count = live.read()
            progress.show(f"reading from the host's API: {done} of {count} kinds")
            await asyncio.sleep(0.5)
