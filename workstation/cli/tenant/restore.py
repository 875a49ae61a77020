"""`bulkhead tenant restore`: put a snapshot in the place of a tenant's plane or make a clone of it, or say what that would do.

    read and check everything ──> say what is lost ──> confirm ──> controller and command work together ──> what is left to do
The private key stays in this process; the controller gets the decrypted store by a port-forward into the plane's namespace.
"""

import argparse
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bulkhead.api.objects import Obj
from bulkhead.snapshots.sealing import SealError
from bulkhead.snapshots.target import TargetError
from workstation.cli import connection, eventloop, values
from workstation.cli.arguments import Host, Wait, add_host, add_tenant, add_wait, host_of, wait_of
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import Progress, plain
from workstation.cli.parsing import Actions
from workstation.cli.tenant import cloneplan, confirmation, restoreplan
from workstation.cli.tenant.restoreall import Everything, restore_all
from workstation.cli.tenant.restoreplan import RestorePlan, Stored
from workstation.cli.tenant.restorework import Restoring
from workstation.cli.tenant.snapshotsource import Where, add_where, keys_of, ring_of, source_of, target_of, where_of


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """`tenant restore NAME --from SNAPSHOT --key FILE`.

    clone: the name of the clone that it becomes; empty for none. storage: the size of the volumes of a Tenant that is made.
    """

    host: Host
    tenant: str
    snapshot: str
    where: Where
    dry_run: bool
    confirmed: bool
    discard: bool
    everything: bool
    clone: str
    scratch: Path | None
    storage: str
    wait: Wait


def add_restore(actions: Actions) -> None:
    """`tenant restore`."""
    parser = actions.add_parser(
        "restore",
        help="put a snapshot in the place of a tenant's plane, or make another tenant of it",
        description="Put a snapshot in the place of a tenant's plane. Everything is checked before anything is changed, and "
        "all that is wrong is listed at once. The tenant's pods run on; what the snapshot does not know is listed, and "
        "stays until you accept the data. If the command is interrupted, run it again: it goes on. Credentials of S3 come from "
        "the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY).",
    )
    parser.shows(
        "bulkhead tenant restore red --from red-20261126-124805 --key key.txt --dry-run",
        "bulkhead tenant restore red --from red-20261126-124805 --key key.txt --as red2      a clone; red stays as it is",
        "bulkhead tenant restore --all --target s3://backups/cluster-a --key key.txt         after the loss of a cluster",
    )
    add_host(parser)
    add_tenant(parser, "name", optional=True)
    parser.add_argument(
        "--all",
        dest="everything",
        action="store_true",
        help="every tenant of --target or --directory that is not here, from its newest snapshot; planes that are here stay",
    )
    parser.add_argument(
        "--from",
        dest="snapshot",
        metavar="SNAPSHOT",
        type=values.snapshot_name,
        help="the TenantSnapshot; where there is none, IDENTITY/SNAPSHOT as it is stored",
    )
    parser.add_argument(
        "--as",
        dest="clone",
        metavar="NAME",
        type=values.tenant_name,
        help="make another tenant of it: a clone with identity, slice, keys and certificates of its own; NAME is not there yet",
    )
    add_where(parser)
    parser.add_argument("--dry-run", action="store_true", help="check everything, say what would be lost, and change nothing")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--discard-old-data",
        action="store_true",
        help="delete the plane's present data once the snapshot has arrived (default: keep it until the next restore)",
    )
    parser.add_argument(
        "--scratch", metavar="DIR", type=Path, help="a directory with room for the decrypted store (default: TMPDIR)"
    )
    parser.add_argument(
        "--storage",
        metavar="SIZE",
        type=values.volume_size,
        help="how large the volumes of the plane are, such as 4Gi, of a clone or of a tenant that is not here "
        "(default: as in the snapshot)",
    )
    add_wait(parser, "until the plane runs with it", minutes=30)
    parser.does(_request, restore)


def _request(options: argparse.Namespace) -> RestoreRequest:
    where = where_of(options)
    if options.everything:
        if options.name or options.snapshot or options.clone or options.storage:
            what = "--all takes neither a tenant nor --from nor --as nor --storage"
            raise CliError(what, next_step="give one or the other", code=Exit.USAGE)
        if not where.target and where.directory is None:
            raise CliError(
                "--all: where are they stored?", next_step="--target s3://BUCKET/PREFIX, or --directory DIR", code=Exit.USAGE
            )
    elif not (options.name and options.snapshot):
        raise CliError("name a tenant, and its snapshot with --from; or give --all", code=Exit.USAGE)
    if options.clone and options.clone == options.name:
        raise CliError(
            f"--as {options.clone}: a clone needs another name than its original",
            next_step=f"leave --as out to put the snapshot in the place of tenant {options.name}",
            code=Exit.USAGE,
        )
    if options.clone and options.discard_old_data:
        raise CliError("--discard-old-data: a clone takes the place of no data", next_step="leave it out", code=Exit.USAGE)
    return RestoreRequest(
        clone=options.clone or "",
        host=host_of(options),
        tenant=options.name or "",
        snapshot=options.snapshot or "",
        where=where,
        dry_run=options.dry_run,
        confirmed=options.yes,
        discard=options.discard_old_data,
        everything=options.everything,
        scratch=options.scratch,
        storage=options.storage or "",
        wait=wait_of(options),
    )


def restore(request: RestoreRequest) -> int:
    """`bulkhead tenant restore`."""
    try:
        if request.everything:
            return eventloop.run(_everything(request))
        return eventloop.run(_clone(request) if request.clone else _restore(request))
    except KeyboardInterrupt:
        next_step = "run the same command again: it goes on where this one was"
        raise CliError("interrupted", next_step=next_step, code=Exit.INTERRUPTED) from None
    except TargetError as error:
        raise CliError(f"snapshots cannot be read: {error}", next_step="nothing was changed") from error
    except SealError as error:
        raise CliError(f"--key {request.where.key}: {error}", code=Exit.USAGE) from error
    except OSError as error:
        if error.filename is None:
            raise
        raise CliError(f"--scratch {error.filename}: {error.strerror}", code=Exit.USAGE) from error


async def _everything(request: RestoreRequest) -> int:
    keys = keys_of(request.where.key)
    async with connection.host_client(request.host) as client:
        ring, target = await ring_of(client, request.where.namespace), target_of(request.where)
        asked = Everything(target, ring, keys, request.scratch, request.wait.seconds, request.dry_run)
        return await restore_all(client, asked)


async def _restore(request: RestoreRequest) -> int:
    name = request.tenant
    keys = keys_of(request.where.key)
    async with connection.host_client(request.host) as client:
        source, ring = await source_of(client, request.snapshot, request.where), await ring_of(client, request.where.namespace)
        # The file has no name: it goes with this process, whatever ends it.
        with tempfile.TemporaryFile(dir=request.scratch) as spool:
            with Progress() as progress:
                stored = Stored(source, ring, keys, spool)
                plan = await restoreplan.look(client, name, stored, progress, discard=request.discard, storage=request.storage)
            _refuse(request, plan)
            sys.stderr.write(restoreplan.told(plan, name, datetime.now(UTC)))
            if request.dry_run:
                print(f"tenant {name}: snapshot {request.snapshot} can take the place of its plane; nothing was changed")
                return Exit.DONE
            if plan.resumed is not None:
                sys.stderr.write(f"tenant {name}: going on with restore {plan.resumed['metadata']['name']}\n")
            elif plan.tenant is not None and not request.confirmed:
                warning = f"The present data of tenant {name} is replaced"
                confirmation.ask(name, "a restore replaces its present data", warning, "nothing changed")
            with Progress() as progress:
                work = Restoring(client, name, plan, spool, progress)
                asked = await work.begin(discard=request.discard)
                done = await work.finish(asked, request.wait.seconds)
    _say(name, done)
    return Exit.DONE


async def _clone(request: RestoreRequest) -> int:
    name, original = request.clone, request.tenant
    keys = keys_of(request.where.key)
    async with connection.host_client(request.host) as client:
        source, ring = await source_of(client, request.snapshot, request.where), await ring_of(client, request.where.namespace)
        with tempfile.TemporaryFile(dir=request.scratch) as spool:
            with Progress() as progress:
                stored = Stored(source, ring, keys, spool)
                made = await cloneplan.look(client, original, name, stored, progress, storage=request.storage)
            _refuse(request, made.plan)
            sys.stderr.write(cloneplan.told(made, name, datetime.now(UTC)))
            if request.dry_run:
                print(f"tenant {name} can be made of snapshot {request.snapshot}; nothing was changed")
                return Exit.DONE
            if made.plan.resumed is not None:
                sys.stderr.write(f"tenant {name}: going on with restore {made.plan.resumed['metadata']['name']}\n")
            with Progress() as progress:
                work = Restoring(client, name, made.plan, spool, progress)
                done = await work.finish(await work.begin(discard=False), request.wait.seconds)
    _say(name, done)
    return Exit.DONE


def _refuse(request: RestoreRequest, plan: RestorePlan) -> None:
    if plan.reasons:
        listed = "".join(f"\n  - {plain(reason, 500)}" for reason in plan.reasons)
        name = request.clone or request.tenant
        raise CliError(f"tenant {name}: snapshot {request.snapshot} is refused, and nothing was changed:{listed}")


def _say(name: str, done: Obj) -> None:
    status = done.get("status") or {}
    print(f"tenant {name} runs with snapshot {status.get('snapshot')} of {status.get('snapshotTime')}")
    unknown, count = status.get("unknown") or [], int(status.get("unknownCount") or 0)
    conditions = status.get("conditions") or [{}]
    sys.stderr.write(f"{plain(conditions[0].get('message') or '', 1000)}\n")
    for listed in unknown:
        sys.stderr.write(f"  {plain(listed, 600)}\n")
    if count > len(unknown):
        sys.stderr.write(f"  and {count - len(unknown)} more\n")
