"""SharedVolumes and the PersistentVolumes they name, as the host has them, and a tenant's own volumes and claims on the host.

    SharedVolumes ──> informer ──> every tenant looks at once
    PersistentVolume that one names ──> read when a tenant looks, and kept for half a minute
    volumes of ours, of all tenants ──> informer ──> what pods may write to

That something is not there is believed only when the host says so: until SharedVolumes were read, nothing is known of any.
What tenants may write to is read of the volumes that there are, and not of what SharedVolumes say or once said: so it is known
after a restart too, of one that cannot be read, and of one that was deleted or is read-only now while pods have it as it was.
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
    """What is read of a pod."""

    metadata: _Name = _Name()
    spec: _PodSpec = _PodSpec()

    @property
    def claims(self) -> frozenset[str]:
        """The claims that it has; none before it was given a node."""
        mounts = self.spec.volumes if self.spec.node_name else ()
        return frozenset(mount.persistent_volume_claim.claim_name for mount in mounts if mount.persistent_volume_claim)


_pod = msgspec.json.Decoder(_Pod)


def _writable(raw: bytes | msgspec.Raw, meta: Meta | None) -> tuple[Meta, bytes]:
    """Nothing is kept of a volume by which nothing is written."""
    found, body = compact(raw, meta)
    return found, body if written_of(decode_obj(body)) is not None else b""


class HostVolumes:
    """One host."""

    def __init__(self, client: Client, clock: Clock, types: Iterable[str], on_change: Callable[[], object]) -> None:
        self._client = client
        self._clock = clock
        self._types = tuple(types)
        # Every tenant asks for all of them, at each of its reconciles too.
        self._decoded: list[Obj] | None = None

        def heard(_: Change) -> None:
            self._decoded = None
            on_change()

        # Before the definitions of an upgrade have come there is no such kind.
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
        """Keep up until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._shared.run())
            group.create_task(self._made.run())

    def given(self, tenant: str, class_name: str) -> frozenset[str] | None:
        """The SharedVolumes that a tenant is given; None: that is not known yet."""
        if not (self._shared.has_synced and self._made.has_synced):
            return None
        return frozenset(text(obj["metadata"]["name"]) for obj in self._all() if is_for(obj, tenant, class_name))

    async def offers(self) -> dict[str, Offer | Unusable]:
        """What each SharedVolume is now."""
        return {text(obj["metadata"]["name"]): await self._offer(obj) for obj in self._all()}

    def written(self) -> tuple[Written, ...]:
        """What pods of any tenant may write to by volumes of ours."""
        return tuple(made for made in map(written_of, self._made.store.objects()) if made is not None)

    async def holders(self, tenant: str, claims: Collection[str]) -> dict[str, tuple[str, ...]]:
        """The pods of a tenant that have claims, by claim; of so many pods that no more are read, those that were."""
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
        """What the host has for one tenant."""
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
            # Another's, or one that came just now: the next look sees which.
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
            return Unusable(f"PersistentVolume {name} was not read: {error}")


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
