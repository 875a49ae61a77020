"""Reads SharedVolumes and the PersistentVolumes that they name, and reads and writes tenants' volumes and claims on the host.

    SharedVolumes ──> informer ──> a look for every tenant, at once
    PersistentVolume that one names ──> read during a look, and cached for 30 s
    the platform's volumes of all tenants ──> informer ──> directories that pods may write to

Absence counts only if the host reports it: until SharedVolumes have been read, all of them are unknown. Directories that
tenants may write to come from the existing volumes, not from SharedVolumes. So they are known after a restart too, if a
SharedVolume cannot be read, and if it was deleted or became read-only while pods still use it as it was.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable

import msgspec

from bulkhead.api import labels, names
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, text
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.codec import compact, decode_obj
from bulkhead.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.objects import Meta
from bulkhead.work.clock import Clock
from controller.shares.content import Absent, Unusable
from controller.shares.volumes.decide import Claim, Make, Remove, Step, There, Volume
from controller.shares.volumes.objects import host_claim, host_volume
from controller.shares.volumes.offers import Offer, Written, is_for, offer_of, volume_named, written_of

_READ_AGAIN_SECONDS = 30.0
_CACHE_BYTES = 16 * 1024 * 1024
_MOST_PODS = 5000
_PAGE_PODS = 250
_Found = Obj | Absent | Unusable


class _Name(msgspec.Struct, frozen=True):
    name: str = ""


class _Reference(msgspec.Struct, frozen=True, rename="camel"):
    claim_name: str = ""


class _Mount(msgspec.Struct, frozen=True, rename="camel"):
    persistent_volume_claim: _Reference | None = None


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    volumes: tuple[_Mount, ...] = ()
    node_name: str = ""


class _Pod(msgspec.Struct, frozen=True):
    """The fields that are read from a pod."""

    metadata: _Name = _Name()
    spec: _PodSpec = _PodSpec()

    @property
    def claims(self) -> frozenset[str]:
        """The claims that it uses; none before it has a node."""
        mounts = self.spec.volumes if self.spec.node_name else ()
        return frozenset(mount.persistent_volume_claim.claim_name for mount in mounts if mount.persistent_volume_claim)


_pod = msgspec.json.Decoder(_Pod)


def _writable(raw: bytes | msgspec.Raw, meta: Meta | None) -> tuple[Meta, bytes]:
    """A `shrink` that keeps only volumes that pods may write to."""
    found, body = compact(raw, meta)
    return found, body if written_of(decode_obj(body)) is not None else b""


class HostVolumes:
    """The shared volumes of the host."""

    def __init__(self, client: Client, clock: Clock, types: Iterable[str], on_change: Callable[[], object]) -> None:
        self._client = client
        self._clock = clock
        self._types = tuple(types)
        # Cached, because every tenant needs all of them, at each of its reconciles too.
        self._decoded: list[Obj] | None = None

        def heard(_: Change) -> None:
            self._decoded = None
            on_change()

        # During an upgrade the kind does not exist until its definition is installed.
        self._shared = Informer(client, kinds.SHARED_VOLUMES, on_change=heard, max_bytes=_CACHE_BYTES, optional=True)
        self._made = Informer(
            client,
            kinds.PERSISTENT_VOLUMES,
            label_selector=f"{labels.MANAGED_BY}={labels.MANAGED_BY_BULKHEAD},{labels.SHARED_VOLUME}",
            shrink=_writable,
            max_bytes=_CACHE_BYTES,
        )
        self._volumes: dict[str, tuple[float, _Found]] = {}

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._shared.run())
            group.create_task(self._made.run())

    def given(self, tenant: str, class_name: str) -> frozenset[str] | None:
        """The SharedVolumes that are granted to a tenant; None if that is not known yet."""
        if not (self._shared.has_synced and self._made.has_synced):
            return None
        return frozenset(text(obj["metadata"]["name"]) for obj in self._all() if is_for(obj, tenant, class_name))

    async def offers(self) -> dict[str, Offer | Unusable]:
        """The present offer of each SharedVolume, or why it has none."""
        return {text(obj["metadata"]["name"]): await self._offer(obj) for obj in self._all()}

    def written(self) -> tuple[Written, ...]:
        """The directories that pods of any tenant may write to through the platform's volumes."""
        return tuple(made for made in map(written_of, self._made.store.objects()) if made is not None)

    async def holders(self, tenant: str, claims: Collection[str]) -> dict[str, tuple[str, ...]]:
        """The pods of a tenant that use these claims, by claim; if there are too many pods, only those that were read."""
        found: dict[str, tuple[str, ...]] = {}
        if not claims:
            return found
        read = 0
        async for page in self._client.pages(kinds.PODS, names.work_namespace(tenant), limit=_PAGE_PODS):
            for raw in page.items:
                pod = _pod.decode(raw)
                for claim in pod.claims & frozenset(claims):
                    found[claim] = (*found.get(claim, ()), pod.metadata.name)
            read += len(page.items)
            if read >= _MOST_PODS:
                break
        return found

    async def there(self, tenant: str) -> There:
        """The volumes and claims of one tenant on the host."""
        selector = f"{labels.tenant_selector(tenant)},{labels.SHARED_VOLUME}"
        volumes = await self._client.list(kinds.PERSISTENT_VOLUMES, label_selector=selector)
        claims = await self._client.list(kinds.PERSISTENT_VOLUME_CLAIMS, names.work_namespace(tenant), label_selector=selector)
        return There(tuple(map(volume_of, volumes.items)), tuple(map(claim_of, claims.items)))

    async def do(self, step: Step) -> None:
        """Do one step on the host."""
        match step:
            case Make("volume", grant, _):
                await self._create(host_volume(grant))
            case Make("claim", grant, _):
                await self._create(host_claim(grant))
            case Remove(kind, namespace, name, uid):
                r = kinds.PERSISTENT_VOLUMES if kind == "volume" else kinds.PERSISTENT_VOLUME_CLAIMS
                try:
                    await self._client.delete(r, name, namespace or None, uid=uid)
                except (NotFound, Conflict):
                    return
            case _:
                raise TypeError(f"not a step on the host: {step}")

    async def _create(self, obj: Obj) -> None:
        r = kinds.resource_of("v1", str(obj["kind"]))
        try:
            await self._client.create(r, obj)
        except AlreadyExists:
            # An object of another owner, or one that was created just now: the next look decides.
            return

    def _all(self) -> list[Obj]:
        if self._decoded is None:
            self._decoded = list(self._shared.store.objects())
        return self._decoded

    async def _offer(self, shared: Obj) -> Offer | Unusable:
        named = volume_named(shared)
        return offer_of(shared, await self._volume(named) if named else None, self._types)

    async def _volume(self, name: str) -> _Found:
        now = self._clock.monotonic()
        at, found = self._volumes.get(name, (0.0, None))
        if found is None or now - at > _READ_AGAIN_SECONDS:
            found = await self._read(name)
            self._volumes = {key: kept for key, kept in self._volumes.items() if now - kept[0] <= _READ_AGAIN_SECONDS}
            self._volumes[name] = (now, found)
        return found

    async def _read(self, name: str) -> _Found:
        try:
            return await self._client.get(kinds.PERSISTENT_VOLUMES, name)
        except NotFound:
            return Absent()
        except KubeError as error:
            return Unusable(f"PersistentVolume {name} could not be read: {error}")


def volume_of(obj: Obj) -> Volume:
    """A volume as decisions see it."""
    meta = obj["metadata"]
    return Volume(
        name=text(meta.get("name")),
        shared=text(mapping(meta.get("labels")).get(labels.SHARED_VOLUME)),
        uid=text(meta.get("uid")),
        phase=text(mapping(obj.get("status")).get("phase")),
        digest=text(mapping(meta.get("annotations")).get(labels.SHARED_DIGEST)),
        going="deletionTimestamp" in meta,
    )


def claim_of(obj: Obj) -> Claim:
    """A claim as decisions see it."""
    meta = obj["metadata"]
    return Claim(
        namespace=text(meta.get("namespace")),
        name=text(meta.get("name")),
        shared=text(mapping(meta.get("labels")).get(labels.SHARED_VOLUME)),
        uid=text(meta.get("uid")),
        phase=text(mapping(obj.get("status")).get("phase")),
        volume=text(mapping(obj.get("spec")).get("volumeName")),
        going="deletionTimestamp" in meta,
    )
