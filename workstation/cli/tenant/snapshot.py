"""`bulkhead tenant snapshot`: ask for a copy of a tenant's plane, and show how far it is.

    TenantSnapshot created ──> the controller takes it ──> its condition Complete, shown until it is true or false

The command stores nothing itself, and may be interrupted: the controller goes on.
"""

import argparse
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from bulkhead.api import labels, names
from bulkhead.api.conditions import SnapshotCondition, SnapshotReason, find_condition
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, NotFound, NotServed
from workstation.cli import connection, eventloop, values
from workstation.cli.arguments import Host, Wait, add_host, add_tenant, add_wait, host_of, wait_of
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import Progress, plain
from workstation.cli.parsing import Actions
from workstation.cli.tenant import patience
from workstation.cli.tenant.patience import LateError, Waits

_LOOK_EVERY: Final = 0.5


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """`tenant snapshot NAME`."""

    host: Host
    tenant: str
    name: str
    wait: Wait


def add_snapshot(actions: Actions) -> None:
    """`tenant snapshot`."""
    parser = actions.add_parser(
        "snapshot",
        help="store a copy of a tenant's plane, encrypted, where the installation keeps them",
        description="Take a snapshot of a tenant's plane: everything in its API, and its keys. The plane runs on meanwhile. "
        "Where snapshots are stored, and for which keys, the chart's values say (backup).",
    )
    parser.shows("bulkhead tenant snapshot red", "bulkhead tenant snapshot red --as before-upgrade")
    add_host(parser)
    add_tenant(parser, "name")
    parser.add_argument(
        "--as", dest="snapshot", metavar="SNAPSHOT", type=values.object_name, help="its name (default: tenant and time)"
    )
    add_wait(parser, "until it is stored")
    parser.does(_request, snapshot)


def _request(options: argparse.Namespace) -> SnapshotRequest:
    name = options.snapshot or f"{options.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    return SnapshotRequest(host_of(options), options.name, name, wait_of(options))


def snapshot(request: SnapshotRequest) -> int:
    """`bulkhead tenant snapshot`."""
    try:
        return eventloop.run(_snapshot(request))
    except KeyboardInterrupt:
        next_step = f"if it was asked for already, the controller goes on: kubectl get tenantsnapshot {request.name}"
        raise CliError("interrupted", next_step=next_step, code=Exit.INTERRUPTED) from None


async def _snapshot(request: SnapshotRequest) -> int:
    async with connection.host_client(request.host) as client:
        await connection.get_tenant(client, request.tenant)
        await _create(client, request)
        if not request.wait.wanted:
            print(f"snapshot {request.name} of tenant {request.tenant} is being taken")
            return Exit.DONE
        with Progress() as progress:
            message = await _until_stored(client, request, progress)
    print(f"snapshot {request.name} of tenant {request.tenant}: {message}")
    return Exit.DONE


async def _create(client: Client, request: SnapshotRequest) -> None:
    body: Obj = {
        "apiVersion": names.API_VERSION,
        "kind": kinds.TENANT_SNAPSHOTS.kind,
        "metadata": {"name": request.name, "labels": labels.made_for(request.tenant)},
        "spec": {"tenant": request.tenant},
    }
    try:
        await client.create(kinds.TENANT_SNAPSHOTS, body)
    except AlreadyExists as error:
        raise CliError(
            f"a TenantSnapshot {request.name} exists already", next_step="give another name: --as SNAPSHOT"
        ) from error
    except NotServed as error:
        raise CliError("this installation does not know snapshots", next_step="upgrade its chart") from error


async def _until_stored(client: Client, request: SnapshotRequest, progress: Progress) -> str:
    """The message of a snapshot that is whole."""

    async def look() -> str | Waits:
        try:
            found = await client.get(kinds.TENANT_SNAPSHOTS, request.name)
        except NotFound as error:
            raise CliError(f"snapshot {request.name} was deleted while it was taken", code=Exit.NOT_FOUND) from error
        told = find_condition((found.get("status") or {}).get("conditions") or [], SnapshotCondition.COMPLETE) or {}
        message = plain(told.get("message") or "the controller has not seen it yet", 500)
        if told.get("status") == "True":
            return message
        if told.get("reason") == SnapshotReason.FAILED:
            raise CliError(f"snapshot {request.name}: {message}")
        return Waits(message)

    subject, seconds = f"snapshot {request.name}", request.wait.seconds
    try:
        return await patience.until(client, look, subject, seconds=seconds, every=_LOOK_EVERY, progress=progress)
    except LateError as late:
        raise CliError(
            f"snapshot {request.name}: not stored after {seconds:g} s: {late.last}",
            next_step=f"the controller goes on: kubectl get tenantsnapshot {request.name}",
            code=Exit.TIMEOUT,
        ) from late
