"""A controller without its queue for tests on a real API server, and a stand-in for the host's namespace controller."""

import asyncio
import itertools
from collections.abc import Callable, Iterable
from typing import Any, Self

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict, NotFound
from bulkhead.signing import Ring
from bulkhead.tracing.spans import Span
from bulkhead.work.clock import Clock, SystemClock
from controller.host.auditreceivers import AuditReceivers
from controller.host.dedication import Dedication
from controller.host.hostranges import HostRanges
from controller.host.issuers import Issuers, over_https
from controller.host.owned import OWNED, SELECTOR, Owned
from controller.host.pullsecrets import PullSecrets
from controller.host.restores import Restores
from controller.host.snapshots import Snapshots
from controller.inside.access import PlaneAccess
from controller.inside.budget import Budget
from controller.inside.contents import ContentsReader
from controller.inside.members import Members
from controller.inside.stores import Stores
from controller.pki.renewals import Renewals
from controller.pki.signingkeys import new_files, ring_of
from controller.settings import Settings
from controller.slurm.ordering import Ordering
from controller.snapshots.loop import SnapshotTasks
from controller.snapshots.removal import SnapshotRemovals
from controller.tenant.apply import Applier
from controller.tenant.consists import built_in
from controller.tenant.facets.adoption.facet import Adoption
from controller.tenant.facets.audit.facet import AuditReceiver
from controller.tenant.facets.identity.facet import Identity, Keys
from controller.tenant.facets.issuers.facet import SignIn
from controller.tenant.facets.members.facet import MembersCared
from controller.tenant.facets.nodes.facet import Nodes
from controller.tenant.facets.pulls.facet import Pulls
from controller.tenant.facets.restores.comparing import Comparing
from controller.tenant.facets.restores.dropping import RestoreKeysDropped
from controller.tenant.facets.restores.facet import RestoreBegun, RestoreEnded
from controller.tenant.facets.restores.host import RestoreHost
from controller.tenant.facets.schedule.facet import SnapshotSchedule
from controller.tenant.facets.slurm.facet import Slurm
from controller.tenant.facets.snapshots.facet import TenantSnapshots
from controller.tenant.facets.store.facet import StoreRoom
from controller.tenant.facets.stranding.facet import Stranding
from controller.tenant.interior import Interior
from controller.tenant.reconcile import ReconcileFailed, Reconciler
from controller.tenant.tools import Tools
from controller.tenant.tracing import CreationTraces
from controller.tenant.turn import Facet
from tests.kit import lag
from tests.kit.syncerbed import until


class FixedKeys:
    """The keys that sign planes' records, the same for all controllers of one process."""

    held = ring_of(new_files())

    async def ring(self, *, fresh: bool = False) -> Ring:
        return self.held


class ControllerHost:
    """A controller without its queue: informers and a reconciler."""

    def __init__(
        self,
        client: Client,
        dedication: Dedication | None = None,
        clock: Clock | None = None,
        slurm: Ordering | None = None,
        *,
        settings: Settings | None = None,
        pulls: PullSecrets | None = None,
        issuers: Issuers | None = None,
        receivers: AuditReceivers | None = None,
        stores: Stores | None = None,
        members: Members | None = None,
        renewals: Renewals | None = None,
        identity: Keys | None = None,
        snapshots: tuple[Snapshots, SnapshotTasks] | None = None,
        removals: SnapshotRemovals | None = None,
        restores: Restores | None = None,
        traces: Callable[[Iterable[Span]], None] | None = None,
    ) -> None:
        self.client = client
        self._seen = ""  # the revision of the host at which the informers had caught up
        self.owned = Owned(client, lambda _: None)
        self.ranges = HostRanges(client, known=Settings().reserved)
        clock, settings = clock or SystemClock(), settings or Settings()
        budget = Budget()
        planes = PlaneAccess(clock, lambda _: None, budget)
        self.applier = Applier(client)
        tools = Tools(
            client,
            self.owned,
            self.ranges,
            settings,
            clock,
            planes,
            budget,
            applier=self.applier,
            interior=Interior(self.owned, planes, clock, resync_seconds=settings.resync_seconds),
            renewals=renewals or Renewals(clock),
            traces=CreationTraces(clock, traces),
        )
        # Parts that do not run here are replaced by empty ones, or left out.
        pulls = pulls or PullSecrets(client, (), settings.system_namespace, lambda: None, clock)
        facets: list[Facet] = [
            Adoption(client, identity or FixedKeys()),
            Identity(client, clock, identity or FixedKeys()),
            SignIn(issuers or Issuers(clock, lambda _: None, over_https)),
            Pulls(client, self.applier, clock, pulls),
            AuditReceiver(receivers or AuditReceivers(client, settings.shared_namespace, lambda _: None)),
        ]
        facets += [Nodes(dedication)] if dedication is not None else []
        facets += [Slurm(slurm)] if slurm is not None else []
        facets += [Stranding(client, snapshots[0] if snapshots else Snapshots(client, lambda _: None))]
        facets += [TenantSnapshots(*snapshots, tools.interior)] if snapshots is not None else []
        facets += [SnapshotSchedule(snapshots[0], removals, client, clock)] if snapshots and removals else []
        if restores is not None:
            host = RestoreHost(client)
            facets += [RestoreBegun(restores, host, clock, identity or FixedKeys())]
            facets += [RestoreEnded(host, clock, Comparing(host, planes, budget)), RestoreKeysDropped(restores, host)]
        facets += [StoreRoom(stores, tools.interior, ContentsReader(planes, clock, budget))] if stores is not None else []
        facets += [MembersCared(client, tools.interior, members, clock)] if members is not None else []
        self.reconciler = Reconciler(tools, (*built_in(tools), *facets))

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(item.run()) for item in (self.owned, self.ranges)]
        for item in (self.owned, self.ranges):
            await item.synced()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    async def caught_up(self) -> str:
        """Wait until the informers have caught up with the API server. Returns the revision that they have seen at least."""
        now = await lag.revision(self.client)
        if now != self._seen:
            behind = lag.Behind([*self.owned._informers.values(), self.ranges._services])
            await until(behind.caught_up, "the controller's copies to be what the host has")
            self._seen = now
        return now

    async def settle(self, name: str) -> Obj:
        """Reconcile a tenant until a round writes nothing, or leaves its objects as they are.

        A Service that is refused costs writes each time: the host gives it an address, and takes it back.
        """
        objects = ""
        async with asyncio.timeout(300):
            for number in itertools.count():
                before = await self.caught_up()
                try:
                    await self.reconciler.reconcile(name)
                except ReconcileFailed:
                    await asyncio.sleep(0.1)
                    continue
                if await lag.revision(self.client) == before:
                    break
                if number:  # the first round makes them
                    now = str(await fingerprint(self.client, name))
                    if now == objects:
                        break
                    objects = now
        return await self.client.get(kinds.TENANTS, name)


async def fingerprint(client: Client, name: str) -> list[tuple[str, str, str, str]]:
    """Every object of a tenant, with its resource version."""
    found = []
    for resource in (*OWNED, kinds.SECRETS):
        selector = SELECTOR.replace("bulkhead.dev/tenant", f"bulkhead.dev/tenant={name}", 1)
        listed = await client.list_metadata(resource, label_selector=selector)
        found += [
            (resource.kind, o["metadata"].get("namespace", ""), o["metadata"]["name"], o["metadata"]["resourceVersion"])
            for o in listed.items
        ]
    return sorted(found)


async def kinds_of(client: Client, name: str) -> set[tuple[str, str, str]]:
    return {entry[:3] for entry in await fingerprint(client, name)}


async def nameless(client: Client, name: str) -> set[tuple[str, ...]]:
    """The objects of a tenant, with its name taken out."""
    return {tuple(part.replace(name, "X") for part in entry) for entry in await kinds_of(client, name)}


async def ask(client: Client, name: str, **spec: Any) -> Obj:
    body = {"class": "standard", "quota": {"resources": {"nvidia.com/gpu": {"nominal": 4}}}} | spec
    return await client.create(
        kinds.TENANTS, {"apiVersion": names.API_VERSION, "kind": "Tenant", "metadata": {"name": name}, "spec": body}
    )


async def plane_pod(client: Client, tenant: str) -> Obj:
    """The first pod of a plane, as its StatefulSet would create it, with a directory for its volume."""
    space = names.plane_namespace(tenant)
    wanted = (await client.get(kinds.STATEFUL_SETS, "plane", space))["spec"]
    template, claims = wanted["template"], [claim["metadata"]["name"] for claim in wanted["volumeClaimTemplates"]]
    # Of its template, as it is: the namespace enforces Pod Security.
    volumes = [*template["spec"]["volumes"], *({"name": claim, "emptyDir": {}} for claim in claims)]
    spec = template["spec"] | {"volumes": volumes}
    return await client.create(
        kinds.PODS, {"metadata": {"name": "plane-0", "labels": template["metadata"]["labels"]}, "spec": spec}, space
    )


async def finish_namespaces(client: Client, name: str) -> None:
    """The last step of the host's namespace controller: empty a terminating namespace, and remove its finalizer."""
    for namespace in (f"bh-{name}", f"bh-{name}-work"):
        try:
            found = await client.get(kinds.NAMESPACES, namespace)
        except NotFound:
            continue
        if not found["metadata"].get("deletionTimestamp"):
            continue
        for resource in (*OWNED, kinds.SECRETS):
            if resource.namespaced:
                for obj in (await client.list_metadata(resource, namespace)).items:
                    await client.delete(resource, obj["metadata"]["name"], namespace, grace_seconds=0)
        try:
            await client.replace(kinds.NAMESPACES, found | {"spec": {"finalizers": []}}, subresource="finalize")
        except Conflict:
            continue


async def take_down(world: ControllerHost, name: str) -> None:
    await world.client.delete(kinds.TENANTS, name)
    async with asyncio.timeout(300):
        while True:
            await world.reconciler.reconcile(name)
            await finish_namespaces(world.client, name)
            try:
                await world.client.get(kinds.TENANTS, name)
            except NotFound:
                return
            await asyncio.sleep(0.02)


def ready(tenant: Obj) -> tuple[str, str]:
    condition = next(item for item in tenant["status"]["conditions"] if item["type"] == "Ready")
    return condition["status"], condition["reason"]
