"""`bulkhead tenant verify-snapshot`: read a stored snapshot with every check that a restore makes, and change nothing.

    TenantSnapshot ──> where it is ──> manifest, signed by this installation ──> digests, decryption with the admin's key,
                                                                                 etcd's own digest, the plane's keys

The private key stays in this process. Nothing of the content is written or shown.
"""

import argparse
import asyncio
import base64
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.signing import Ring, SignatureError, public_key
from bulkhead.snapshots import reading
from bulkhead.snapshots.judge import RefusedError, Taker
from bulkhead.snapshots.place import Place, parse
from bulkhead.snapshots.sealing import SealError, identities
from bulkhead.snapshots.target import Target, TargetError
from workstation.cli import connection, values
from workstation.cli.arguments import Host, add_host, host_of
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import Progress
from workstation.cli.parsing import Actions

KEYS: Final = "bulkhead-identity"
_MOST_BYTES: Final = 16 * 1024**3
_KEY_FILE_BYTES: Final = 64 * 1024
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """`tenant verify-snapshot SNAPSHOT --key FILE`."""

    host: Host
    snapshot: str
    key: Path
    endpoint: str
    region: str
    plain_http: bool
    directory: Path | None
    namespace: str


def add_verify_snapshot(actions: Actions) -> None:
    """`tenant verify-snapshot`."""
    parser = actions.add_parser(
        "verify-snapshot",
        help="read a stored snapshot with every check, without changing anything",
        description="Read a snapshot from where it is stored, decrypt it with a private key, and check that it is whole and of "
        "this installation. Credentials of S3 come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY).",
    )
    add_host(parser)
    parser.add_argument("snapshot", metavar="SNAPSHOT", type=values.object_name, help="the TenantSnapshot")
    parser.add_argument("--key", metavar="FILE", type=Path, required=True, help="private key of age, as age-keygen writes it")
    parser.add_argument("--endpoint", metavar="URL", default="", help="S3 service other than AWS, as this machine reaches it")
    parser.add_argument("--region", metavar="REGION", default="", help="its region")
    parser.add_argument("--plain-http", action="store_true", help="the endpoint may be http://")
    parser.add_argument("--directory", metavar="DIR", type=Path, help="a copy of the bucket's prefix, or of the volume, here")
    parser.add_argument(
        "--namespace", metavar="NAMESPACE", default=names.SYSTEM_NAMESPACE, type=values.object_name, help="of the controller"
    )
    parser.does(_request, verify)


def _request(options: argparse.Namespace) -> VerifyRequest:
    return VerifyRequest(
        host_of(options),
        options.snapshot,
        options.key,
        options.endpoint,
        options.region,
        options.plain_http,
        options.directory,
        options.namespace,
    )


def verify(request: VerifyRequest) -> int:
    """`bulkhead tenant verify-snapshot`."""
    try:
        return asyncio.run(_verify(request))
    except KeyboardInterrupt:
        raise CliError("interrupted", next_step="nothing was changed", code=Exit.INTERRUPTED) from None
    except (RefusedError, SealError, TargetError) as error:
        raise CliError(f"snapshot {request.snapshot} cannot be relied on: {error}") from error


async def _verify(request: VerifyRequest) -> int:
    async with connection.host_client(request.host) as client:
        found = await _snapshot(client, request.snapshot)
        ring = await _ring(client, request.namespace)
    status = found.get("status") or {}
    identity, location = str(status.get("identity") or ""), str(status.get("location") or "")
    if not identity or not location:
        raise CliError(
            f"snapshot {request.snapshot} is not complete", next_step=f"kubectl get tnsnap {request.snapshot} -o wide"
        )
    keys, target = identities(_key_file(request.key)), Target(_place(request, location, identity))
    made = await reading.inspect(target, ring, identity, request.snapshot, Taker(_MOST_BYTES, identity))
    done = 0
    with Progress() as progress:
        async with aclosing(reading.store(target, made, keys)) as chunks:
            async for chunk in chunks:
                done += len(chunk)
                progress.show(f"read {done / _MIB:.1f} of {made.parts['etcd.age'].plain / _MIB:.1f} MiB")
        bundle = await reading.plane(target, made, keys)
    print(
        f"snapshot {request.snapshot} is whole: {done / _MIB:.1f} MiB of plane {made.identity} (tenant {made.tenant}, "
        f"Kubernetes {made.kubernetes}), taken at {made.created}, with {len(bundle.secrets)} Secrets of keys"
    )
    return Exit.DONE


async def _snapshot(client: Client, name: str) -> Obj:
    try:
        return await client.get(kinds.TENANT_SNAPSHOTS, name)
    except NotFound as error:
        raise CliError(f"no TenantSnapshot {name}", next_step="kubectl get tenantsnapshots", code=Exit.NOT_FOUND) from error


async def _ring(client: Client, namespace: str) -> Ring:
    """The public keys of the installation. The private one is not used here."""
    try:
        secret = await client.get(kinds.SECRETS, KEYS, namespace)
    except NotFound as error:
        raise CliError(f"no Secret {KEYS} in {namespace}", next_step="name the controller's namespace: --namespace") from error
    data = {name: value for name, value in (secret.get("data") or {}).items() if name.endswith(".pub")}
    try:
        return Ring(None, [public_key(base64.b64decode(data[name], validate=True)) for name in sorted(data)])
    except (SignatureError, ValueError) as error:
        raise CliError(f"Secret {KEYS} in {namespace}: {error}") from error


def _place(request: VerifyRequest, location: str, identity: str) -> Place:
    """Where the snapshot is, as this machine reaches it."""
    if request.directory is not None:
        return Place("file", str(request.directory.resolve()))
    url = location.removesuffix(f"/{identity}/{request.snapshot}/manifest.json")
    if urlsplit(url).scheme == "file":
        raise CliError(f"{url} is a volume of the controller", next_step="copy it here, and name the copy: --directory DIR")
    try:
        return parse(url, endpoint=request.endpoint, region=request.region, plain_http=request.plain_http)
    except ValueError as error:
        raise CliError(str(error), code=Exit.USAGE) from error


def _key_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_KEY_FILE_BYTES + 1)
    except OSError as error:
        raise CliError(f"--key {path}: {error.strerror}", code=Exit.USAGE) from error
    if len(data) > _KEY_FILE_BYTES:
        raise CliError(f"--key {path}: larger than {_KEY_FILE_BYTES} bytes", code=Exit.USAGE)
    return data.decode("utf-8", "replace")
