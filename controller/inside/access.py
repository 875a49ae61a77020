"""How the controller connects to tenants' API servers: directly to the plane's pod, with a certificate that is only in memory.

A plane is hostile input: what is read from it goes through `calls` within a turn of `budget`, every call has a short deadline,
and redirects are not followed. There is one client for each plane; it is replaced if its CAs change. At half of its
certificate's life it gets another one, and calls that are under way go on. Loops that outlast a failing reconcile renew it too:
without that, a plane would refuse them after an hour.

    reconcile finds it not ready ──> a task asks /readyz every 100 ms ──> ready ──> the tenant's key into the queue
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.work.clock import Clock
from controller.inside import definitions
from controller.inside.budget import Budget, Turn
from controller.inside.calls import Partial, Plane
from controller.pki import issue
from controller.plane.pki import Pair, controller_credential
from controller.plane.secrets import KeyMaterial, digest
from controller.plane.spec import API_PORT, PLANE, PlaneSpec

_READYZ_ANSWER_BYTES = 16 * 1024
_BOOTSTRAP_DEADLINE_SECONDS = 10.0
# Connections to one plane: more would only use memory.
_MAX_CONNECTIONS = 4
_FAST_POLL_PERIOD_SECONDS = 0.1
_SLOW_POLL_PERIOD_SECONDS = 1.0
_POLLS_FAST_FOR_SECONDS = 60.0
_NAMESPACE_TRIES = 50


class _Meta(msgspec.Struct, gc=False, rename="camel", omit_defaults=True):
    """The metadata that distinguishes Bulkhead's objects from those that the tenant created."""

    uid: str = ""
    labels: dict[str, str] | None = None


class _Marked(msgspec.Struct, gc=False):
    metadata: _Meta


_namespace = msgspec.json.Decoder(Partial)
_marked = msgspec.json.Decoder(_Marked)


@dataclass(frozen=True, slots=True)
class PlaneHealth:
    """What the plane's API server answered last: whether it is reachable, and whether it is ready."""

    ready: bool = False
    bootstrapped: bool = False
    message: str = "the plane's API server was not asked yet"
    cluster_uid: str = ""
    # What it must still make by itself before its first pod can be created; empty if nothing, or if that was not asked.
    lacks: str = ""
    # In so many seconds it should be asked once more: it lacks something that it could not take or has not made yet.
    again: float | None = None


@dataclass(slots=True)
class _Connection:
    """One plane's client, when its certificate is due, and the CA that signs the next one."""

    client: Client
    address: str
    identity: str
    renew_at: datetime
    authority: Pair

    def kept(self, now: datetime) -> Client:
        """The client; if its certificate is due, it shows another one from its next call on."""
        if now >= self.renew_at:
            wanted = controller_credential()
            pair = issue.issue(wanted, self.authority, now)
            config = replace(self.client.config, client_cert=pair.certificate, client_key=pair.key)
            self.client.transport.renew(config)
            self.renew_at = now + wanted.life / 2
        return self.client


class PlaneAccess:
    """The clients of all planes; close it at the end."""

    def __init__(self, clock: Clock, on_ready: Callable[[str], object], budget: Budget | None = None) -> None:
        self._clock = clock
        self._budget = budget or Budget()
        self._on_ready = on_ready
        self._connections: dict[str, _Connection] = {}
        self._waiters: dict[str, asyncio.Task[None]] = {}

    async def health(self, spec: PlaneSpec, keys: KeyMaterial, addresses: Sequence[str]) -> PlaneHealth:
        """Whether an API server of the plane reports that it is ready. If none does, a task asks the last one until it is.

        Asks the member that answered before first, so that a plane of several members keeps its connection.
        """
        if not addresses:
            return PlaneHealth(message="the plane's pod has no address yet")
        held = self._connections.get(spec.tenant)
        client, why = None, ""
        for address in sorted(addresses, key=lambda address: held is None or address != held.address):
            client = await self._client(spec, keys, address)
            try:
                await client.get_raw("/readyz", timeout=2.0)
            except KubeError as error:
                why = str(error)
            else:
                return PlaneHealth(ready=True, message="the API server answers")
        if client is not None:
            self._wait(spec.tenant, client)
        return PlaneHealth(message=f"the API server does not answer: {why}")

    def plane(self, turn: Turn) -> Plane | None:
        """A plane whose health was asked before, for one turn; None if there is no connection to it."""
        held = self._connections.get(turn.tenant)
        return Plane(held.kept(self._clock.now()), turn) if held is not None else None

    async def bootstrap(self, spec: PlaneSpec, objects: Iterable[Obj], withdrawn: Iterable[Obj] = ()) -> tuple[str, bool]:
        """Apply the objects that belong inside the plane, and delete those that no longer do.

        Returns the plane's identity, the UID of its kube-system namespace, and whether it took all of them.
        """
        async with self._budget.turn(spec.tenant, _BOOTSTRAP_DEADLINE_SECONDS) as turn:
            plane = Plane(self._connections[spec.tenant].client, turn)
            results = await asyncio.gather(
                *(
                    definitions.keep(plane, obj) if obj["kind"] == definitions.KIND else self._apply(plane, obj)
                    for obj in objects
                ),
                *(self._withdraw(plane, obj) for obj in withdrawn),
                return_exceptions=True,
            )
            # Wait for all of them: nothing may still read after the turn.
            for result in results:
                if isinstance(result, BaseException):
                    raise result
            found = await plane.get(kinds.NAMESPACES, "kube-system", shape=_namespace, metadata_only=True)
            return found.metadata.uid, False not in results

    async def lacks(self, spec: PlaneSpec) -> str:
        """What the plane's controllers have not made yet without which no pod is accepted; empty if nothing is missing."""
        async with self._budget.turn(spec.tenant, _BOOTSTRAP_DEADLINE_SECONDS) as turn:
            plane = Plane(self._connections[spec.tenant].client, turn)
            try:
                await plane.get(kinds.SERVICE_ACCOUNTS, "default", "default", shape=_marked, metadata_only=True)
            except NotFound:
                return "ServiceAccount default of namespace default"
            return ""

    async def forget(self, tenant: str) -> None:
        """Close the client of a tenant's plane."""
        waiter = self._waiters.pop(tenant, None)
        if waiter is not None:
            waiter.cancel()
            await asyncio.wait([waiter])
        connection = self._connections.pop(tenant, None)
        if connection is not None:
            await connection.client.__aexit__(None, None, None)

    async def close(self) -> None:
        """Close every client."""
        for tenant in [*self._connections, *self._waiters]:
            await self.forget(tenant)

    async def _client(self, spec: PlaneSpec, keys: KeyMaterial, address: str) -> Client:
        identity = digest(address.encode(), keys.authorities["client"].certificate, keys.authorities["serving"].certificate)
        held = self._connections.get(spec.tenant)
        now = self._clock.now()
        if held is not None and held.identity == identity:
            return held.kept(now)
        await self.forget(spec.tenant)
        wanted = controller_credential()
        authority = keys.authorities["client"]
        pair = issue.issue(wanted, authority, now)
        config = KubeConfig(
            server=f"https://{address}:{API_PORT}",
            ca=keys.authorities["serving"].certificate,
            client_cert=pair.certificate,
            client_key=pair.key,
            tls_server_name=PLANE,
        )
        client = Client(
            config,
            user_agent="bulkhead-controller",
            field_manager="bulkhead-controller",
            timeout=10.0,
            # For /readyz, the only call without a turn.
            max_body=_READYZ_ANSWER_BYTES,
            connections=_MAX_CONNECTIONS,
        )
        await client.__aenter__()
        self._connections[spec.tenant] = _Connection(client, address, identity, now + wanted.life / 2, authority)
        return client

    def _wait(self, tenant: str, client: Client) -> None:
        running = self._waiters.get(tenant)
        if running is None or running.done():
            self._waiters[tenant] = asyncio.create_task(self._poll(tenant, client), name=f"waiting for plane {tenant}")

    async def _poll(self, tenant: str, client: Client) -> None:
        started = self._clock.monotonic()
        while True:
            try:
                await client.get_raw("/readyz", timeout=2.0)
            except KubeError:
                fast = self._clock.monotonic() - started < _POLLS_FAST_FOR_SECONDS
                await self._clock.sleep(_FAST_POLL_PERIOD_SECONDS if fast else _SLOW_POLL_PERIOD_SECONDS)
                continue
            self._on_ready(tenant)
            return

    async def _apply(self, plane: Plane, obj: Obj) -> None:
        resource = kinds.resource_of(str(obj["apiVersion"]), str(obj["kind"]))
        for left in range(_NAMESPACE_TRIES, 0, -1):
            try:
                await plane.apply(resource, obj)
            except NotFound:
                # A plane that has just become ready creates kube-system a moment later.
                if left == 1:
                    raise
                await self._clock.sleep(_FAST_POLL_PERIOD_SECONDS)
            else:
                return

    async def _withdraw(self, plane: Plane, obj: Obj) -> None:
        """Delete an object of Bulkhead's. A tenant's object with this name stays; an older plane may lack the kind."""
        resource, name = kinds.resource_of(str(obj["apiVersion"]), str(obj["kind"])), str(obj["metadata"]["name"])
        space: str | None = obj["metadata"].get("namespace")
        try:
            there = await plane.get(resource, name, space, shape=_marked, metadata_only=True)
        except NotFound:
            return
        if labels.is_platforms({"metadata": {"labels": there.metadata.labels}}):
            await plane.delete(resource, name, space, uid=there.metadata.uid)
