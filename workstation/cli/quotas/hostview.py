"""Quotas and pods on the host, read once from its API and seen as the ledger would see them.

    Tenants, Cohorts, ResourceQuotas, nodes, pods that have not ended ──> View

Pods are read page by page. Only what the ledger uses of each pod is kept, and the whole pods that the caller asks for. A read
that takes longer than two seconds reports its progress on stderr.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from bulkhead.api import deviceclaims, labels, names
from bulkhead.api.objects import Obj
from bulkhead.api.podphase import is_pending_deletion
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.codec import decode_obj
from bulkhead.kube.errors import Forbidden, Gone, NotFound
from bulkhead.kube.objects import Resource, uid_of
from bulkhead.ledger import given, read
from bulkhead.ledger.model import Claim, Line, Node, Pod, Rules, Snapshot, Tenant
from bulkhead.ledger.slices import mapped_of, offered, slice_of
from workstation.cli import connection
from workstation.cli.failures import CliError
from workstation.cli.output import Progress

ALIVE: Final = "status.phase!=Succeeded,status.phase!=Failed"
QUOTAS: Final = f"metadata.name={names.POD_QUOTA}"
OBJECT_QUOTAS: Final = f"metadata.name={names.OBJECT_QUOTA}"
_SILENT_SECONDS: Final = 2.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class View:
    """The host at one moment."""

    snapshot: Snapshot
    now: float
    # Tenants as they are stored, by name.
    tenants: Mapping[str, Obj]
    # Host pods that the caller wants to keep whole.
    kept: tuple[Obj, ...] = ()


class Reading:
    """The progress of a read, shown once it takes long."""

    def __init__(self) -> None:
        self.text = "reading from the host's API"
        # Whether a list had to be read again.
        self.again = False

    @contextlib.asynccontextmanager
    async def told(self) -> AsyncIterator[None]:
        """Show it until the block ends."""
        task = asyncio.create_task(self._tell())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _tell(self) -> None:
        await asyncio.sleep(_SILENT_SECONDS)
        with Progress() as progress:
            while True:
                progress.show(self.text)
                await asyncio.sleep(1.0)


@contextlib.asynccontextmanager
async def allowed() -> AsyncIterator[None]:
    """Tell users who may not read what quotas are computed from which role they need, and what they can see without it."""
    try:
        yield
    except Forbidden as error:
        raise CliError(
            f"this command shows the quotas and pods of all tenants, which you may not read on the host: {error}",
            next_step=f"ask an admin of the host for ClusterRole {names.QUOTA_ROLE}; without it, `kubectl get cohorts` shows "
            "the sums of each cohort, `bulkhead tenant describe TENANT` those of a tenant, and the condition of each waiting "
            "pod why it waits",
        ) from error


def _nothing(_: Obj) -> bool:
    return False


async def observe(
    client: Client, keep: Callable[[Obj], bool] = _nothing, node_of: Callable[[Obj], Node] = read.node_of
) -> View:
    """Read everything. `node_of` is for a caller that wants more of a node than the ledger does."""
    reading = Reading()
    async with reading.told(), allowed():
        try:
            tenants = (await client.list(kinds.TENANTS)).items
        except NotFound as error:
            raise connection.not_installed() from error
        quotas = await collected(client, kinds.RESOURCE_QUOTAS, tenant_of_quota, reading, field_selector=QUOTAS)
        nodes = await _nodes(client, reading, node_of)
        kept: dict[str, Obj] = {}

        def pod_of(obj: Obj) -> Pod | None:
            if keep(obj):
                kept[uid_of(obj)] = obj
            return read.pod_of(obj)

        pods = await collected(client, kinds.PODS, pod_of, reading, field_selector=ALIVE)
        rules = await _rules(client)
        lines = await device_lines(client, reading)
        tenants_given = {quota.name: with_devices(quota, lines.get(quota.name, {})) for quota in quotas}
        claims = await _claims(client, tenants_given, reading)
    counted = read.without_ending(tuple(pods), ending(tenants))
    snapshot = Snapshot(tenants_given, nodes, counted, rules, claims=claims)
    return View(snapshot, time.time(), {str(tenant["metadata"]["name"]): tenant for tenant in tenants}, tuple(kept.values()))


def ending(tenants: Iterable[Obj]) -> frozenset[str]:
    """Those that are being deleted: the ledger admits none of their pods, so none waits."""
    return frozenset(str(tenant["metadata"]["name"]) for tenant in tenants if is_pending_deletion(tenant))


async def _nodes(client: Client, reading: Reading, node_of: Callable[[Obj], Node]) -> tuple[Node, ...]:
    """The host's nodes, with the devices that ResourceSlices list, for device classes that stand for a resource."""
    nodes = await collected(client, kinds.NODES, node_of, reading)
    try:
        classes = await collected(client, kinds.DEVICE_CLASSES, mapped_of, reading)
        slices = await collected(client, kinds.RESOURCE_SLICES, slice_of, reading) if classes else []
    except NotFound:
        return tuple(nodes)
    return offered(nodes, classes, slices)


async def collected(
    client: Client, r: Resource, take: Callable[[Obj], T | None], reading: Reading, **selectors: Any
) -> list[T]:
    """What `take` returns for each object of a kind, read page by page; the read starts again if a continue token expires."""
    while True:
        found: list[T] = []
        try:
            async for page in client.pages(r, **selectors):
                found += [made for raw in page.items if (made := take(decode_obj(raw))) is not None]
                reading.text = f"reading {r}: {len(found)} so far"
        except Gone:
            if reading.again:
                raise
            reading.again = True
        else:
            return found


def tenant_of_quota(quota: Obj) -> Tenant | None:
    """The tenant of a quota, if its namespace agrees. Besides the controller, only host admins can create quotas there."""
    found = given.tenant_of(quota)
    return found if found and found.name == names.tenant_of_work(str(quota["metadata"].get("namespace"))) else None


async def device_lines(client: Client, reading: Reading) -> dict[str, dict[str, Line]]:
    """For each tenant that may have claims for devices: the quota line that each device class counts in."""
    return dict(await collected(client, kinds.RESOURCE_QUOTAS, lines_of_quota, reading, field_selector=OBJECT_QUOTAS))


def lines_of_quota(quota: Obj) -> tuple[str, dict[str, Line]] | None:
    """A tenant and the quota line that each device class counts in; None if none does."""
    tenant = names.tenant_of_work(str(quota["metadata"].get("namespace")))
    found = deviceclaims.lines_of(quota)
    return (tenant, found) if tenant and found else None


def with_devices(tenant: Tenant, lines: Mapping[str, Line]) -> Tenant:
    """A tenant that the ledger does not handle, as it has no note; claims still count in its quota."""
    if tenant.devices:
        return tenant
    resources = {resource for _, resource in tenant.shares}
    return replace(tenant, devices={name: resource for name, (_, resource) in lines.items() if resource in resources})


async def _claims(client: Client, tenants: Mapping[str, Tenant], reading: Reading) -> tuple[Claim, ...]:
    """What claims for devices hold; nothing is read if no class stands for a resource."""
    if not any(tenant.devices for tenant in tenants.values()):
        return ()

    def take(obj: Obj) -> Claim | None:
        bare = read.bare_claim(obj)
        return None if bare is None else read.claim_of(bare, tenants)

    try:
        return tuple(await collected(client, kinds.RESOURCE_CLAIMS, take, reading, label_selector=labels.MIRRORED))
    except NotFound:
        return ()


async def _rules(client: Client) -> dict[str, Rules]:
    try:
        cohorts = (await client.list(kinds.COHORTS)).items
    except NotFound:
        # The host has older CRDs: cohorts exist by name only, with the default rules.
        return {}
    return {str(cohort["metadata"]["name"]): given.rules_of(cohort) for cohort in cohorts}
