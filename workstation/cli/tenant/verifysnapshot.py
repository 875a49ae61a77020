"""`bulkhead tenant verify-snapshot`: read a stored snapshot with every check that a restore makes, and change nothing.

    TenantSnapshot ──> where it is ──> manifest, signed by this installation ──> digests, decryption with the admin's key,
                                                                                 etcd's own digest, the plane's keys
The private key stays in this process. Nothing of the content is written or shown.
"""

import argparse
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from bulkhead.snapshots import reading
from bulkhead.snapshots.judge import RefusedError, Taker
from bulkhead.snapshots.layout import STORE
from bulkhead.snapshots.sealing import SealError
from bulkhead.snapshots.target import TargetError
from workstation.cli import connection, eventloop, values
from workstation.cli.arguments import Host, add_host, host_of
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import Progress
from workstation.cli.parsing import Actions
from workstation.cli.tenant.snapshotsource import MOST_BYTES, Where, add_where, keys_of, ring_of, source_of, where_of

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """`tenant verify-snapshot SNAPSHOT --key FILE`."""

    host: Host
    snapshot: str
    where: Where


def add_verify_snapshot(actions: Actions) -> None:
    """`tenant verify-snapshot`."""
    parser = actions.add_parser(
        "verify-snapshot",
        help="read a stored snapshot with every check, without changing anything",
        description="Read a snapshot from where it is stored, decrypt it with a private key, and check that it is whole and of "
        "this installation. Credentials of S3 come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY).",
    )
    parser.shows("bulkhead tenant verify-snapshot before-upgrade --key key.txt")
    add_host(parser)
    parser.add_argument(
        "snapshot",
        metavar="SNAPSHOT",
        type=values.snapshot_name,
        help="the TenantSnapshot; where there is none, IDENTITY/SNAPSHOT as it is stored",
    )
    add_where(parser)
    parser.does(_request, verify)


def _request(options: argparse.Namespace) -> VerifyRequest:
    return VerifyRequest(host_of(options), options.snapshot, where_of(options))


def verify(request: VerifyRequest) -> int:
    """`bulkhead tenant verify-snapshot`."""
    try:
        return eventloop.run(_verify(request))
    except KeyboardInterrupt:
        raise CliError("interrupted", next_step="nothing was changed", code=Exit.INTERRUPTED) from None
    except (RefusedError, SealError, TargetError) as error:
        raise CliError(f"snapshot {request.snapshot} cannot be relied on: {error}") from error


async def _verify(request: VerifyRequest) -> int:
    async with connection.host_client(request.host) as client:
        source = await source_of(client, request.snapshot, request.where)
        ring = await ring_of(client, request.where.namespace)
    keys = keys_of(request.where.key)
    made = await reading.inspect(source.target, ring, source.identity, source.name, Taker(MOST_BYTES, source.identity))
    done = 0
    with Progress() as progress:
        async with aclosing(reading.store(source.target, made, keys)) as chunks:
            async for chunk in chunks:
                done += len(chunk)
                progress.show(f"read {done / _MIB:.1f} of {made.parts[STORE].plain / _MIB:.1f} MiB")
        bundle = await reading.plane(source.target, made, keys)
    print(
        f"snapshot {request.snapshot} is whole: {done / _MIB:.1f} MiB of plane {made.identity} (tenant {made.tenant}, "
        f"Kubernetes {made.kubernetes}), taken at {made.created}, with {len(bundle.secrets)} Secrets of keys"
    )
    return Exit.DONE
