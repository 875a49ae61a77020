"""`bulkhead tenant export`: everything that a tenant owns in its plane, as YAML files that another cluster takes.

    discovery ──> kinds in order ──> pages ──> owned, cleaned ──> DIR.partial/03-deployments.apps.yaml ──> DIR

A page at a time is in memory. The folder gets its name at the end, so one that was not finished never passes for a whole one.
The plane is treated as hostile: its answers, and the whole export, are bounded, and names of files are checked.
"""

import argparse
import contextlib
import fcntl
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from bulkhead.api.objects import Obj
from bulkhead.kube import codec
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Gone, KubeError, NotFound
from bulkhead.kube.kubeconfig import KubeConfig
from workstation.cli import connection, eventloop
from workstation.cli.arguments import Host, add_host, add_tenant, host_of
from workstation.cli.credentials import certificate
from workstation.cli.credentials import document as kubeconfigs
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import Progress, plain, told
from workstation.cli.parsing import Actions
from workstation.cli.tenant.exported import (
    MOST_KINDS,
    Kind,
    clean,
    documents_of,
    in_order,
    kinds_of,
    owned,
    served_elsewhere,
)

_SECONDS: Final = 60.0
_ANSWER_LIMIT_BYTES: Final = 64 << 20
_MOST_BYTES: Final = 8 << 30
# A page of large objects, which do not fit into an answer, is read in parts. Of one kind a client reads 2,000 pages.
_PAGE: Final = 500
_TRIES: Final = 3
_SHOWN: Final = 500
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """`tenant export NAME --to DIR`."""

    host: Host
    name: str
    folder: Path
    secrets: bool


@dataclass(slots=True)
class _Written:
    """What was written so far."""

    bytes: int = 0
    objects: Counter[str] = field(default_factory=Counter)
    unread: list[str] = field(default_factory=list)


def add_export(actions: Actions) -> None:
    """`tenant export`."""
    parser = actions.add_parser(
        "export",
        help="write what a tenant owns, as YAML that another cluster takes",
        description="Write all objects of a tenant's API that are its own into a folder, a file for each kind, in the order "
        "in which `kubectl apply -f DIR` makes them. Secrets only if asked for; contents of volumes never.",
    )
    parser.shows(
        "bulkhead tenant export red --to red-objects",
        "kubectl apply --server-side -f red-objects   in the other cluster",
    )
    add_host(parser)
    add_tenant(parser, "name")
    parser.add_argument("--to", metavar="DIR", required=True, type=Path, help="the folder, which must not exist")
    parser.add_argument("--secrets", action="store_true", help="Secrets as well, in the clear")
    parser.does(_request, export)


def _request(options: argparse.Namespace) -> ExportRequest:
    return ExportRequest(host_of(options), options.name, options.to, options.secrets)


def export(request: ExportRequest) -> int:
    """`bulkhead tenant export`."""
    folder = request.folder
    # Among them those without a name: `.` and `/`.
    if folder.exists():
        raise CliError(f"{folder} exists already", next_step="name another folder with --to", code=Exit.USAGE)
    unfinished = folder.with_name(f"{folder.name}.partial")
    try:
        with _claimed(unfinished):
            written = eventloop.run(_export(request, unfinished))
            unfinished.rename(folder)
    except KeyboardInterrupt:
        raise CliError(
            f"interrupted; {unfinished} is not complete", next_step="run it again, from the beginning", code=Exit.INTERRUPTED
        ) from None
    except OSError as error:
        raise CliError(f"cannot write to {unfinished}: {error.strerror}") from error
    told(sys.stdout, lambda: _print(request, written))
    return Exit.FAILED if written.unread else Exit.DONE


def _print(request: ExportRequest, written: _Written) -> None:
    left = "" if request.secrets else "; Secrets were left out (--secrets)"
    count = f"{sum(written.objects.values())} objects of {len(written.objects)} kinds"
    print(f"{count} of tenant {request.name} are in {request.folder}{left}")
    print(f"next:  kubectl apply -f {request.folder}, twice if it has definitions of custom kinds")
    for name in written.unread:
        print(f"not exported: {plain(name)}")


@contextlib.contextmanager
def _claimed(unfinished: Path) -> Iterator[None]:
    """An empty folder that no other export writes into meanwhile; what an interrupted one left there is removed."""
    try:
        unfinished.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = os.open(unfinished, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise CliError(f"cannot make {unfinished}: {error.strerror}", code=Exit.USAGE) from error
    try:
        if not _locked(unfinished, held):
            raise CliError(f"another export writes to {unfinished}", next_step="wait until it ends", code=Exit.USAGE)
        os.fchmod(held, 0o700)
        for left in unfinished.iterdir():
            left.unlink()
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                # Unless something was written.
                unfinished.rmdir()
    finally:
        os.close(held)


def _locked(folder: Path, held: int) -> bool:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The other export may have given it its name since it was opened.
        return os.path.samestat(folder.stat(), os.fstat(held))
    except (BlockingIOError, FileNotFoundError):
        return False


@dataclass(slots=True)
class _Renewing:
    """Keeps the plane's client in a certificate that is good for longer than one list may take."""

    host: Client
    where: Host
    tenant: Obj
    certificate: certificate.Certificate

    async def renew(self, plane: Client) -> None:
        """Get another certificate if this one ends soon; while there is none, the present one stays."""
        if certificate.is_good(self.certificate):
            return
        with contextlib.suppress(CliError, KubeError):
            self.certificate = await certificate.current(self.host, self.where, self.tenant, patience=_SECONDS)
            plane.transport.renew(KubeConfig.from_bytes(self.kubeconfig(), hostile=True))

    def kubeconfig(self) -> bytes:
        """The kubeconfig of the plane, with the present certificate."""
        return kubeconfigs.with_certificate(self.tenant, self.certificate)


async def _export(request: ExportRequest, folder: Path) -> _Written:
    written = _Written()
    async with connection.host_client(request.host) as host:
        tenant = await connection.get_tenant(host, request.name)
        renewing = _Renewing(
            host, request.host, tenant, await certificate.current(host, request.host, tenant, patience=_SECONDS)
        )
        async with connection.plane_client(
            renewing.kubeconfig(), seconds=_SECONDS, answer_bytes=_ANSWER_LIMIT_BYTES, list_bytes=_MOST_BYTES
        ) as plane:
            with Progress() as progress:
                progress.show("reading which kinds the plane serves")
                listed = in_order(await _kinds(plane, written, secrets=request.secrets))
                for number, kind in enumerate(listed, 1):
                    show = partial(_show, progress, kind)
                    path = folder / f"{number:03}-{kind.name}.yaml"
                    await _one(plane, kind, path, written, show, renewing=renewing)
    return written


def _show(progress: Progress, kind: Kind, count: int) -> None:
    progress.show(f"{kind.name}: {count} objects")


async def _kinds(plane: Client, written: _Written, *, secrets: bool) -> list[Kind]:
    """The kinds to export, each in the first version of its group that serves it; versions that do not answer are unread."""
    found = kinds_of("", "v1", await _read(plane, "/api/v1"), secrets=secrets)
    elsewhere = await _elsewhere(plane)
    documents = documents_of(await _read(plane, "/apis"))
    known: set[str] = set()
    for group, version in documents[:MOST_KINDS]:
        try:
            document = await _read(plane, f"/apis/{group}/{version}")
        except NotFound:
            continue
        except (KubeError, TimeoutError) as error:
            if f"{version}.{group}" not in elsewhere:
                written.unread.append(f"{group}/{version}: {error}")
            continue
        fresh = [kind for kind in kinds_of(group, version, document, secrets=secrets) if kind.name not in known]
        known.update(kind.name for kind in fresh)
        found += fresh
    for what, number in (("versions of APIs", len(documents)), ("kinds", len(found))):
        if number > MOST_KINDS:
            written.unread.append(f"{number - MOST_KINDS} {what}: only {MOST_KINDS} are read")
    return found[:MOST_KINDS]


async def _elsewhere(plane: Client) -> set[str]:
    """The APIs whose objects another server has: one that is down has nothing in the plane's own store."""
    try:
        return served_elsewhere((await plane.list(kinds.API_SERVICES)).items)
    except (KubeError, TimeoutError):
        return set()


async def _read(plane: Client, path: str) -> Obj:
    return codec.decode_obj(await plane.get_raw(path))


async def _one(
    plane: Client, kind: Kind, path: Path, written: _Written, show: Callable[[int], object], *, renewing: _Renewing
) -> None:
    """Write one kind; again from its beginning if the version that is read is compacted meanwhile."""
    for attempt in range(1, _TRIES + 1):
        await renewing.renew(plane)
        try:
            count = await _write(plane, kind, path, written, show)
        except Gone as error:
            if attempt == _TRIES:
                written.unread.append(f"{kind.name}: {error}")
        except NotFound:
            return
        except (KubeError, TimeoutError) as error:
            written.unread.append(f"{kind.name}: {error}")
            return
        else:
            if count:
                written.objects[kind.name] = count
            return


async def _write(plane: Client, kind: Kind, path: Path, written: _Written, show: Callable[[int], object]) -> int:
    """The number of objects that were written; where there are none, and after an error, there is no file."""
    count, size = 0, 0
    done = False
    out = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8")
    try:
        with out:
            async for obj in _owned(plane, kind):
                words = f"---\n{yaml.dump(obj, Dumper=_DUMPER, sort_keys=False, allow_unicode=True)}"
                size += len(words)
                if written.bytes + size > _MOST_BYTES:
                    raise CliError(f"the tenant has more than {_MOST_BYTES >> 30} GiB of objects; nothing was exported")
                out.write(words)
                count += 1
                if count % _SHOWN == 1:
                    show(count)
        done = count > 0
    finally:
        if not done:
            _drop(path)
    written.bytes += size
    return count


def _drop(path: Path) -> None:
    path.unlink(missing_ok=True)


async def _owned(plane: Client, kind: Kind) -> AsyncIterator[Obj]:
    async for page in plane.pages(kind.resource, limit=_PAGE, most=_MOST_BYTES):
        for raw in page.items:
            obj = codec.decode_obj(raw)
            if owned(kind.resource, obj):
                yield clean(kind.resource, obj)
