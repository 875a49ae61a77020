"""`bulkhead tenant restore --all`: bring every tenant of a place back on a host that lost them, each from its newest snapshot.

    manifests of the place ──> signed by this installation? ──> newest of each tenant ──> those that are not here
It never replaces a plane that is here. Interrupted, it is run again: what is restored is left alone, the rest goes on.

A manifest that the place refuses, or does not answer for, ends the command before anything is changed: it may be the newest of
its tenant, and an older snapshot is restored only if an admin names it.
"""

import asyncio
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, text
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.signing import Ring
from bulkhead.snapshots import reading
from bulkhead.snapshots.judge import RefusedError
from bulkhead.snapshots.layout import MANIFEST, LayoutError
from bulkhead.snapshots.manifest import Manifest
from bulkhead.snapshots.target import AbsentError, Target, TargetError, TooLargeError
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import Progress, age, plain, table
from workstation.cli.tenant import patience, restoreplan
from workstation.cli.tenant.patience import LateError
from workstation.cli.tenant.restoreplan import Stored, is_pending
from workstation.cli.tenant.restorework import Restoring
from workstation.cli.tenant.snapshotsource import Source

if TYPE_CHECKING:
    import pyrage

_AT_ONCE: Final = 3
_LOOK_SECONDS: Final = 1.0
_MOST_OBJECTS: Final = 100_000
_SHOWN_IDENTITY: Final = 8  # characters


@dataclass(frozen=True, slots=True)
class Everything:
    """What is brought back, and what that takes."""

    target: Target
    ring: Ring
    keys: "list[pyrage.x25519.Identity]"
    scratch: Path | None
    seconds: float
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Found:
    """What is stored at a place.

    newest: the newest snapshot of each tenant that counts here.
    planes: the identities of the planes of that name that have a snapshot, by the tenant's name.
    left: what was left out, and why.
    """

    newest: tuple[Manifest, ...]
    planes: Mapping[str, frozenset[str]]
    left: tuple[str, ...]


async def restore_all(client: Client, asked: Everything) -> int:
    """Bring all back; the exit code."""
    with Progress() as progress:
        progress.show(f"looking for snapshots at {asked.target.place}")
        stored = await _newest(asked.target, asked.ring)
        there = {str(tenant["metadata"]["name"]): tenant for tenant in (await client.list(kinds.TENANTS)).items}
        pending = (await client.list(kinds.TENANT_RESTORES)).items
    missing: list[Manifest] = []
    here: list[Manifest] = []
    for found in stored.newest:
        unfinished = any(is_pending(request, found.tenant) for request in pending)
        (missing if unfinished or found.tenant not in there else here).append(found)
    _say(stored, {found.tenant for found in here})
    if asked.dry_run or not missing:
        print(f"{len(missing)} tenants are not here and can be brought back, {len(here)} are here; nothing was changed")
        return Exit.DONE
    failed = await _bring_back(client, asked, missing)
    for tenant, why in sorted(failed.items()):
        sys.stderr.write(f"tenant {tenant}: {why}\n")
    print(f"{len(missing) - len(failed)} of {len(missing)} tenants are back, {len(here)} were here")
    if failed:
        raise CliError(f"{len(failed)} tenants are not back", next_step="look at the reasons, and run the same command again")
    return Exit.DONE


async def _newest(target: Target, ring: Ring) -> Found:
    """The newest snapshot of each tenant. Raises CliError if a manifest cannot be read for now."""
    found: dict[str, Manifest] = {}
    planes: dict[str, set[str]] = {}
    left: list[str] = []
    async for path in target.names(_MOST_OBJECTS):
        identity, _, name = path.removesuffix(f"/{MANIFEST}").partition("/")
        if not path.endswith(f"/{MANIFEST}") or not name or "/" in name:
            continue
        try:
            made = await reading.named(target, ring, identity, name)
        except (RefusedError, LayoutError, AbsentError, TooLargeError) as error:
            left.append(f"{path}: {error}")
            continue
        except TargetError as error:
            raise CliError(
                f"{error}; nothing was changed, because a newer snapshot of a tenant may be among what cannot be read",
                next_step=f"correct why {path} is refused (credentials, their rights, the network), and run the same command "
                "again; or restore single tenants: bulkhead tenant restore TENANT --from IDENTITY/SNAPSHOT",
            ) from error
        planes.setdefault(made.tenant, set()).add(made.identity)
        if made.tenant not in found or made.created > found[made.tenant].created:
            found[made.tenant] = made
    newest = tuple(sorted(found.values(), key=lambda made: made.tenant))
    return Found(newest, {tenant: frozenset(identities) for tenant, identities in planes.items()}, tuple(left))


async def _bring_back(client: Client, asked: Everything, missing: Iterable[Manifest]) -> dict[str, str]:
    """Restore these, a few at once; why some are not back."""
    failed: dict[str, str] = {}
    waiting, places = list(missing), asyncio.Semaphore(_AT_ONCE)
    with Progress() as progress:

        async def one(found: Manifest) -> None:
            async with places:
                try:
                    await _one(client, asked, found, progress)
                    progress.warn(f"tenant {found.tenant} is back, with snapshot {found.snapshot}")
                except (CliError, KubeError, OSError) as error:
                    failed[found.tenant] = plain(str(error), 1000)

        async with asyncio.TaskGroup() as group:
            for found in waiting:
                group.create_task(one(found))
    return failed


async def _one(client: Client, asked: Everything, found: Manifest, progress: Progress) -> None:
    subject, seconds = f"tenant {found.tenant}", asked.seconds
    with tempfile.TemporaryFile(dir=asked.scratch) as spool:
        stored = Stored(Source(found.identity, found.snapshot, asked.target), asked.ring, asked.keys, spool)

        async def begin() -> tuple[Restoring, Obj]:
            """The restore, once it is asked for. What an interrupted look asked for, the next one finds and goes on with."""
            spool.seek(0)
            spool.truncate()
            plan = await restoreplan.look(client, found.tenant, stored, progress, discard=False)
            if plan.reasons:
                raise CliError("; ".join(plan.reasons))
            identity = text(mapping(mapping(plan.tenant).get("status")).get("planeIdentity"))
            if plan.tenant is not None and plan.resumed is None and identity:
                raise CliError("it came back meanwhile, and is left as it is")
            work = Restoring(client, found.tenant, plan, spool, progress)
            return work, await work.begin(discard=False)

        try:
            work, request = await patience.until(
                client, begin, subject, seconds=seconds, every=_LOOK_SECONDS, progress=progress
            )
        except LateError as late:
            raise CliError(f"not begun after {seconds:g} s: {late.last}") from late
        await work.finish(request, seconds)


def _say(stored: Found, here: set[str]) -> None:
    now = datetime.now(UTC)
    rows = [
        (
            made.tenant,
            made.identity[:_SHOWN_IDENTITY],
            made.snapshot,
            age(made.created, now=now),
            "here" if made.tenant in here else "missing",
        )
        for made in stored.newest
    ]
    table(("TENANT", "PLANE", "NEWEST SNAPSHOT", "AGE", "TENANT IS"), rows, stream=sys.stderr)
    for made in stored.newest:
        # A tenant that was deleted and made again, or one of that name on another host.
        if others := sorted(stored.planes[made.tenant] - {made.identity}):
            sys.stderr.write(
                f"tenant {made.tenant}: there are snapshots of {len(others) + 1} planes; the newest is of plane "
                f"{made.identity}, others are of {plain(', '.join(others), 500)}\n"
            )
    if len(here) < len(stored.newest):
        sys.stderr.write(f"Quota and access of a missing tenant come back as of its snapshot: {restoreplan.REVOKE_AGAIN}\n")
    for words in stored.left:
        sys.stderr.write(f"left out: {plain(words, 500)}\n")
