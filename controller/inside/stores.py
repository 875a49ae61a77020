"""Observes how full planes' stores are and frees space in them, with requests to etcd only.

    with each reconcile: /v3/maintenance/status of each member ──> Store ──> condition StoreHasRoom
    a store that is full, or mostly empty pages: compact ─> defragment ─> disarm the alarm      in its own task

etcd is the platform's own program. It is reached at the pod's address with a certificate that is only in memory. Keys and
values are never read or written. Nothing is remembered that a restart would lose: each step is decided from what etcd reports
then.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import msgspec

from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.work.clock import Clock
from controller.pki import issue
from controller.plane.pki import etcd_credential
from controller.plane.secrets import KeyMaterial
from controller.plane.spec import ETCD_HTTP_PORT, PlaneSpec
from controller.plane.storestate import Member, Store, compacts_to, opens, store_of, to_defragment

_log = logging.getLogger(__name__)
_MAINTENANCE: Final = "/v3/maintenance"
_ANSWER_BYTES: Final = 64 * 1024
_REQUEST_DEADLINE_SECONDS: Final = 3.0
_COMPACT_DEADLINE_SECONDS: Final = 60.0
_DEFRAGMENT_DEADLINE_SECONDS: Final = 120.0
# The age of the revision up to which old versions are compacted.
_HISTORY_KEPT_SECONDS: Final = 10.0
_NO_SPACE: Final = "NOSPACE"


class _Header(msgspec.Struct, gc=False):
    revision: str = "0"


class _Status(msgspec.Struct, gc=False, rename="camel"):
    """Numbers come as text; zeros are left out."""

    header: _Header = msgspec.field(default_factory=_Header)
    db_size: str = "0"
    db_size_in_use: str = "0"
    db_size_quota: str = "0"


class _Alarm(msgspec.Struct, gc=False):
    member: str = msgspec.field(default="0", name="memberID")
    alarm: str = ""


class _Alarms(msgspec.Struct, gc=False):
    alarms: list[_Alarm] = []


_status = msgspec.json.Decoder(_Status)
_alarms = msgspec.json.Decoder(_Alarms)


class Stores:
    """The stores of all planes; close it at the end."""

    def __init__(self, clock: Clock, on_change: Callable[[str], object], *, port: int = ETCD_HTTP_PORT) -> None:
        self._clock = clock
        self._on_change = on_change
        self._port = port
        self._known: dict[str, Store] = {}
        self._mending: dict[str, asyncio.Task[None]] = {}
        # The revision and its time, for planes whose store is full.
        self._earlier: dict[str, tuple[float, int]] = {}
        self._compacted: dict[str, int] = {}

    async def look(self, spec: PlaneSpec, keys: KeyMaterial, addresses: Mapping[str, str]) -> Store:
        """The state of a plane's store; starts to free space if that is needed. `addresses` are those of its pods."""
        if not addresses:
            return Store(unread="the plane's pod has no address yet")
        if self._is_mending(spec.tenant):
            # A member does not answer while it is being defragmented.
            return self._known[spec.tenant]
        store = self._known[spec.tenant] = await self._ask(keys, addresses)
        earlier = self._revision_before(spec.tenant, store)
        if compacts_to(store, earlier, self._compacted.get(spec.tenant, 0)) or to_defragment(store) or opens(store):
            work = self._mend(spec, keys, dict(addresses), earlier)
            self._mending[spec.tenant] = asyncio.create_task(work, name=f"making room in the store of {spec.tenant}")
        return store

    async def forget(self, tenant: str) -> None:
        """Drop a deleted tenant."""
        self._earlier.pop(tenant, None)
        self._known.pop(tenant, None)
        self._compacted.pop(tenant, None)
        task = self._mending.pop(tenant, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def close(self) -> None:
        """End all tasks."""
        for tenant in list(self._mending):
            await self.forget(tenant)

    def _is_mending(self, tenant: str) -> bool:
        task = self._mending.get(tenant)
        return task is not None and not task.done()

    def _revision_before(self, tenant: str, store: Store) -> int:
        """The revision of a full store a while ago; 0 at the first look."""
        if not store.full:
            self._earlier.pop(tenant, None)
            self._compacted.pop(tenant, None)
            return 0
        now = self._clock.monotonic()
        at, revision = self._earlier.setdefault(tenant, (now, store.revision))
        if now - at < _HISTORY_KEPT_SECONDS:
            return 0
        self._earlier[tenant] = (now, store.revision)
        return revision

    async def _ask(self, keys: KeyMaterial, addresses: Mapping[str, str]) -> Store:
        answers = await asyncio.gather(*(self._member(keys, pod, addresses[pod]) for pod in sorted(addresses)))
        return store_of(answers)

    async def _member(self, keys: KeyMaterial, pod: str, address: str) -> Member | str:
        try:
            async with self.client(keys, address) as client:
                status = _status.decode(await _call(client, "status", {}))
                raised = _alarms.decode(await _call(client, "alarm", {"action": "GET"})).alarms
                return Member(
                    pod,
                    size=int(status.db_size),
                    used=int(status.db_size_in_use),
                    quota=int(status.db_size_quota),
                    revision=int(status.header.revision),
                    alarms=tuple(alarm.member for alarm in raised if alarm.alarm == _NO_SPACE),
                )
        except (KubeError, TimeoutError, msgspec.MsgspecError, ValueError) as error:
            return f"etcd of pod {pod} does not answer: {error}"

    async def _mend(self, spec: PlaneSpec, keys: KeyMaterial, addresses: Mapping[str, str], earlier: int) -> None:
        """Free space, one member after another; each step is decided from what etcd reports before it."""
        extra = {"tenant": spec.tenant}
        try:
            store = await self._ask(keys, addresses)
            if revision := compacts_to(store, earlier, self._compacted.get(spec.tenant, 0)):
                async with self.client(keys, next(iter(addresses.values()))) as client:
                    await self.compact(client, revision)
                self._compacted[spec.tenant] = revision
                store = await self._ask(keys, addresses)
            for member in to_defragment(store):
                _log.info("defragmenting %s: %d of %d bytes are used", member.name, member.used, member.size, extra=extra)
                async with self.client(keys, addresses[member.name]) as client:
                    await _call(client, "defragment", {}, timeout=_DEFRAGMENT_DEADLINE_SECONDS)
                store = await self._ask(keys, addresses)
            if opens(store):
                _log.info("the store accepts writes again: %d bytes of %d", store.size, store.quota, extra=extra)
                async with self.client(keys, next(iter(addresses.values()))) as client:
                    for alarm in store.alarms:
                        await _call(client, "alarm", {"action": "DEACTIVATE", "memberID": alarm, "alarm": _NO_SPACE})
        except (KubeError, TimeoutError) as error:
            _log.warning("cannot free space in the store: %s", error, extra=extra)
            return
        # The task is removed before it enqueues the tenant, so that the following reconcile looks again.
        if self._mending.get(spec.tenant) is asyncio.current_task():
            del self._mending[spec.tenant]
        self._on_change(spec.tenant)

    @staticmethod
    async def compact(client: Client, revision: int) -> None:
        """Compact etcd up to a revision."""
        body = json.dumps({"revision": str(revision), "physical": True}).encode()
        try:
            await client.transport.request("POST", "/v3/kv/compaction", body=body, timeout=_COMPACT_DEADLINE_SECONDS)
        except KubeError as error:
            # etcd itself or the API server has already compacted further.
            if "compacted" not in str(error):
                raise

    @contextlib.asynccontextmanager
    async def client(self, keys: KeyMaterial, address: str) -> AsyncIterator[Client]:
        """A client for one member."""
        pair = issue.issue(etcd_credential(), keys.authorities["etcd"], self._clock.now())
        config = KubeConfig(
            server=f"https://{address}:{self._port}",
            ca=keys.authorities["etcd"].certificate,
            client_cert=pair.certificate,
            client_key=pair.key,
            tls_server_name="localhost",
        )
        name = "bulkhead-controller"
        async with Client(
            config,
            user_agent=name,
            field_manager=name,
            timeout=_REQUEST_DEADLINE_SECONDS,
            max_body=_ANSWER_BYTES,
            connections=1,
        ) as client:
            yield client


async def _call(client: Client, what: str, body: Mapping[str, Any], timeout: float = _REQUEST_DEADLINE_SECONDS) -> bytes:  # noqa: ASYNC109 - the deadline of the call
    return await client.transport.request("POST", f"{_MAINTENANCE}/{what}", body=json.dumps(body).encode(), timeout=timeout)
