"""`bulkhead debug collect`: an archive about one tenant, for a colleague or a maintainer.

It only reads. It works while the plane is dead, and says in its manifest what it could not read.
"""

import argparse
import asyncio
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import bulkhead
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from workstation.cli import connection, eventloop, values
from workstation.cli.arguments import Host, add_host, add_tenant, host_of
from workstation.cli.credentials import certificate
from workstation.cli.credentials import document as kubeconfigs
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import Progress, plain
from workstation.cli.parsing import RAW, Parser
from workstation.cli.quotas import hostview
from workstation.cli.quotas.decided import decided
from workstation.collect import archive
from workstation.collect.archive import Collected
from workstation.collect.gather import Gatherer, NotReadError

_LEAST_SECONDS: Final = 5
_MOST_SECONDS: Final = 600
_PLANE_SECONDS: Final = 8.0
_ANSWER_LIMIT_BYTES: Final = 16 << 20
_FAILURES_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class CollectRequest:
    """`debug collect TENANT`."""

    host: Host
    tenant: str
    # The archive; None for a name made of the tenant and the time, in the working directory.
    path: str | None
    seconds: float
    # Whether the plane is asked too.
    plane: bool


def add_arguments(parser: Parser) -> None:
    """`debug collect TENANT`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    collect = actions.add_parser(
        "collect",
        help="write an archive about one tenant, without secrets",
        description="Write an archive about one tenant for a colleague: objects of its plane, conditions, events, bounded\n"
        "logs of all parts, the state of its etcd, what the ledger counts and decides, what differs between plane and host,\n"
        "and versions. Secrets, and texts that the tenant wrote, are left out: names, numbers and reasons stay. Nothing is\n"
        "changed. Look into the archive before you send it to another company.",
        epilog="examples:\n"
        "  bulkhead debug collect red\n"
        "  bulkhead debug collect red --write /tmp/red.tar.gz --no-plane     a plane that hangs is not asked\n",
        formatter_class=RAW,
    )
    add_host(collect)
    add_tenant(collect)
    collect.add_argument("--write", metavar="FILE", help="the archive (default: TENANT-TIME.tar.gz in this directory)")
    collect.add_argument(
        "--timeout",
        metavar="DURATION",
        type=values.seconds_between(_LEAST_SECONDS, _MOST_SECONDS),
        default=50.0,
        help="how long to read; what is left then is named in the archive (default: 50s)",
    )
    collect.add_argument("--no-plane", action="store_true", help="ask the host alone")
    collect.does(_request, collect_tenant)


def _request(options: argparse.Namespace) -> CollectRequest:
    return CollectRequest(host_of(options), options.tenant, options.write, options.timeout, not options.no_plane)


def collect_tenant(request: CollectRequest) -> int:
    """`bulkhead debug collect TENANT`."""
    moment = datetime.now(UTC)
    folder = f"{request.tenant}-{moment:%Y%m%dT%H%M%SZ}"
    path = Path(request.path) if request.path else Path(f"{folder}.tar.gz")
    if not path.parent.is_dir():
        raise CliError(f"{path.parent} does not exist", next_step="give another file with --write", code=Exit.USAGE)
    begin = time.monotonic()
    found = eventloop.run(_collect(request))
    manifest = {
        "tenant": request.tenant,
        "collectedAt": f"{moment:%Y-%m-%dT%H:%M:%SZ}",
        "seconds": round(time.monotonic() - begin, 1),
        "commandVersion": bulkhead.__version__,
        "redacted": "secrets, and texts that the tenant wrote; names, numbers and reasons are kept",
    }
    try:
        archive.write(path, folder, found, manifest)
    except OSError as error:
        raise CliError(f"cannot write {path}: {error.strerror}") from error
    print(f"wrote {path}: {len(found.files)} files, {path.stat().st_size} bytes")
    for name, why in sorted(found.failures.items())[:_FAILURES_SHOWN]:
        sys.stderr.write(f"not read: {plain(name)}: {plain(why)}\n")
    if len(found.failures) > _FAILURES_SHOWN:
        sys.stderr.write(f"{len(found.failures) - _FAILURES_SHOWN} more were not read: see manifest.json in the archive\n")
    return Exit.DONE


async def _collect(request: CollectRequest) -> Collected:
    async with connection.host_client(request.host) as client:
        tenant = await connection.get_tenant(client, request.tenant)
        with Progress() as progress:
            plane, ledger = partial(_plane, client, request, tenant), partial(_decided, client, request.tenant)
            return await Gatherer(client, request.tenant, progress.show, plane, ledger).run(request.seconds)


async def _decided(client: Client, tenant: str) -> dict[str, Any]:
    try:
        view = await hostview.observe(client)
    except CliError as error:
        raise NotReadError(error.cause) from error
    return await asyncio.to_thread(decided, view, tenant)


async def _plane(client: Client, request: CollectRequest, tenant: Obj) -> Client:
    """A client of the plane. Raises NotReadError if it cannot be had."""
    if not request.plane:
        raise NotReadError("not asked (--no-plane)")
    try:
        found = await certificate.current(client, request.host, tenant, patience=_PLANE_SECONDS)
        data = kubeconfigs.with_certificate(tenant, found)
    except CliError as error:
        raise NotReadError(error.cause) from error
    return connection.plane_client(data, seconds=_PLANE_SECONDS, answer_bytes=_ANSWER_LIMIT_BYTES)
