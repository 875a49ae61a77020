"""Where stored snapshots are, as this machine reaches them, and the keys to read them: shared by the commands that do.

    TenantSnapshot ──> its location        without one: --target or --directory, and IDENTITY/SNAPSHOT
The private key stays in this process.
"""

import argparse
import base64
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.signing import Ring, SignatureError, public_key
from bulkhead.snapshots.place import Place, parse
from bulkhead.snapshots.sealing import SealError, identities
from bulkhead.snapshots.target import Target
from workstation.cli import values
from workstation.cli.failures import CliError, Exit

if TYPE_CHECKING:
    import pyrage

KEYS: Final = "bulkhead-identity"
MOST_BYTES: Final = 16 * 1024**3
_KEY_FILE_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Where:
    """The options that say how snapshots are reached and read."""

    key: Path
    endpoint: str
    region: str
    plain_http: bool
    directory: Path | None
    namespace: str
    target: str = ""


def add_where(parser: argparse.ArgumentParser) -> None:
    """Those options."""
    parser.add_argument("--key", metavar="FILE", type=Path, required=True, help="private key of age, as age-keygen writes it")
    parser.add_argument("--target", metavar="URL", default="", help="where IDENTITY/SNAPSHOT is stored: s3://BUCKET/PREFIX")
    parser.add_argument("--endpoint", metavar="URL", default="", help="S3 service other than AWS, as this machine reaches it")
    parser.add_argument("--region", metavar="REGION", default="", help="its region")
    parser.add_argument("--plain-http", action="store_true", help="the endpoint may be http://")
    parser.add_argument("--directory", metavar="DIR", type=Path, help="a copy of the bucket's prefix, or of the volume, here")
    parser.add_argument(
        "--namespace", metavar="NAMESPACE", default=names.SYSTEM_NAMESPACE, type=values.object_name, help="of the controller"
    )


def where_of(options: argparse.Namespace) -> Where:
    """What the options say."""
    return Where(
        options.key,
        options.endpoint,
        options.region,
        options.plain_http,
        options.directory,
        options.namespace,
        options.target,
    )


@dataclass(frozen=True, slots=True)
class Source:
    """One stored snapshot, and where it is."""

    identity: str
    name: str
    target: Target


async def source_of(client: Client, name: str, where: Where) -> Source:
    """The snapshot that a TenantSnapshot is of, or that IDENTITY/SNAPSHOT names."""
    identity, slash, rest = name.partition("/")
    if slash:
        if not where.target and where.directory is None:
            raise CliError(
                f"{name}: where is it stored?", next_step="--target s3://BUCKET/PREFIX, or --directory DIR", code=Exit.USAGE
            )
        return Source(identity, rest, Target(_placed(where.target, where)))
    found = await snapshot_of(client, name)
    status = found.get("status") or {}
    identity, location = str(status.get("identity") or ""), str(status.get("location") or "")
    if not identity or not location:
        raise CliError(f"snapshot {name} is not complete", next_step=f"kubectl get tnsnap {name} -o wide")
    return Source(identity, name, Target(_placed(location.removesuffix(f"/{identity}/{name}/manifest.json"), where)))


async def snapshot_of(client: Client, name: str) -> Obj:
    """The TenantSnapshot."""
    try:
        return await client.get(kinds.TENANT_SNAPSHOTS, name)
    except NotFound as error:
        raise CliError(
            f"no TenantSnapshot {name}",
            next_step="kubectl get tenantsnapshots; on another host name IDENTITY/SNAPSHOT, as it is stored",
            code=Exit.NOT_FOUND,
        ) from error


async def ring_of(client: Client, namespace: str) -> Ring:
    """The public keys of the installation. The private one is not used here."""
    try:
        secret = await client.get(kinds.SECRETS, KEYS, namespace)
    except NotFound as error:
        raise CliError(
            f"no Secret {KEYS} in {namespace}: without it no snapshot can be recognised",
            next_step="name the controller's namespace: --namespace; or put the copy of the Secret back (docs/backup.md)",
        ) from error
    data = {name: value for name, value in (secret.get("data") or {}).items() if name.endswith(".pub")}
    try:
        return Ring(None, [public_key(base64.b64decode(data[name], validate=True)) for name in sorted(data)])
    except (SignatureError, ValueError) as error:
        raise CliError(f"Secret {KEYS} in {namespace}: {error}") from error


def keys_of(path: Path) -> "list[pyrage.x25519.Identity]":
    """The private keys in a file. Raises CliError if it has none."""
    try:
        with path.open("rb") as file:
            data = file.read(_KEY_FILE_BYTES + 1)
    except OSError as error:
        raise CliError(f"--key {path}: {error.strerror}", code=Exit.USAGE) from error
    if len(data) > _KEY_FILE_BYTES:
        raise CliError(f"--key {path}: larger than {_KEY_FILE_BYTES} bytes", code=Exit.USAGE)
    try:
        return list(identities(data.decode("utf-8", "replace")))
    except SealError as error:
        raise CliError(f"--key {path}: {error}", code=Exit.USAGE) from error


def target_of(where: Where) -> Target:
    """The place that the options name by themselves."""
    return Target(_placed(where.target, where))


def _placed(url: str, where: Where) -> Place:
    if where.directory is not None:
        return Place("file", str(where.directory.resolve()))
    if url.startswith("file:"):
        raise CliError(f"{url} is a volume of the controller", next_step="copy it here, and name the copy: --directory DIR")
    try:
        return parse(url, endpoint=where.endpoint, region=where.region, plain_http=where.plain_http)
    except ValueError as error:
        raise CliError(str(error), code=Exit.USAGE) from error
