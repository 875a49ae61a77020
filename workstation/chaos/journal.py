"""The record and the lease of a run, on the host: what it may have left is written before it is done.

    lease held and renewed ──> the run is alive, and no other run begins
    lease not renewed for its duration ──> the run is dead: `chaos stop`, or the next run, undoes what its record names

The record also carries a request to end, which `chaos stop` writes and the run reads every two seconds.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, text
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict, Forbidden, KubeError, NotFound, Unauthorized, unreachable
from bulkhead.kube.lease import LeaderLease
from workstation.chaos import objects, undo
from workstation.chaos.record import KEY, Entry, Record, Unreadable, decode, encode, is_own_tenant, with_entries, with_note
from workstation.chaos.undo import Say

LEASE_SECONDS: Final = 30.0
_RENEW_SECONDS: Final = 2.0
_LOSE_SECONDS: Final = 20.0
# How long a run waits for the lease of a dead one, at least its duration and two polls.
PATIENCE_SECONDS: Final = 45.0
_LOOK_SECONDS: Final = 2.0


class Busy(Exception):  # noqa: N818 - reads as a sentence: except Busy
    """Another run holds the lease."""

    def __init__(self, holder: str) -> None:
        super().__init__(f"run {holder} is going on" if holder else "another run is going on")
        self.holder = holder


@contextlib.asynccontextmanager
async def leased(
    host: Client, namespace: str, identity: str, say: Say, *, patience: float = PATIENCE_SECONDS
) -> AsyncIterator[LeaderLease]:
    """The lease for the duration of a block; at its end it is deleted.

    Raises Busy if another run holds it, and KubeError if this user, or this namespace, can have none.
    """
    lease = LeaderLease(
        host, namespace, objects.LEASE, identity, duration=LEASE_SECONDS, renew_deadline=_LOSE_SECONDS, retry=_RENEW_SECONDS
    )
    holder = await holder_of(host, namespace)
    if holder:
        say(f"run {holder} holds the lease: waiting until it ends, or has been dead for {LEASE_SECONDS:g} s")
    try:
        async with asyncio.timeout(patience):
            await lease.acquire(hopeless=_is_hopeless)
    except TimeoutError:
        if not lease.holder:
            raise unreachable(f"the lease {namespace}/{objects.LEASE} was not written within {patience:g} s") from None
        raise Busy(lease.holder) from None
    renewal = asyncio.create_task(lease.renew())
    try:
        yield lease
    finally:
        renewal.cancel()
        await asyncio.wait([renewal])
        await asyncio.shield(asyncio.ensure_future(drop_lease(host, namespace, identity)))


def _is_hopeless(error: BaseException) -> bool:
    """Whether the lease will not be written later either. One that was deleted between a read and a write will."""
    no_namespace = isinstance(error, NotFound) and error.message.startswith("namespaces ")
    return no_namespace or isinstance(error, Forbidden)


async def holder_of(host: Client, namespace: str) -> str:
    """Which run holds the lease; empty if none does. Raises KubeError if it cannot be read."""
    try:
        lease = await host.get(kinds.LEASES, objects.LEASE, namespace)
    except NotFound:
        return ""
    return text(mapping(lease.get("spec")).get("holderIdentity"))[:100]


async def drop_lease(host: Client, namespace: str, identity: str | None = None) -> None:
    """Delete the lease if `identity` holds it, or any process if it is None; a failure costs the next run a wait only."""
    with contextlib.suppress(KubeError, TimeoutError):
        async with asyncio.timeout(_LOSE_SECONDS):
            lease = await host.get(kinds.LEASES, objects.LEASE, namespace)
            if identity is None or mapping(lease.get("spec")).get("holderIdentity") == identity:
                await host.delete(kinds.LEASES, objects.LEASE, namespace, uid=str(lease["metadata"]["uid"]))


class Journal:
    """The record of one run."""

    def __init__(self, host: Client, namespace: str, record: Record) -> None:
        self.record = record
        self._host = host
        self._namespace = namespace
        self._turn = asyncio.Lock()

    async def begin(self) -> None:
        """Write the record, before anything that it names exists."""
        await self._host.create(kinds.CONFIG_MAPS, objects.record(self.record, self._namespace))

    async def intend(self, note: str, *entries: Entry) -> None:
        """Write what is about to be done. Raises KubeError, and then it must not be done."""
        async with self._turn:
            record = with_note(with_entries(self.record, *entries), note)
            body = {"data": {KEY: encode(record)}}
            await self._host.patch(kinds.CONFIG_MAPS, objects.record_name(record.run), body, self._namespace)
            self.record = record

    async def asked_to_end(self, lease: LeaderLease) -> str:
        """Return why the run must end, as soon as it must."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await lease.lost.wait()
                    return "the lease was lost: the host's API did not take a renewal, or another process took over"
            try:
                found = await self._host.get(kinds.CONFIG_MAPS, objects.record_name(self.record.run), self._namespace)
            except NotFound:
                return "the record is gone: another process has undone this run"
            except KubeError:
                continue  # the lease decides how long that may last
            if mapping(found["metadata"].get("annotations")).get(objects.STOP):
                return "`bulkhead chaos stop` asked for it"

    async def end(self) -> None:
        """Delete the record, once everything that it names is undone."""
        await remove(self._host, self._namespace, self.record.run)


async def remove(host: Client, namespace: str, run: str) -> None:
    """Delete the record of a run."""
    await host.delete(kinds.CONFIG_MAPS, objects.record_name(run), namespace)


async def remains(host: Client, namespace: str) -> tuple[list[Record], list[str]]:
    """The records of all runs, and texts about those that cannot be read here. A run without a record has tenants alone."""
    found: dict[str, Record] = {}
    unreadable: list[str] = []
    elsewhere: dict[str, str] = {}
    for config_map in (await host.list(kinds.CONFIG_MAPS, namespace, label_selector=objects.RUN)).items:
        name = str(config_map["metadata"]["name"])
        try:
            record = decode(config_map)
            if name != objects.record_name(record.run):
                raise Unreadable(f"the record names run {record.run}")  # noqa: TRY301 - one place for all that is wrong
        except Unreadable as error:
            unreadable.append(f"ConfigMap {namespace}/{name}: {error}; read it, and delete it by hand")
            continue
        found[record.run] = record
    for tenant in (await host.list(kinds.TENANTS, label_selector=objects.RUN)).items:
        run, place = run_of(tenant), text(mapping(tenant["metadata"].get("annotations")).get(objects.PLACE))
        if not run or run in found:
            continue
        if place and place != namespace:
            # Undone by its label alone, it would leave what its record names in a tenant of other people.
            elsewhere[run] = f"run {run} keeps its record in namespace {place}: bulkhead chaos stop --namespace {place}"
            continue
        found[run] = undo.whole(run)
    return list(found.values()), [*unreadable, *elsewhere.values()]


async def ask_to_end(host: Client, namespace: str, run: str) -> None:
    """Ask a run to end; it may be dead, or have no record."""
    body = {"metadata": {"annotations": {objects.STOP: "true"}}}
    try:
        await host.patch(kinds.CONFIG_MAPS, objects.record_name(run), body, namespace)
    except (Forbidden, Unauthorized):
        raise
    except (NotFound, Conflict):
        return


def run_of(obj: Obj) -> str:
    """The run that created a tenant; empty if no run did."""
    run = text(mapping(obj["metadata"].get("labels")).get(objects.RUN))
    return run if is_own_tenant(run, text(obj["metadata"].get("name"))) else ""
